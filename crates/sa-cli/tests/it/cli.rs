//! Running the binary, and putting jobs into the table it shows.

use std::time::Duration;

use sa_harness::{Binary, Database, Output};
use serde_json::Value;

pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// `sa-cli` on this database, ready for more settings.
pub(crate) fn cli(database: &Database, args: &[&str]) -> Binary {
    Binary::named("sa-cli").unwrap().args(args).env("DATABASE_URL", database.url())
}

/// Runs `sa-cli` to its end.
pub(crate) async fn run(database: &Database, args: &[&str]) -> Output {
    cli(database, args).run_to_end(LIMIT).await.unwrap()
}

/// Runs `sa-cli`, which must succeed, and reads its JSON.
pub(crate) async fn json(database: &Database, args: &[&str]) -> Value {
    let output = run(database, args).await;
    assert_eq!(output.code, Some(0), "{}", output.stderr);
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", output.stdout))
}

/// Submits a prompt and answers its job's id.
pub(crate) async fn submit(database: &Database, text: &str) -> String {
    json(database, &["submit-prompt", text, "--json"]).await["job_id"].as_str().unwrap().to_owned()
}

/// Runs one statement of the test's own; `?` is the job.
pub(crate) async fn sql(database: &Database, statement: &'static str, job: &str) {
    let done = sqlx::query(statement).bind(job).execute(database.pool()).await.unwrap();
    assert_eq!(done.rows_affected(), 1, "{statement}");
}

/// Ends a queued job as failed, as a worker would have left it.
pub(crate) async fn fail(database: &Database, job: &str) {
    let statement = "UPDATE sa_job SET state = 'failed', finished_at = UTC_TIMESTAMP(6), error_kind = 'auth', \
                     error_message = 'the key was refused', revision = revision + 1, updated_at = UTC_TIMESTAMP(6) WHERE id = ?";
    sql(database, statement, job).await;
}

/// Ends a queued job as succeeded; the response is named but not written.
pub(crate) async fn succeed(database: &Database, job: &str) {
    let statement = "UPDATE sa_job SET state = 'succeeded', finished_at = UTC_TIMESTAMP(6), response_id = UUID(), \
                     revision = revision + 1, updated_at = UTC_TIMESTAMP(6) WHERE id = ?";
    sql(database, statement, job).await;
}

/// Starts a queued job, as a worker of somebody else's would have.
pub(crate) async fn start(database: &Database, job: &str) {
    let statement = "UPDATE sa_job SET state = 'running', worker_claim = 'somebody.1', claimed_at = UTC_TIMESTAMP(6), \
                     started_at = UTC_TIMESTAMP(6), running_heartbeat_at = UTC_TIMESTAMP(6), revision = revision + 1, \
                     updated_at = UTC_TIMESTAMP(6) WHERE id = ?";
    sql(database, statement, job).await;
}

/// Runs a queued job here and now; its answer is its prompt.
pub(crate) async fn run_by_echo(database: &Database, job: &str) -> Output {
    let file = providers(database, "name = 'echo'\nkind = 'echo'\nmodels = ['echo']\n");
    let ran = cli(database, &["run-prompt", "--job", job]).env("SA_PROVIDERS", &file).run_to_end(LIMIT).await;
    std::fs::remove_file(&file).unwrap();
    ran.unwrap()
}

/// A file with this one provider, to be removed by the caller.
pub(crate) fn providers(database: &Database, provider: &str) -> std::path::PathBuf {
    let file = std::env::temp_dir().join(format!("{}.toml", database.name()));
    std::fs::write(&file, format!("[[provider]]\n{provider}")).unwrap();
    file
}
