//! The repository beside its model: whatever is done in whatever order, both are in the same states and answer alike.

mod deed;
mod subject;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use sa_core::job::{ExecutionOptions, Lane, MaxAttempts, Priority};
use sa_core::repo::{Db, NewPrompt};
use sa_core::viewer::{Actor, Viewer};
use sa_harness::Database;

use self::deed::deeds;
use self::subject::Subject;

const SEQUENCES: u32 = 48;

/// After each step states, attempts, revisions and errors agree, and so does what the verb answered. The rows that all
/// sequences leave behind are judged by the invariants.
#[test]
fn the_repository_does_what_its_model_does() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (database, db) = runtime.block_on(async {
        let database = Database::fresh().await.unwrap().judged();
        let db = Db::connect(database.url(), 4).await.unwrap();
        (database, db)
    });
    let (sequences, steps) = (Cell::new(0), Cell::new(0));
    let found = runner(SEQUENCES).run(&deeds(), |deeds| {
        sequences.set(sequences.get() + 1);
        steps.set(steps.get() + deeds.len());
        let mut subject = Subject::new(&database, &db, sequences.get());
        runtime.block_on(subject.live(&deeds)).map_err(TestCaseError::fail)
    });
    match found {
        Ok(()) => println!("{} sequences of {} steps in all", sequences.get(), steps.get()),
        Err(TestError::Fail(why, least)) => panic!("{why}\nafter {least:#?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
    runtime.block_on(db.close());
}

/// A runner whose seed is printed, and is given again as `SA_PROPERTY_SEED`.
pub fn runner(cases: u32) -> TestRunner {
    let given = std::env::var("SA_PROPERTY_SEED").ok();
    let seed = given.map_or_else(uuid::Uuid::new_v4, |seed| seed.parse().unwrap());
    println!("SA_PROPERTY_SEED={seed}");
    let bytes = [seed.as_bytes().as_slice(), seed.as_bytes().as_slice()].concat();
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 200, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

/// A prompt of this viewer in this lane.
pub fn new_prompt(viewer: Viewer, lane: &str) -> NewPrompt {
    NewPrompt {
        viewer,
        actor: Actor::user(viewer.user),
        text: "hello".to_owned(),
        root: None,
        options: ExecutionOptions::default(),
        lane: Lane::new(lane),
        priority: Priority::DEFAULT,
        max_attempts: MaxAttempts::DEFAULT,
        scheduled_for: None,
    }
}
