//! What every proof plays on: a fresh database, a provider that replays recorded bytes, and the real binaries.

use std::time::Duration;

use sa_harness::{Binary, Database, FakeProvider, Output, Process, Proxy, wait_until};
use serde_json::Value;
use sqlx::{FromRow, MySqlPool};
use tempfile::TempDir;

/// The longest any proof waits for something that happens within a second or two on an idle machine.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The provider's answer in `llama-chat-stream.http` and the model it names are what the recording says.
pub const MODEL: &str = "fake-model";

pub struct Stage {
    pub database: Database,
    pub provider: FakeProvider,
    folder: TempDir,
}

/// One event of a job.
#[derive(Debug, FromRow)]
pub struct Event {
    pub from_state: Option<String>,
    pub to_state: String,
    pub attempt: u16,
    pub reason: String,
    pub claim: Option<String>,
    pub actor: String,
}

impl Stage {
    /// A stage whose one provider, `fake`, speaks OpenAI's protocol.
    pub async fn set() -> Self {
        Self::with_settings("").await
    }

    /// A stage whose provider has further settings: lines of its `[[provider]]`, such as `idle_timeout = "1s"`.
    pub async fn with_settings(settings: &str) -> Self {
        Self::over(Database::fresh().await.unwrap().judged(), settings).await
    }

    /// A stage with a providers file of its own; nobody asks its fake provider anything.
    pub async fn with_providers(file: &str) -> Self {
        let stage = Self::set().await;
        std::fs::write(stage.folder.path().join("providers.toml"), file).unwrap();
        stage
    }

    /// A stage on a database of another kind: an empty one, or one on a server of its own.
    pub async fn over(database: Database, settings: &str) -> Self {
        let provider = FakeProvider::start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = format!(
            "[[provider]]\nname = \"fake\"\nkind = \"openai\"\nbase_url = \"{}\"\nauth = \"none\"\n\
             models = [\"{MODEL}\"]\ndefault = true\n{settings}\n",
            provider.url()
        );
        std::fs::write(folder.path().join("providers.toml"), file).unwrap();
        Self { database, provider, folder }
    }

    pub fn pool(&self) -> &MySqlPool {
        self.database.pool()
    }

    /// A binary that works on this stage.
    pub fn binary(&self, name: &str) -> Binary {
        self.settings(Binary::named(name).unwrap())
    }

    /// The same for a binary found in another way.
    pub fn settings(&self, binary: Binary) -> Binary {
        binary.env("DATABASE_URL", self.database.url()).env("SA_PROVIDERS", self.folder.path().join("providers.toml"))
    }

    /// A worker with quick beats: its jobs are stale after 4 s.
    pub fn worker(&self) -> Binary {
        self.binary("sa-worker").arg("run-worker").env("SA_BEAT_EVERY", "1s").env("SA_STALE_AFTER", "4s")
    }

    /// Runs one batch to its end.
    pub async fn work_once(&self) -> Output {
        succeed(self.worker().arg("--once")).await
    }

    /// Runs the reaper, whose own limit is the workers' 4 s.
    pub async fn reap(&self) -> Output {
        let reaper = self.binary("sa-reaper").arg("reclaim-stuck-jobs");
        succeed(reaper.env("SA_BEAT_EVERY", "1s").env("SA_STALE_AFTER", "4s")).await
    }

    /// Runs a command of the operator's, whatever comes of it.
    pub async fn cli(&self, args: &[&str]) -> Output {
        self.binary("sa-cli").args(args).run_to_end(LIMIT).await.unwrap()
    }

    /// Submits a prompt with further arguments of `submit-prompt`, and returns its job's id.
    pub async fn submit(&self, text: &str, args: &[&str]) -> String {
        let ids = self.submit_ids(text, args).await;
        ids["job_id"].as_str().unwrap().to_owned()
    }

    /// Submits a prompt and returns what `submit-prompt --json` printed.
    pub async fn submit_ids(&self, text: &str, args: &[&str]) -> Value {
        let output = self.cli(&[&["submit-prompt", "--json", text], args].concat()).await;
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    }

    /// Everything that happened to a job.
    pub async fn events(&self, job: &str) -> Vec<Event> {
        sqlx::query_as(
            "SELECT from_state, to_state, attempt, reason, claim, actor FROM sa_job_event WHERE job_id = ? ORDER BY seq",
        )
        .bind(job)
        .fetch_all(self.pool())
        .await
        .unwrap()
    }

    /// The states a job went through: `queued → running → succeeded`.
    pub async fn walk(&self, job: &str) -> String {
        let states: Vec<_> = self.events(job).await.into_iter().map(|event| event.to_state).collect();
        states.join(" → ")
    }

    pub async fn state(&self, job: &str) -> String {
        self.job_text(job, "state").await.unwrap()
    }

    /// A column of a job, as text.
    pub async fn job_text(&self, job: &str, column: &'static str) -> Option<String> {
        let mut query = sqlx::QueryBuilder::new("SELECT CAST(");
        query.push(column).push(" AS CHAR) FROM sa_job WHERE id = ").push_bind(job);
        query.build_query_scalar().fetch_one(self.pool()).await.unwrap()
    }

    /// A number that a query counts.
    pub async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(self.pool()).await.unwrap()
    }

    /// Moves rows in time, so that nothing needs to be waited for.
    pub async fn sql(&self, statement: &'static str) {
        sqlx::query(statement).execute(self.pool()).await.unwrap();
    }

    /// What all tables hold, as checksums; `sa_token` is left out, since every call may note when its token was used.
    pub async fn contents(&self) -> Vec<(String, i64)> {
        let tables = "CHECKSUM TABLE sa_entity, sa_edge, sa_audit, sa_job, sa_job_event, sa_ledger, sa_pulse, \
                      sa_provider_gate, sa_schema, sa_idempotency";
        sqlx::query_as(tables).fetch_all(self.pool()).await.unwrap()
    }

    /// Waits until a job is in this state.
    pub async fn wait_for_state(&self, job: &str, state: &str) {
        wait_until(&format!("job {job} to be {state}"), LIMIT, async || self.state(job).await == state).await.unwrap();
    }

    /// Starts `sa-api` and makes a token for org 1, user 1.
    pub async fn api(&self) -> Api {
        self.api_of(self.binary("sa-api")).await
    }

    /// The same, of a binary with further settings.
    pub async fn api_of(&self, server: Binary) -> Api {
        Api::start(server, self.token(1, 1)).await
    }

    /// A proxy in front of the database, and the `DATABASE_URL` that leads through it.
    pub async fn proxy(&self) -> (Proxy, String) {
        let authority = self.database.url().split('/').nth(2).unwrap();
        let host = authority.rsplit('@').next().unwrap();
        let upstream = tokio::net::lookup_host(host).await.unwrap().next().unwrap();
        let proxy = Proxy::start(upstream).await.unwrap();
        let url = self.database.url_by_way_of(proxy.address()).unwrap();
        (proxy, url)
    }

    /// A fresh token of a viewer.
    pub async fn token(&self, org: u64, user: u64) -> String {
        self.token_by(self.binary("sa-cli"), org, user).await
    }

    /// The same, made by another `sa-cli`.
    pub async fn token_by(&self, cli: Binary, org: u64, user: u64) -> String {
        let output = succeed(cli.args(["create-token", "--org", &org.to_string(), "--user", &user.to_string()])).await;
        let printed = output.stdout.split_whitespace().find(|word| word.starts_with("sa_")).map(str::to_owned);
        printed.expect("create-token prints the token")
    }
}

/// Runs a binary and demands that it ends well.
pub async fn succeed(binary: Binary) -> Output {
    let output = binary.run_to_end(LIMIT).await.unwrap();
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    output
}

/// Lines in which a process said that something went wrong.
pub fn complaints(said: &str) -> Vec<&str> {
    said.lines().filter(|line| ["WARN", "ERROR", "panicked"].iter().any(|word| line.contains(word))).collect()
}

/// The same of a process that still runs or has ended.
pub fn complaints_of(process: &Process) -> Vec<String> {
    let said = process.stderr() + &process.stdout();
    complaints(&said).into_iter().map(ToOwned::to_owned).collect()
}

/// A running `sa-api`.
pub struct Api {
    pub process: Process,
    pub base: String,
    pub token: String,
}

impl Api {
    /// Starts a server and then gets its token.
    pub async fn start(server: Binary, token: impl Future<Output = String>) -> Self {
        let mut process = server.args(["serve", "--bind", "127.0.0.1:0"]).spawn().unwrap();
        let line = process.wait_for_output("address=", LIMIT).await.unwrap();
        let address = line.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next()).unwrap();
        Self { process, base: format!("http://{address}"), token: token.await }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// A request with this viewer's token. Connections are not kept, since proofs kill servers.
    pub fn request(&self, method: reqwest::Method, path: &str) -> reqwest::RequestBuilder {
        let client = reqwest::Client::builder().pool_max_idle_per_host(0).timeout(LIMIT).build().unwrap();
        client.request(method, self.url(path)).bearer_auth(&self.token)
    }

    pub async fn get(&self, path: &str) -> Value {
        let response = self.request(reqwest::Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response.json().await.unwrap()
    }

    /// Submits a prompt, demands 202, and returns its answer.
    pub async fn prompt(&self, body: Value) -> Value {
        let response = self.request(reqwest::Method::POST, "/sa-core/v1/prompt").json(&body).send().await.unwrap();
        assert_eq!(response.status(), 202);
        response.json().await.unwrap()
    }
}
