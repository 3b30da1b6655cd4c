//! The database goes away and comes back, or is there and empty: who says what, and what goes on by itself.

use std::{env, time::Duration};

use reqwest::{Method, StatusCode};
use sa_harness::{Binary, Database, Engine, Gate, Outcome, Process, Reply, Rule, Server, wait_until};
use serde_json::{Value, json};

use crate::stage::{Api, LIMIT, MODEL, Stage, succeed};

/// A stage on a server of its own, which may be stopped without harm to other proofs.
async fn alone() -> (Server, Stage) {
    let server = Server::own(Engine::of_this_run().unwrap()).unwrap();
    let database = Database::fresh_on(&server).await.unwrap();
    (server, Stage::over(database, "").await)
}

/// A service whose jobs are stale after a minute, so that an outage of seconds takes none from it.
fn patient_worker(stage: &Stage) -> Binary {
    stage.worker().env("SA_STALE_AFTER", "60s")
}

/// The status of an answer, and the word of its problem.
async fn problem(api: &Api, method: Method, path: &str, body: Option<&Value>) -> (StatusCode, bool, Value) {
    let mut request = api.request(method, path);
    if let Some(body) = body {
        request = request.json(body);
    }
    let answer = request.send().await.unwrap();
    let (status, retry_after) = (answer.status(), answer.headers().contains_key("retry-after"));
    let problem: Value = answer.json().await.unwrap();
    (status, retry_after, problem["type"].clone())
}

/// 503 with `Retry-After` on every route that needs the database; the process itself lives.
async fn says_503(api: &Api) {
    let prompt = json!({ "prompt_text": "hello" });
    let job = format!("/sa-core/v1/jobs/{}", uuid::Uuid::now_v7());
    let away = (StatusCode::SERVICE_UNAVAILABLE, true, Value::from("urn:asterion:problem:database_unavailable"));
    for (method, path, body) in [
        (Method::POST, "/sa-core/v1/prompt", Some(&prompt)),
        (Method::GET, "/sa-core/v1/mission/recent", None),
        (Method::GET, &job, None),
        (Method::GET, "/readyz", None),
    ] {
        assert_eq!(problem(api, method, path, body).await, away, "{path}");
    }
    assert_eq!(api.get("/healthz").await, json!({ "status": "ok" }));
}

/// Programs that end by themselves exit with 5, print no result and say what to do.
async fn exits_5(stage: &Stage) {
    let cli = |args: &[&str]| stage.binary("sa-cli").args(args);
    for binary in [
        cli(&["submit-prompt", "hello"]),
        cli(&["list-jobs"]),
        cli(&["migrate"]),
        cli(&["run-prompt", "hello"]),
        stage.worker().arg("--once"),
        stage.binary("sa-reaper").arg("reclaim-stuck-jobs"),
    ] {
        let output = binary.run_to_end(LIMIT).await.unwrap();
        assert_eq!((output.code, output.stdout.as_str()), (Some(5), ""), "{binary:?}: {}", output.stderr);
        assert!(
            output.stderr.contains("cannot be reached") && output.stderr.contains("start the server"),
            "{output:?}"
        );
    }
}

/// Database away: the API answers 503, the programs exit with 5, and services wait, also those that were started
/// meanwhile. When it is back they all go on, without a restart.
#[tokio::test]
async fn while_the_database_is_away_everyone_says_so_and_services_come_back_by_themselves() {
    let (server, stage) = alone().await;
    let (api, _worker) = (stage.api().await, patient_worker(&stage).spawn().unwrap());
    let before = api.prompt(json!({ "prompt_text": "before" })).await;
    stage.wait_for_state(before["job_id"].as_str().unwrap(), "succeeded").await;

    server.stop().unwrap();
    says_503(&api).await;
    exits_5(&stage).await;
    let late = stage.binary("sa-api").args(["serve", "--bind", "127.0.0.1:0"]).spawn().unwrap();
    let mut late = [late, patient_worker(&stage).spawn().unwrap()];
    for process in &mut late {
        process.wait_for_output("trying again", LIMIT).await.unwrap();
    }

    server.start_again().unwrap();
    let prompt = async || {
        let request = api.request(Method::POST, "/sa-core/v1/prompt").json(&json!({ "prompt_text": "after" }));
        let answer = request.send().await.unwrap();
        if answer.status() == 202 { Some(answer.json::<Value>().await.unwrap()) } else { None }
    };
    let after = wait_until("a prompt to be taken again", LIMIT, prompt).await.unwrap();
    stage.wait_for_state(after["job_id"].as_str().unwrap(), "succeeded").await;
    assert_eq!(api.get("/sa-core/v1/mission/recent").await["entities"].as_array().unwrap().len(), 2, "none was lost");
    late[0].wait_for_output("address=", LIMIT).await.unwrap();
    late[1].wait_for_output("The worker starts", LIMIT).await.unwrap();
}

/// The provider has answered and the database is gone: the answer is kept and written once when it is back, without
/// another call, and the work that was queued goes on. The second time the server does not stop in order, but dies.
#[tokio::test]
async fn a_finished_answer_survives_an_outage_at_its_commit() {
    let (server, stage) = alone().await;
    let mut worker = patient_worker(&stage).args(["--batch-size", "1"]).spawn().unwrap();
    let ends: [fn(&Server) -> anyhow::Result<()>; 2] = [Server::stop, Server::kill9];
    for (round, end) in ends.into_iter().enumerate() {
        let (held, queued) = (format!("held {round}"), format!("queued {round}"));
        let gate = Gate::closed();
        stage.provider.script(Rule::when(&held).reply(Reply::wire("llama-chat-stream").until_after_bytes(1000, &gate)));
        let job = stage.submit(&held, &[]).await;
        wait_until("the call", LIMIT, async || !stage.provider.calls_with(&held).is_empty()).await.unwrap();
        let behind = stage.submit(&queued, &[]).await;

        end(&server).unwrap();
        gate.open();
        let sent = async || stage.provider.calls_with(&held)[0].outcome == Outcome::Completed;
        wait_until("the end of the answer", LIMIT, sent).await.unwrap();
        wait_for_line(&mut worker, "The end of a run could not be written", round + 1).await;
        server.start_again().unwrap();

        stage.wait_for_state(&job, "succeeded").await;
        stage.wait_for_state(&behind, "succeeded").await;
        for (job, text) in [(&job, &held), (&behind, &queued)] {
            assert_eq!(stage.provider.calls_with(text).len(), 1, "{text}");
            assert_eq!(stage.walk(job).await, "queued → running → succeeded", "{text}");
        }
    }
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_entity WHERE kind = 'response'").await, 4);
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_ledger WHERE outcome = 'succeeded'").await, 4);
}

/// Waits until a process has written a line with this text so many times.
async fn wait_for_line(process: &mut Process, text: &str, times: usize) {
    let written = async || process.stderr().matches(text).count() + process.stdout().matches(text).count() >= times;
    wait_until(text, LIMIT, written).await.unwrap();
}

/// `DATABASE_URL` names a database without tables: nobody works on it or makes tables of its own accord; all say what to
/// do, and when that is done, all works.
#[tokio::test]
async fn on_an_empty_database_nothing_starts_until_sa_cli_has_migrated_it() {
    let stage = Stage::over(Database::empty().await.unwrap(), "").await;
    for binary in [
        stage.binary("sa-api").args(["serve", "--bind", "127.0.0.1:0"]),
        stage.worker(),
        stage.worker().arg("--once"),
        stage.binary("sa-reaper").arg("reclaim-stuck-jobs"),
        stage.binary("sa-cli").args(["submit-prompt", "hello"]),
    ] {
        let output = binary.run_to_end(LIMIT).await.unwrap();
        assert_eq!((output.code, output.stdout.as_str()), (Some(1), ""), "{binary:?}: {}", output.stderr);
        assert!(output.stderr.contains("run `sa-cli migrate`"), "{}", output.stderr);
    }
    let tables = "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()";
    assert_eq!(stage.count(tables).await, 0);

    succeed(stage.binary("sa-cli").arg("migrate")).await;
    let api = stage.api().await;
    let _worker = stage.worker().spawn().unwrap();
    let ids = api.prompt(json!({ "prompt_text": "hello", "options": { "model": MODEL } })).await;
    stage.wait_for_state(ids["job_id"].as_str().unwrap(), "succeeded").await;
}

/// `DATABASE_URL` is sqlx's switch at compile time too: set to an empty database, it must not decide whether we build.
#[tokio::test]
async fn the_queries_compile_while_database_url_names_an_empty_database() {
    let empty = Database::empty().await.unwrap();
    let variable = |name: &str| env::var_os(name).unwrap_or_default();
    // A flag that nobody has used before makes the compiler read the queries, and no file is touched for it.
    let fresh = format!("built_on_{}", empty.name());
    let mut cargo = Binary::at(variable("CARGO"))
        .args(["rustc", "--quiet", "--package", "sa-core", "--lib", "--profile", "check", "--", "--cfg", &fresh])
        .env("DATABASE_URL", empty.url());
    for name in ["CARGO_HOME", "CARGO_TARGET_DIR", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = env::var_os(name) {
            cargo = cargo.env(name, value);
        }
    }
    // Others may be building, and cargo waits for them.
    let output = cargo.run_to_end(Duration::from_secs(600)).await.unwrap();
    assert_eq!(output.code, Some(0), "{}", output.stderr);
}
