use std::time::Duration;

use sa_core::id::WorkerId;
use sa_core::job::Lane;
use sa_core::pulse::{Pulse, PulseRole};
use sa_core::repo::pulse::{self, ReaperTurn};

use crate::arrange::{count, database, sql};

fn worker() -> Pulse {
    let second = Duration::from_secs(1);
    Pulse::of_this_process(WorkerId::new(), PulseRole::Worker, second, second * 4, vec![Lane::new("echo")])
}

#[tokio::test]
async fn a_pulse_is_one_row_that_moves() {
    let (database, db) = database().await;
    assert_eq!(pulse::newest_worker_age(&db).await.unwrap(), None);
    let mut mine = worker();
    pulse::record(&db, &mine).await.unwrap();
    sql(&database, "UPDATE sa_pulse SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR").await;
    assert!(pulse::newest_worker_age(&db).await.unwrap().unwrap() >= Duration::from_secs(3600));
    mine.in_flight = 3;
    pulse::record(&db, &mine).await.unwrap();
    assert!(pulse::newest_worker_age(&db).await.unwrap().unwrap() < Duration::from_secs(60));
    assert_eq!(count(&database, "SELECT CAST(in_flight AS SIGNED) FROM sa_pulse").await, 3);
    pulse::end(&db, mine.worker).await.unwrap();
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_pulse WHERE ended_at IS NOT NULL AND in_flight = 0").await, 1);
}

fn reaper() -> Pulse {
    Pulse { worker: WorkerId::from_uuid(uuid::Uuid::nil()), role: PulseRole::Reaper, ..worker() }
}

#[tokio::test]
async fn after_an_outage_the_reaper_waits_two_beats_before_it_takes_anything() {
    let (database, db) = database().await;
    let mine = reaper();
    let begins = || pulse::reaper_begins(&db, &mine);
    assert_eq!(begins().await.unwrap(), ReaperTurn::Reclaim, "a first run has no outage behind it");
    assert_eq!(begins().await.unwrap(), ReaperTurn::Reclaim);
    sql(&database, "UPDATE sa_pulse SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 121 SECOND").await;
    assert!(matches!(begins().await.unwrap(), ReaperTurn::WaitAfterOutage { .. }));
    assert!(matches!(begins().await.unwrap(), ReaperTurn::WaitAfterOutage { .. }), "two beats are not over");
    sql(&database, "UPDATE sa_pulse SET resumed_at = UTC_TIMESTAMP(6) - INTERVAL 3 SECOND").await;
    assert_eq!(begins().await.unwrap(), ReaperTurn::Reclaim);
    // A worker that beats more slowly gets its own two beats.
    let slow = Pulse { beat: Duration::from_secs(30), ..worker() };
    pulse::record(&db, &slow).await.unwrap();
    assert!(matches!(begins().await.unwrap(), ReaperTurn::WaitAfterOutage { .. }));
}

#[tokio::test]
async fn the_reapers_run_is_recorded_and_old_pulses_go() {
    let (database, db) = database().await;
    pulse::record(&db, &worker()).await.unwrap();
    pulse::record(&db, &worker()).await.unwrap();
    sql(&database, "UPDATE sa_pulse SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 8 DAY LIMIT 1").await;
    pulse::reaper_ran(&db, &reaper()).await.unwrap();
    pulse::reaper_ran(&db, &reaper()).await.unwrap();
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_pulse WHERE role = 'reaper'").await, 1);
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_pulse WHERE role = 'worker'").await, 1);
}
