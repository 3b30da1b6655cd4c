use std::collections::BTreeSet;
use std::time::Duration;

use sa_core::death::Here;
use sa_core::id::WorkerId;
use sa_core::pulse::{Pulse, PulseRole};
use sa_core::repo::{Db, pulse};

use crate::arrange::{count, database, sql};

const PULSES: &str = "SELECT COUNT(*) FROM sa_pulse";

fn one_shot() -> Pulse {
    let second = Duration::from_secs(1);
    Pulse::of_this_process(WorkerId::new(), PulseRole::Worker, second * 30, second * 225, vec![])
}

/// Seen from a machine that knows nothing, so that nobody is proven dead.
async fn take(db: &Db, pulse: &Pulse, slots: u8) -> Option<u8> {
    pulse::take_slot(db, pulse, slots, &Here::default()).await.unwrap()
}

#[tokio::test]
async fn each_takes_the_lowest_free_slot_and_one_more_leaves_no_trace() {
    let (database, db) = database().await;
    let (first, second) = (one_shot(), one_shot());
    assert_eq!(take(&db, &first, 2).await, Some(1));
    assert_eq!(take(&db, &second, 2).await, Some(2));
    assert_eq!(take(&db, &one_shot(), 2).await, None);
    assert_eq!(count(&database, PULSES).await, 2);
    assert_eq!(take(&db, &one_shot(), 3).await, Some(3), "more places for one who was told of more");
    pulse::record(&db, &first).await.unwrap();
    assert_eq!(take(&db, &one_shot(), 2).await, None, "a beat keeps the place");
    pulse::end(&db, first.worker).await.unwrap();
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_pulse WHERE slot = 1").await, 0);
    assert_eq!(take(&db, &one_shot(), 2).await, Some(1));
}

#[tokio::test]
async fn racing_one_shots_never_share_a_slot() {
    let (database, db) = database().await;
    for round in 1..=5_i64 {
        let mut race = tokio::task::JoinSet::new();
        for _ in 0..12 {
            let db = db.clone();
            race.spawn(async move { take(&db, &one_shot(), 3).await });
        }
        let taken: Vec<u8> = race.join_all().await.into_iter().flatten().collect();
        assert_eq!((taken.len(), taken.into_iter().collect()), (3, BTreeSet::from([1, 2, 3])));
        assert_eq!(count(&database, PULSES).await, 3 * round);
        // The next round has to take the places of this one from it.
        sql(&database, "UPDATE sa_pulse SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 90 SECOND").await;
    }
}

#[tokio::test]
async fn three_missed_beats_free_a_slot_and_a_beat_meanwhile_keeps_it() {
    let (database, db) = database().await;
    let holder = one_shot();
    assert_eq!(take(&db, &holder, 1).await, Some(1));
    sql(&database, "UPDATE sa_pulse SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 85 SECOND").await;
    assert_eq!(take(&db, &one_shot(), 1).await, None);
    sql(&database, "UPDATE sa_pulse SET seen_at = UTC_TIMESTAMP(6) - INTERVAL 90 SECOND").await;
    assert_eq!(take(&db, &one_shot(), 1).await, Some(1));
    assert_eq!(count(&database, "SELECT COUNT(*) FROM sa_pulse WHERE slot IS NULL").await, 1);
    pulse::record(&db, &holder).await.unwrap();
    assert_eq!(
        count(&database, "SELECT COUNT(*) FROM sa_pulse WHERE slot IS NULL").await,
        1,
        "its beat takes nothing back"
    );
}

#[tokio::test]
async fn a_slot_of_one_who_ended_is_free_however_it_was_left() {
    let (database, db) = database().await;
    assert_eq!(take(&db, &one_shot(), 1).await, Some(1));
    sql(&database, "UPDATE sa_pulse SET ended_at = UTC_TIMESTAMP(6)").await;
    assert_eq!(take(&db, &one_shot(), 1).await, Some(1));
}

#[tokio::test]
async fn only_a_proof_of_death_frees_the_slot_of_one_who_beats() {
    let (database, db) = database().await;
    assert_eq!(take(&db, &one_shot(), 1).await, Some(1));
    let here = Here::of_this_process();
    assert_eq!(pulse::take_slot(&db, &one_shot(), 1, &here).await.unwrap(), None, "its process is this one");
    sql(&database, "UPDATE sa_pulse SET start_time = start_time + 1").await;
    assert_eq!(pulse::take_slot(&db, &one_shot(), 1, &here).await.unwrap(), Some(1));
}
