//! Every `wp sa-core …` of the specification, typed without `wp`, through the dispatcher.

use sa_harness::{Binary, Output};

use super::text;
use crate::stage::{LIMIT, Stage, succeed};

/// The command lines as they stand in the specification.
const COMMANDS: [&str; 13] = [
    "archive-old-jobs --before=<date>",
    "cancel-job <id>",
    "cancel-job <job_id>",
    "job-details <job_id>",
    "list-jobs --state=failed",
    "list-jobs [--state=] [--org=] [--since=]",
    "queue-metrics",
    "reclaim-stuck-jobs",
    "retry-job <id>",
    "retry-job <job_id>",
    "run-worker",
    "run-worker --once",
    "run-worker --once --batch-size=5",
];

/// Not typed by anybody as it stands: its brackets say what may be left out.
const SYNOPSIS: &str = "run-worker [--once] [--batch-size=N] [--priority-ceiling=N]";

/// Commands that are not there yet; issue 6 brings both. One that appears has to be moved out of this list and be run.
const NOT_YET: [&str; 2] = ["archive-old-jobs --before=<date>", "queue-metrics"];

/// `sa-core`, with the four binaries that it becomes.
fn dispatcher(stage: &Stage) -> Binary {
    for name in ["sa-api", "sa-worker", "sa-reaper", "sa-cli"] {
        Binary::named(name).unwrap();
    }
    stage.settings(Binary::of_package("sa-cli", "sa-core").unwrap())
}

/// A command line with its brackets opened and its placeholders filled.
fn typed(command: &str, job: &str) -> Vec<String> {
    let filled = [
        ("--batch-size=N", "--batch-size=5"),
        ("--priority-ceiling=N", "--priority-ceiling=100"),
        ("--state=]", "--state=failed"),
        ("--org=]", "--org=1"),
        ("--since=]", "--since=2026-01-01T00:00:00Z"),
        ("<job_id>", job),
        ("<id>", job),
        ("<date>", "2026-01-01"),
    ];
    let line = filled.iter().fold(command.to_owned(), |line, (from, to)| line.replace(from, to));
    line.replace(['[', ']'], "").split_whitespace().map(ToOwned::to_owned).collect()
}

async fn run(stage: &Stage, command: &str, job: &str) -> Output {
    succeed(dispatcher(stage).args(typed(command, job))).await
}

/// The list above is the specification's, all of it.
#[test]
fn the_commands_are_those_of_the_specification() {
    let written: Vec<_> = text::commands().into_iter().filter(|command| command != SYNOPSIS).collect();
    assert_eq!(written, COMMANDS);
    assert!(text::commands().iter().any(|command| command == SYNOPSIS));
    assert!(NOT_YET.iter().all(|command| COMMANDS.contains(command)));
}

/// `run-worker --once`, with and without its flags: it runs what waits, and ends.
#[tokio::test]
async fn a_worker_runs_once_as_written() {
    let stage = Stage::set().await;
    for command in ["run-worker --once", "run-worker --once --batch-size=5", SYNOPSIS] {
        let job = stage.submit("hello", &[]).await;
        run(&stage, command, &job).await;
        assert_eq!(stage.state(&job).await, "succeeded", "{command}");
    }
}

/// `run-worker` is a service: it goes on until it is told to stop.
#[tokio::test]
async fn a_worker_serves_as_written() {
    let stage = Stage::set().await;
    let mut worker = dispatcher(&stage).arg("run-worker").spawn().unwrap();
    for _ in 0..2 {
        let job = stage.submit("hello", &[]).await;
        stage.wait_for_state(&job, "succeeded").await;
    }
    worker.sigterm().unwrap();
    assert!(worker.wait_exit(LIMIT).await.unwrap().success());
}

/// `reclaim-stuck-jobs` takes back what is silent for more than the specification's five minutes.
#[tokio::test]
async fn stuck_jobs_are_reclaimed_as_written() {
    let stage = Stage::set().await;
    stage.database.not_judged("it claims by plain SQL, which leaves no event");
    let job = stage.submit("hello", &[]).await;
    stage
        .sql(
            "UPDATE sa_job SET state = 'running', worker_claim = 'w.1', claimed_at = UTC_TIMESTAMP(6) - INTERVAL 301 SECOND,
                    started_at = claimed_at, running_heartbeat_at = claimed_at",
        )
        .await;
    run(&stage, "reclaim-stuck-jobs", &job).await;
    assert_eq!(stage.state(&job).await, "queued");
    assert_eq!(stage.job_text(&job, "attempt").await.as_deref(), Some("2"));
}

/// What an operator types about one job: `cancel-job`, `retry-job`, `job-details`, `list-jobs`.
#[tokio::test]
async fn an_operators_commands_run_as_written() {
    let stage = Stage::set().await;
    for (cancel, retry) in [("cancel-job <id>", "retry-job <id>"), ("cancel-job <job_id>", "retry-job <job_id>")] {
        let job = stage.submit("hello", &[]).await;
        run(&stage, cancel, &job).await;
        assert_eq!(stage.state(&job).await, "cancelled");
        run(&stage, retry, &job).await;
        assert_eq!(stage.state(&job).await, "superseded");
    }
    let failed = stage.submit("hello", &[]).await;
    stage.sql("UPDATE sa_job SET execution_options = 'no JSON' WHERE state = 'queued' AND supersedes IS NULL").await;
    stage.work_once().await;
    assert_eq!(stage.state(&failed).await, "failed");
    let details = run(&stage, "job-details <job_id>", &failed).await;
    assert!(details.stdout.contains("parse"), "{}", details.stdout);
    for list in ["list-jobs --state=failed", "list-jobs [--state=] [--org=] [--since=]"] {
        let listed = run(&stage, list, &failed).await;
        assert!(listed.stdout.contains(&failed[..18]), "{}", listed.stdout);
        assert!(!listed.stdout.contains("superseded"), "{}", listed.stdout);
    }
}

/// Refused as unknown, and by nothing else.
#[tokio::test]
async fn commands_not_there_yet_are_unknown() {
    let stage = Stage::set().await;
    for command in NOT_YET {
        let output = dispatcher(&stage).args(typed(command, "")).run_to_end(LIMIT).await.unwrap();
        let unknown = output.code == Some(2) && output.stderr.contains("unrecognized subcommand");
        assert!(unknown, "{command} is there: take it out of NOT_YET and prove it. {output:?}");
    }
}
