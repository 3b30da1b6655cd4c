//! The real worker on a database that breaks off, falls silent, or holds what it cannot run.

use std::time::Duration;

use sa_core::{
    id::{JobId, OrgId, UserId},
    job::{ExecutionOptions, Lane, MaxAttempts, Priority},
    repo::{
        self, Db, NewPrompt,
        inspect::{self, JobRow},
    },
    state::State,
    viewer::{Actor, Scope, Viewer},
};
use sa_harness::{Binary, Database, FakeProvider, Gate, Proxy, Reply, Rule, wait_until};

const LIMIT: Duration = Duration::from_secs(60);
/// What a stop may take beside the grace, whatever the database does.
const STOP: Duration = Duration::from_secs(20);

/// A database, and a way to it that can be broken.
struct Line {
    database: Database,
    db: Db,
    proxy: Proxy,
}

impl Line {
    async fn open() -> Self {
        let database = Database::fresh().await.unwrap();
        let (_, rest) = database.url().split_once("://").unwrap();
        let (authority, _) = rest.split_once('/').unwrap();
        let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
        let upstream = tokio::net::lookup_host(address).await.unwrap().next().unwrap();
        let proxy = Proxy::start(upstream).await.unwrap();
        let db = Db::connect(database.url(), 2).await.unwrap();
        Self { database, db, proxy }
    }

    /// A worker by that way, with short pauses and no grace.
    fn worker(&self, args: &[&str]) -> Binary {
        let url = self.database.url_by_way_of(self.proxy.address()).unwrap();
        let worker = Binary::named("sa-worker").unwrap().arg("run-worker").args(args);
        worker.env("DATABASE_URL", url).env("SA_GRACE", "1s")
    }

    async fn submit(&self, text: &str) -> JobId {
        let viewer = Viewer { org: OrgId(1), user: UserId(1) };
        let prompt = NewPrompt {
            viewer,
            actor: Actor::user(viewer.user),
            text: text.to_owned(),
            root: None,
            lane: Lane::default(),
            options: ExecutionOptions::default(),
            priority: Priority::DEFAULT,
            max_attempts: MaxAttempts::DEFAULT,
            scheduled_for: None,
        };
        repo::enqueue(&self.db, vec![prompt]).await.remove(0).unwrap().job_id
    }

    async fn row(&self, job: JobId) -> JobRow {
        inspect::job(&self.db, Scope::Everywhere, job).await.unwrap()
    }

    async fn wait_for_state(&self, job: JobId, state: State) {
        wait_until("the state", LIMIT, async || self.row(job).await.state == state).await.unwrap();
    }

    /// How many workers have not said goodbye.
    async fn pulses_left(&self) -> i64 {
        let left = sqlx::query_scalar("SELECT COUNT(*) FROM sa_pulse WHERE role = 'worker' AND ended_at IS NULL");
        left.fetch_one(self.database.pool()).await.unwrap()
    }
}

/// A providers file with one provider at this address.
fn providers(folder: &tempfile::TempDir, url: &str) -> std::path::PathBuf {
    let file = folder.path().join("providers.toml");
    let provider =
        format!("[[provider]]\nname = 'p'\nkind = 'openai'\nauth = 'none'\nbase_url = '{url}'\nmodels = ['m']\n");
    std::fs::write(&file, provider).unwrap();
    file
}

#[tokio::test]
async fn one_shot_with_nothing_to_do_is_silent_and_leaves_an_ended_pulse() {
    let line = Line::open().await;
    for _ in 0..5 {
        let output = line.worker(&["--once"]).run_to_end(LIMIT).await.unwrap();
        assert_eq!((output.code, output.stdout.as_str(), output.stderr.as_str()), (Some(0), "", ""));
    }
    assert_eq!(line.pulses_left().await, 0);
    let pulses = sqlx::query_scalar("SELECT COUNT(*) FROM sa_pulse WHERE role = 'worker'");
    assert_eq!(pulses.fetch_one(line.database.pool()).await.map(|count: i64| count).unwrap(), 5);
}

#[tokio::test]
async fn one_shot_keeps_the_slot_that_it_took_without_an_answer() {
    let line = Line::open().await;
    let job = line.submit("hello").await;
    line.proxy.cut_ack_of_next_commit();

    let output = line.worker(&["--once"]).run_to_end(LIMIT).await.unwrap();

    assert_eq!((output.code, line.proxy.commits_cut()), (Some(0), 1), "{output:?}");
    assert_eq!(line.row(job).await.state, State::Succeeded);
}

#[tokio::test]
async fn one_shot_runs_what_it_claimed_without_an_answer() {
    let line = Line::open().await;
    let job = line.submit("hello").await;
    // The claim begins with a look at the gates; until then the slot is taken, by a COMMIT of its own.
    let mut gates = line.database.pool().acquire().await.unwrap();
    sqlx::raw_sql("LOCK TABLES sa_provider_gate WRITE").execute(&mut *gates).await.unwrap();
    let mut worker = line.worker(&["--once"]).spawn().unwrap();
    let slot_is_taken = async || -> bool {
        let taken = sqlx::query_scalar("SELECT COUNT(*) FROM sa_pulse WHERE slot = 1");
        taken.fetch_one(line.database.pool()).await.map(|count: i64| count == 1).unwrap()
    };
    wait_until("the slot to be taken", LIMIT, slot_is_taken).await.unwrap();
    line.proxy.cut_ack_of_next_commit();
    sqlx::raw_sql("UNLOCK TABLES").execute(&mut *gates).await.unwrap();

    let code = worker.wait_exit(LIMIT).await.unwrap().code();

    assert_eq!((code, line.proxy.commits_cut()), (Some(0), 1), "{}", worker.stderr());
    assert_eq!(line.row(job).await.state, State::Succeeded);
    assert_eq!(line.pulses_left().await, 0);
}

#[tokio::test]
async fn service_that_stops_gives_back_what_it_claimed_without_an_answer() {
    let line = Line::open().await;
    let mut worker = line.worker(&[]).spawn().unwrap();
    let first = line.submit("first").await;
    line.wait_for_state(first, State::Succeeded).await;
    // The connections that are open go on, so the claim is made, and no new one can ask what became of it.
    line.proxy.refuse().await.unwrap();
    line.proxy.cut_ack_of_next_commit();
    let job = line.submit("second").await;
    wait_until("the claim", LIMIT, async || line.proxy.commits_cut() == 1).await.unwrap();

    worker.sigterm().unwrap();
    worker.wait_for_output("The worker stops", LIMIT).await.unwrap();
    line.proxy.accept().await.unwrap();
    let status = worker.wait_exit(STOP).await.unwrap();

    assert_eq!(status.code(), Some(0), "{}", worker.stderr());
    let row = line.row(job).await;
    // Run, if a second connection was open by which the worker learned of its claim before it was told to stop.
    assert!(matches!(row.state, State::Queued | State::Succeeded), "{row:?}\n{}", worker.stderr());
    assert_eq!((row.attempt, line.pulses_left().await), (1, 0));
}

#[tokio::test]
async fn idle_service_stops_in_time_while_the_database_is_silent() {
    let line = Line::open().await;
    let mut worker = line.worker(&[]).spawn().unwrap();
    let job = line.submit("hello").await;
    line.wait_for_state(job, State::Succeeded).await;

    line.proxy.half_open();
    worker.sigterm().unwrap();

    assert_eq!(worker.wait_exit(STOP).await.unwrap().code(), Some(0), "{}", worker.stderr());
}

#[tokio::test]
async fn service_with_unwritten_answers_stops_in_time_while_the_database_is_silent() {
    let line = Line::open().await;
    let (provider, gate, folder) = (FakeProvider::start().await.unwrap(), Gate::closed(), tempfile::tempdir().unwrap());
    provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").until_after_bytes(1000, &gate)));
    let worker = line.worker(&[]).env("SA_PROVIDERS", providers(&folder, &format!("{}/v1", provider.url())));
    let jobs = [line.submit("a").await, line.submit("b").await, line.submit("c").await];
    let mut worker = worker.spawn().unwrap();
    provider.wait_for_calls(jobs.len(), LIMIT).await.unwrap();

    line.proxy.half_open();
    gate.open();
    worker.sigterm().unwrap();
    let status = worker.wait_exit(STOP + Duration::from_secs(1)).await.unwrap();

    assert_eq!(status.code(), Some(0), "{}", worker.stderr());
    assert_eq!(worker.stderr().matches("could not be written; the job").count(), jobs.len(), "{}", worker.stderr());
}

#[tokio::test]
async fn job_whose_prompt_is_missing_fails_at_once() {
    let line = Line::open().await;
    let job = JobId::new();
    let insert = "INSERT INTO sa_job (id, prompt_id, org_id, created_by) VALUES (?, UUID(), 1, 1)";
    sqlx::query(insert).bind(job.to_string()).execute(line.database.pool()).await.unwrap();

    let output = line.worker(&["--once"]).run_to_end(LIMIT).await.unwrap();

    let row = line.row(job).await;
    assert_eq!((row.state, row.error_kind.as_deref()), (State::Failed, Some("parse")), "{output:?}");
    assert!(row.error_message.unwrap().contains("is not there"));
}
