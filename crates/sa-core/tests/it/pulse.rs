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

/// A worker is started anew under its old id, elsewhere and with other limits: its row says all of it, and that it lives.
#[tokio::test]
async fn a_pulse_says_everything_anew() {
    let (database, db) = database().await;
    let first = worker();
    pulse::record(&db, &first).await.unwrap();
    pulse::end(&db, first.worker).await.unwrap();
    sql(&database, "UPDATE sa_pulse SET seen_at = '2001-01-01'").await;
    let second = Pulse {
        host: "elsewhere".into(),
        machine_id: Some("machine".into()),
        boot_id: Some("boot".into()),
        pid: 11,
        pid_namespace: Some(12),
        start_time: Some(13),
        version: "9.9.9".into(),
        lanes: vec![Lane::new("other")],
        in_flight: 14,
        beat: Duration::from_millis(15),
        stale: Duration::from_millis(16),
        ..first
    };
    pulse::record(&db, &second).await.unwrap();
    let said: String = sqlx::query_scalar(
        "SELECT CONCAT_WS(' ', host, machine_id, boot_id, pid, pid_namespace, start_time, version, lanes, in_flight,
                beat_ms, stale_ms, IFNULL(ended_at, 'lives'), YEAR(seen_at) > 2001) FROM sa_pulse",
    )
    .fetch_one(database.pool())
    .await
    .unwrap();
    assert_eq!(said, "elsewhere machine boot 11 12 13 9.9.9 [\"other\"] 14 15 16 lives 1");
}

#[tokio::test]
async fn an_end_is_one_workers_and_the_last_that_is_seen_of_it() {
    let (database, db) = database().await;
    let [ended, other] = [worker(), worker()];
    for pulse in [&ended, &other] {
        pulse::record(&db, &Pulse { in_flight: 2, ..pulse.clone() }).await.unwrap();
    }
    sql(&database, "UPDATE sa_pulse SET seen_at = '2001-01-01'").await;
    pulse::end(&db, ended.worker).await.unwrap();
    let ids: Vec<WorkerId> = sqlx::query_scalar(
        "SELECT id FROM sa_pulse WHERE ended_at = seen_at AND YEAR(seen_at) > 2001 AND in_flight = 0",
    )
    .fetch_all(database.pool())
    .await
    .unwrap();
    assert_eq!(ids, [ended.worker]);
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_pulse WHERE ended_at IS NULL AND in_flight = 2").await, 1);
}

#[tokio::test]
async fn a_reaper_is_no_worker_that_lives() {
    let (_database, db) = database().await;
    pulse::record(&db, &reaper()).await.unwrap();
    assert_eq!(pulse::newest_worker_age(&db).await.unwrap(), None);
}

/// Only workers that live are given time after an outage: neither the reaper's own old beat nor that of a worker that ended.
#[tokio::test]
async fn after_an_outage_only_workers_that_live_are_waited_for() {
    let (database, db) = database().await;
    let slow = Duration::from_secs(3600);
    pulse::record(&db, &Pulse { beat: slow, ..reaper() }).await.unwrap();
    let gone = Pulse { beat: slow, ..worker() };
    pulse::record(&db, &gone).await.unwrap();
    pulse::end(&db, gone.worker).await.unwrap();
    sql(&database, "UPDATE sa_pulse SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 121 SECOND WHERE role = 'reaper'").await;
    let ReaperTurn::WaitAfterOutage { again_in } = pulse::reaper_begins(&db, &reaper()).await.unwrap() else {
        panic!("there was an outage")
    };
    assert!(again_in <= Duration::from_secs(2), "two of the reaper's own beats: {again_in:?}");
    let resumed = "SELECT COUNT(*) FROM sa_pulse WHERE resumed_at IS NOT NULL AND role = 'worker'";
    assert_eq!(count(&database, resumed).await, 0, "it is the reaper that came back");
}

/// The reaper's own last run counts, whatever other rows there are.
#[tokio::test]
async fn an_outage_is_the_reapers_own() {
    let (database, db) = database().await;
    for _ in 0..3 {
        pulse::record(&db, &worker()).await.unwrap();
    }
    sql(&database, "UPDATE sa_pulse SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR").await;
    assert_eq!(pulse::reaper_begins(&db, &reaper()).await.unwrap(), ReaperTurn::Reclaim, "its first run ever");
    assert_eq!(pulse::reaper_begins(&db, &reaper()).await.unwrap(), ReaperTurn::Reclaim);
}

#[tokio::test]
async fn a_reapers_row_does_not_go_with_the_old_ones() {
    let (database, db) = database().await;
    let elsewhere = Pulse { worker: WorkerId::new(), ..reaper() };
    pulse::record(&db, &elsewhere).await.unwrap();
    sql(&database, "UPDATE sa_pulse SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 8 DAY").await;
    pulse::reaper_ran(&db, &reaper()).await.unwrap();
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_pulse").await, 2);
}
