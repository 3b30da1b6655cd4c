//! A provider that refuses everybody for a while, and many workers with many jobs for it.

use std::time::Duration;

use sa_core::id::{OrgId, UserId};
use sa_core::job::{ExecutionOptions, Lane, MaxAttempts, Priority};
use sa_core::repo::{self, Db, NewPrompt};
use sa_core::viewer::{Actor, Viewer};
use sa_harness::{Process, Reply, Rule, wait_until};

use crate::stage::Stage;

/// Jobs, workers, and how long the provider says 429. In full it is the contract's storm.
fn scale() -> (usize, usize, Duration) {
    if std::env::var_os("SA_PROOFS_FULL").is_some() {
        (500, 8, Duration::from_secs(20))
    } else {
        (120, 4, Duration::from_secs(6))
    }
}

/// How many jobs a worker may have under way.
const BATCH: usize = 5;
/// A busy machine may take long over so many jobs.
const LIMIT: Duration = Duration::from_secs(300);

/// While a provider says 429 it is asked once per closure, after what was under way when it began; no attempt is spent, and
/// then all are answered in the order they came in.
#[tokio::test]
async fn a_storm_of_429_costs_one_call_a_closure_and_no_attempt() {
    let (jobs, workers, storm) = scale();
    let stage = Stage::set().await;
    let limited = Reply::by_hand(
        "429 Too Many Requests",
        &[("content-type", "application/json"), ("retry-after", "1")],
        r#"{"error":{"message":"slow down","code":"rate_limit_exceeded"}}"#,
    );
    stage.provider.script(Rule::always().during(storm).reply(limited));
    enqueue(&stage, jobs).await;

    let mut started: Vec<Process> = (0..workers).map(|_| worker(&stage)).collect();
    let open = "SELECT COUNT(*) FROM sa_job WHERE state IN ('queued', 'running')";
    wait_until("the storm and its jobs to be over", LIMIT, async || stage.count(open).await == 0).await.unwrap();
    for process in &mut started {
        process.sigterm().unwrap();
        assert!(process.wait_exit(LIMIT).await.unwrap().success());
    }

    let closures = stage.count("SELECT COUNT(*) FROM sa_job_event WHERE reason = 'gate'").await;
    let refused = stage.provider.calls().len() - jobs;
    let under_way = workers * BATCH;
    let most = under_way + usize::try_from(storm.as_secs()).unwrap() + 1;
    assert!(refused <= most, "{refused} calls were refused, {under_way} may have been under way");
    assert!(closures >= 1);
    let spent = "SELECT COUNT(*) FROM sa_job WHERE attempt <> 1 OR releases <> 0 OR state <> 'succeeded'";
    assert_eq!(stage.count(spent).await, 0);
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_provider_gate WHERE closed_until IS NOT NULL").await, 0);
    assert_eq!(stage.count(OUT_OF_ORDER).await, 0);
}

/// Jobs whose last claim came before that of 80 jobs older than they are: two rounds of all workers. Within those they run side
/// by side.
const OUT_OF_ORDER: &str = "SELECT COUNT(*) FROM (
         SELECT j.id, ROW_NUMBER() OVER (ORDER BY j.scheduled_for, j.id) AS came,
                ROW_NUMBER() OVER (ORDER BY MAX(e.seq)) AS went
           FROM sa_job j JOIN sa_job_event e ON e.job_id = j.id AND e.reason = 'claim'
          GROUP BY j.id, j.scheduled_for) o
      WHERE CAST(went AS SIGNED) < CAST(came AS SIGNED) - 80";

fn worker(stage: &Stage) -> Process {
    let batch = BATCH.to_string();
    stage.binary("sa-worker").args(["run-worker", "--batch-size", &batch]).spawn().unwrap()
}

async fn enqueue(stage: &Stage, jobs: usize) {
    let db = Db::connect(stage.database.url(), 1).await.unwrap();
    let viewer = Viewer { org: OrgId(1), user: UserId(1) };
    let prompts = (0..jobs)
        .map(|n| NewPrompt {
            viewer,
            actor: Actor::user(viewer.user),
            text: format!("prompt {n:04}"),
            root: None,
            options: ExecutionOptions::default(),
            lane: Lane::new("fake"),
            priority: Priority::DEFAULT,
            max_attempts: MaxAttempts::DEFAULT,
            scheduled_for: None,
        })
        .collect();
    for enqueued in repo::enqueue(&db, prompts).await {
        enqueued.unwrap();
    }
    db.close().await;
}
