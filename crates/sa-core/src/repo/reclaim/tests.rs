use std::time::Duration;

use sa_harness::Database;

use super::*;
use crate::id::WorkerId;
use crate::job::{ExecutionOptions, Lane, MaxAttempts, Priority};
use crate::pulse::{Pulse, PulseRole};
use crate::repo::{self, Claimer, NewPrompt};
use crate::viewer::Viewer;

const STALE: Duration = Duration::from_secs(225);

/// A job that runs under a worker whose process id has never been one.
async fn under_a_dead_worker(db: &Db) -> repo::Claim {
    let viewer = Viewer { org: crate::id::OrgId(1), user: crate::id::UserId(1) };
    let prompt = NewPrompt {
        viewer,
        actor: Actor::user(viewer.user),
        text: "hello".to_owned(),
        root: None,
        options: ExecutionOptions::default(),
        lane: Lane::new("echo"),
        priority: Priority::DEFAULT,
        max_attempts: MaxAttempts::DEFAULT,
        scheduled_for: None,
    };
    repo::enqueue(db, vec![prompt]).await.remove(0).expect("it is stored");
    let worker = WorkerId::new();
    let lanes = vec![Lane::new("echo")];
    let alive = Pulse::of_this_process(worker, PulseRole::Worker, Duration::from_secs(30), STALE, lanes.clone());
    let dead = Pulse { pid: 4_194_304, ..alive };
    repo::pulse::record(db, &dead).await.expect("it is recorded");
    let serves = repo::Serves::only(lanes);
    Claimer::new(worker, serves, Priority::LOWEST).claim(db, 1).await.expect("it is claimed").remove(0)
}

/// Whoever beats lives, whatever was to be seen of its process.
#[tokio::test]
async fn a_beat_after_the_look_keeps_the_job_of_one_taken_for_dead() {
    let database = Database::fresh().await.expect("a database");
    let db = Db::connect(database.url(), 2).await.expect("a connection");
    let claim = under_a_dead_worker(&db).await;
    let actor = Actor::reaper("here");
    let look = async || suspects(&db, STALE, &Here::of_this_process()).await.expect("an answer").remove(0);

    let before = look().await;
    assert!(repo::beat(&db, &[claim.held()]).await.expect("an answer").is_empty(), "it is held");
    assert_eq!(take(&db, &before, &actor).await.expect("an answer"), None);

    let taken = take(&db, &look().await, &actor).await.expect("an answer").expect("nobody beat");
    assert_eq!((taken.to, taken.message.as_str()), (State::Queued, "its process ended in attempt 1"));
}
