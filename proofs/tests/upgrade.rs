//! `proofs/run upgrade`: the previous release and this one work side by side on one schema, through a migration, and each
//! prompt that either of them accepted is answered once.

mod flow;
mod release;

use std::{collections::HashSet, fs, process::Command};

use sa_core::repo::schema;
use sa_harness::{Database, Process, Reply, Rule, repository_root, wait_until};
use serde_json::json;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{Connection, Executor, MySqlConnection};

use self::flow::Flow;
use self::release::Release;
use crate::stage::{Api, LIMIT, Stage, complaints_of};

/// The prompt in the middle of whose answer a worker dies.
const DEADLY: &str = "whoever runs this dies";

/// What the next migration may do while both releases run: more columns, a further table. For a tree that has no migration
/// of its own beyond the previous release.
const MADE_UP: [&str; 5] = [
    "ALTER TABLE sa_job ADD COLUMN made_up VARCHAR(16) NULL, ADD KEY idx_made_up (made_up)",
    "ALTER TABLE sa_entity ADD COLUMN made_up INT UNSIGNED NOT NULL DEFAULT 0",
    "ALTER TABLE sa_job_event ADD COLUMN made_up INT UNSIGNED NOT NULL DEFAULT 0",
    "CREATE TABLE sa_made_up (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY) ENGINE = InnoDB",
    "UPDATE sa_schema SET version = version + 1 WHERE id = 1",
];

/// Makes the running jobs of the worker with this process id silent for longer than any stale limit.
const SILENCE: &str = "UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 5 MINUTE
     WHERE state = 'running'
       AND worker_claim LIKE CONCAT((SELECT id FROM sa_pulse WHERE role = 'worker' AND pid = ?), '.%')";

/// What is not answered, or more than once: by its row, its answers, its events and its calls.
const NOT_ANSWERED_ONCE: &str = "SELECT COUNT(*) FROM sa_job j WHERE NOT (
         j.state = 'succeeded'
     AND (SELECT COUNT(*) FROM sa_entity r WHERE r.parent_id = j.prompt_id AND r.kind = 'response') = 1
     AND (SELECT COUNT(*) FROM sa_job_event e WHERE e.job_id = j.id AND e.reason = 'success') = 1
     AND (SELECT COUNT(*) FROM sa_ledger l WHERE l.job_id = j.id AND l.outcome = 'succeeded') = 1)";

/// The old worker and reaper go on beside the new API. A worker of the new release, started and killed in the middle of a
/// call, is cleared away by the old reaper, and an old worker started on the new schema answers its job.
#[tokio::test]
#[ignore = "needs the previous release, which proofs/run upgrade and proofs/run --all build"]
async fn the_old_worker_and_reaper_serve_the_new_api_through_a_migration() {
    let stage = old_schema().await;
    let token = Release::Previous.token(&stage).await;
    let mut old_api = Release::Previous.api(&stage, &token).await;
    let mut old_worker = Release::Previous.worker(&stage).spawn().unwrap();
    let flow = Flow::through(&old_api);
    flow.goes_on_for(30).await;

    migrate(&stage).await;
    flow.goes_on_for(30).await;
    let mut new_api = Release::This.api(&stage, &token).await;
    flow.turn_to(&new_api);
    flow.goes_on_for(60).await;
    assert_eq!(schema_needed(&new_api).await, u64::from(schema::VERSION));
    assert!(schema_needed(&old_api).await <= u64::from(schema::VERSION));

    stop(&mut old_worker).await;
    let mut new_worker = Release::This.worker(&stage).spawn().unwrap();
    let deadly = held_in_mid_call(&stage, &new_api).await;
    flow.goes_on_for(30).await;
    let mut old_worker = Release::Previous.worker(&stage).spawn().unwrap();
    dies(&stage, &mut new_worker, &deadly, Release::Previous).await;
    flow.goes_on_for(30).await;

    ends_well(&stage, flow, &deadly).await;
    for process in [&mut old_worker, &mut old_api.process, &mut new_api.process] {
        stop(process).await;
    }
}

/// The new worker and reaper go on beside the old API. The old worker, killed in the middle of a call that began before the
/// migration, is cleared away by the new reaper, and the new worker answers its job.
#[tokio::test]
#[ignore = "needs the previous release, which proofs/run upgrade and proofs/run --all build"]
async fn the_new_worker_and_reaper_serve_the_old_api_through_a_migration() {
    let stage = old_schema().await;
    let token = Release::Previous.token(&stage).await;
    let mut old_api = Release::Previous.api(&stage, &token).await;
    let mut old_worker = Release::Previous.worker(&stage).spawn().unwrap();
    let flow = Flow::through(&old_api);
    let deadly = held_in_mid_call(&stage, &old_api).await;
    flow.goes_on_for(30).await;

    migrate(&stage).await;
    flow.goes_on_for(30).await;
    let mut new_worker = Release::This.worker(&stage).spawn().unwrap();
    flow.goes_on_for(30).await;
    dies(&stage, &mut old_worker, &deadly, Release::This).await;
    flow.goes_on_for(30).await;
    // Whoever restarts an old process finds that it takes the new schema.
    let mut restarted = Release::Previous.api(&stage, &token).await;
    flow.turn_to(&restarted);
    flow.goes_on_for(30).await;

    ends_well(&stage, flow, &deadly).await;
    for process in [&mut new_worker, &mut old_api.process, &mut restarted.process] {
        stop(process).await;
    }
}

/// A stage as the previous release left it.
async fn old_schema() -> Stage {
    let stage = Stage::over(Database::empty().await.unwrap().judged(), "").await;
    let killing = Reply::wire("llama-chat-stream").hang_after_bytes(1500);
    stage.provider.script(Rule::when(DEADLY).first(1).reply(killing));
    Release::Previous.migrate(&stage).await;
    stage
}

/// Migrates as an operator does, while everything runs.
async fn migrate(stage: &Stage) {
    let version = async || stage.count("SELECT CAST(version AS SIGNED) FROM sa_schema").await;
    let before = version().await;
    let said = Release::This.migrate(stage).await;
    print!("{}", said.stdout);
    assert_eq!(version().await, i64::from(schema::VERSION));
    if before < i64::from(schema::VERSION) {
        return;
    }
    println!("this release brings no migration, so the next one's is made up: {MADE_UP:#?}");
    let mut session = MySqlConnection::connect(stage.database.url()).await.unwrap();
    session.execute("SET SESSION lock_wait_timeout = 2").await.unwrap();
    for statement in MADE_UP {
        // As `sa-cli migrate` does it: whoever works on the table is let pass.
        wait_until(statement, LIMIT, async || match session.execute(statement).await {
            Ok(_) => Ok(true),
            Err(error) if met_a_lock(&error) => Ok(false),
            Err(error) => Err(error),
        })
        .await
        .unwrap();
    }
    assert_eq!(version().await, before + 1);
}

fn met_a_lock(error: &sqlx::Error) -> bool {
    let number = error.as_database_error().and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    number.is_some_and(|error| matches!(error.number(), 1205 | 1213))
}

/// Submits the prompt whose call hangs, and waits until it does.
async fn held_in_mid_call(stage: &Stage, api: &Api) -> String {
    let ids = api.prompt(json!({ "prompt_text": DEADLY })).await;
    let called = async || stage.provider.calls().iter().any(|call| call.body.contains(DEADLY));
    wait_until("the call of the deadly prompt", LIMIT, called).await.unwrap();
    ids["job_id"].as_str().unwrap().to_owned()
}

/// Kills a worker with all its calls, lets a reaper of the given release clear up, and sees the job through.
async fn dies(stage: &Stage, worker: &mut Process, job: &str, reaper: Release) {
    worker.kill9().unwrap();
    wait_until("its job to be given back", LIMIT, async || {
        sqlx::query(SILENCE).bind(worker.id()).execute(stage.pool()).await.unwrap();
        reaper.reap(stage).await.stdout.contains(job)
    })
    .await
    .unwrap();
    stage.wait_for_state(job, "succeeded").await;
    assert_eq!(stage.walk(job).await, "queued → running → queued → running → succeeded");
    let given_back = &stage.events(job).await[2];
    assert_eq!((given_back.reason.as_str(), given_back.attempt), ("reclaim", 2), "{given_back:?}");
}

/// Every prompt that was accepted is there, with one answer, and nothing else is.
async fn ends_well(stage: &Stage, flow: Flow, deadly: &str) {
    let mut accepted = flow.end().await;
    accepted.push(deadly.to_owned());
    let jobs: Vec<String> = sqlx::query_scalar("SELECT id FROM sa_job").fetch_all(stage.pool()).await.unwrap();
    assert_eq!(jobs.len(), accepted.len());
    assert_eq!(jobs.into_iter().collect::<HashSet<_>>(), accepted.into_iter().collect());
    assert_eq!(stage.count(NOT_ANSWERED_ONCE).await, 0);
}

/// Nothing that happened was worth a complaint.
async fn stop(process: &mut Process) {
    process.sigterm().unwrap();
    assert!(process.wait_exit(LIMIT).await.unwrap().success(), "{}", process.stderr());
    assert_eq!(complaints_of(process), Vec::<String>::new());
}

async fn schema_needed(api: &Api) -> u64 {
    api.get("/readyz").await["schema_needed"].as_u64().unwrap()
}

/// The release to be tested against is the last one that ended: the changelog has its date, and its tag is that commit.
#[test]
fn the_previous_release_is_the_newest_that_the_changelog_calls_released() {
    let text = fs::read_to_string(repository_root().join("proofs/previous-release")).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let [line] = lines[..] else { panic!("one line names the release: {lines:?}") };
    let (tag, commit) = line.split_once(' ').unwrap();
    assert!(commit.len() == 40 && commit.bytes().all(|byte| b"0123456789abcdef".contains(&byte)), "{commit}");

    let changelog = fs::read_to_string(repository_root().join("CHANGELOG.md")).unwrap();
    let mut titles = changelog.lines().filter_map(|line| line.strip_prefix("## "));
    let newest = titles.find_map(|title| title.split_once(", released ")).expect("a section `## X.Y.Z, released DATE`");
    assert_eq!(tag.strip_prefix('v'), Some(newest.0));
    let is_date =
        newest.1.split('-').map(str::len).eq([4, 2, 2]) && newest.1.bytes().all(|b| b"0123456789-".contains(&b));
    assert!(is_date, "{newest:?}");

    // A clone may lack the tag, but not have it elsewhere.
    let ask = ["rev-parse", "--quiet", "--verify", &format!("{tag}^{{commit}}")].map(str::to_owned);
    let output = Command::new("git").args(ask).current_dir(repository_root()).output().unwrap();
    let tagged = String::from_utf8(output.stdout).unwrap();
    assert!(!output.status.success() || tagged.trim() == commit, "{tag} is {tagged}");
}
