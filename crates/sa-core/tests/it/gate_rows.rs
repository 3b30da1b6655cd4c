//! The rows of the gates, whole: what each act leaves in its lane, and that it leaves the other lanes alone.

use sa_core::error_kind::ErrorKind;
use sa_core::gate::{effect, trial_effect};
use sa_core::job::Lane;
use sa_core::repo::{Outcome, gate};

use crate::arrange::{claimer, count, database, finish, prompt, sql, submit};

/// A lane in every way not well, and an open one with many errors: rows that nobody has touched for long.
const BYSTANDERS: &str = "INSERT INTO sa_provider_gate
         (lane, closed_until, reason, closures, errors_in_row, trial_claim, trial_at, updated_at)
     VALUES ('other', '2026-01-01', 'quota', 3, 2, 'w.1', '2026-01-02', '2026-01-03'),
            ('before', NULL, NULL, 0, 9, NULL, NULL, '2026-01-03')";
const UNTOUCHED: &str = "SELECT COUNT(*) FROM sa_provider_gate
      WHERE lane = 'before' AND closed_until IS NULL AND errors_in_row = 9 AND updated_at = '2026-01-03'
         OR lane = 'other' AND closed_until = '2026-01-01' AND reason = 'quota' AND closures = 3 AND errors_in_row = 2
        AND trial_claim = 'w.1' AND trial_at = '2026-01-02' AND updated_at = '2026-01-03'";
/// As if nothing had ever happened, but for the time of the act.
const FORGOTTEN: &str = "SELECT COUNT(*) FROM sa_provider_gate
      WHERE lane = 'echo' AND closed_until IS NULL AND reason IS NULL AND closures = 0 AND errors_in_row = 0
        AND trial_claim IS NULL AND trial_at IS NULL AND updated_at > '2026-06-01'";
const LONG_AGO: &str = "UPDATE sa_provider_gate SET updated_at = '2026-01-03' WHERE lane = 'echo'";
const TOUCHED: &str = "SELECT COUNT(*) FROM sa_provider_gate WHERE lane = 'echo' AND updated_at > '2026-06-01'";
const WAITED_OUT: &str =
    "UPDATE sa_provider_gate SET closed_until = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE lane = 'echo'";

#[tokio::test]
async fn each_act_writes_its_own_lane_whole_and_no_other() {
    let (database, db) = database().await;
    let echo = Lane::new("echo");
    sql(&database, BYSTANDERS).await;
    submit(&db, prompt("p")).await;
    let server_error = effect(ErrorKind::Provider5xx, None);

    gate::failed(&db, &echo, ErrorKind::Provider5xx, server_error).await.unwrap();
    sql(&database, LONG_AGO).await;
    gate::failed(&db, &echo, ErrorKind::Provider5xx, server_error).await.unwrap();
    assert_eq!(count(&database, TOUCHED).await, 1, "an error in a row");
    let open =
        "SELECT COUNT(*) FROM sa_provider_gate WHERE lane = 'echo' AND closed_until IS NULL AND errors_in_row = 2";
    assert_eq!(count(&database, open).await, 1, "two are not five, whatever other lanes have");
    sql(&database, LONG_AGO).await;
    gate::failed(&db, &echo, ErrorKind::Quota, effect(ErrorKind::Quota, None)).await.unwrap();
    let closed = "SELECT COUNT(*) FROM sa_provider_gate WHERE lane = 'echo' AND errors_in_row = 0 AND closures = 1";
    assert_eq!((count(&database, closed).await, count(&database, TOUCHED).await), (1, 1), "a closure ends the row");
    gate::failed(&db, &echo, ErrorKind::Provider5xx, server_error).await.unwrap();
    assert_eq!(count(&database, closed).await, 1, "what fails while it is closed is no new row");

    sql(&database, WAITED_OUT).await;
    sql(&database, LONG_AGO).await;
    let trial = claimer().claim(&db, 1).await.unwrap().remove(0);
    assert_eq!(count(&database, TOUCHED).await, 1, "a trial");
    sql(&database, LONG_AGO).await;
    gate::trial_over(&db, &echo, trial.id()).await.unwrap();
    let free = "SELECT COUNT(*) FROM sa_provider_gate WHERE lane = 'echo' AND trial_claim IS NULL AND trial_at IS NULL";
    assert_eq!((count(&database, free).await, count(&database, TOUCHED).await), (1, 1), "a trial that is over");
    assert_eq!(finish(&db, trial.release(Vec::new())).await, Outcome::Written);

    let trial = claimer().claim(&db, 1).await.unwrap().remove(0);
    gate::failed(&db, &echo, ErrorKind::Timeout, trial_effect(ErrorKind::Timeout, None)).await.unwrap();
    assert_eq!(count(&database, free).await, 1, "a trial that failed");
    assert_eq!(finish(&db, trial.release(Vec::new())).await, Outcome::Written);

    sql(&database, WAITED_OUT).await;
    let trial = claimer().claim(&db, 1).await.unwrap().remove(0);
    sql(&database, LONG_AGO).await;
    gate::succeeded(&db, &echo, trial.id()).await.unwrap();
    assert_eq!(count(&database, FORGOTTEN).await, 1, "a trial that succeeded");

    gate::failed(&db, &echo, ErrorKind::Quota, effect(ErrorKind::Quota, None)).await.unwrap();
    sql(
        &database,
        "UPDATE sa_provider_gate SET errors_in_row = 1, trial_claim = 'w.2', trial_at = updated_at WHERE lane = 'echo'",
    )
    .await;
    sql(&database, LONG_AGO).await;
    assert!(gate::open(&db, &echo).await.unwrap());
    assert_eq!(count(&database, FORGOTTEN).await, 1, "an operator's word");
    sql(&database, LONG_AGO).await;
    assert!(!gate::open(&db, &echo).await.unwrap());
    assert_eq!(count(&database, TOUCHED).await, 0, "what is open is left alone");

    assert_eq!(count(&database, UNTOUCHED).await, 2);
    assert_eq!(finish(&db, trial.release(Vec::new())).await, Outcome::Written);
}
