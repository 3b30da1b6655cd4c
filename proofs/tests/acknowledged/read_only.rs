//! The server stops writing, as it does in a failover, and writes again.

use std::collections::HashSet;

use reqwest::{Method, StatusCode};
use sa_harness::{Binary, Database, Engine, Gate, Reply, Rule, Server, wait_until};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use super::HALVES;
use crate::stage::{Api, LIMIT, Stage, succeed};

/// Two users without the right to write to a read-only server, which root has.
const USERS: [&str; 2] = ["the_api", "the_worker"];

/// Case bank CB-38: `read_only` is set while calls are under way, and taken back. Writes are refused as "away" meanwhile,
/// nobody ends; afterwards all goes on by itself, the answers that came meanwhile are kept, nothing is lost or done twice,
/// and no connection made before is in use any more.
#[tokio::test]
async fn cb_38_a_server_that_stops_writing_for_a_while_loses_nothing() {
    let server = tokio::task::spawn_blocking(|| Server::own(Engine::of_this_run().unwrap())).await.unwrap().unwrap();
    let stage = Stage::over(Database::fresh_on(&server).await.unwrap().judged(), "").await;
    for user in USERS {
        make_user(&stage, user).await;
    }
    let gate = Gate::closed();
    stage.provider.script(Rule::always().first(2).reply(Reply::wire("llama-chat-stream").until(&gate)));
    let mut api = stage.api_of(of(&stage, "the_api", stage.binary("sa-api"))).await;
    let worker = stage.worker().args(["--batch-size", "2"]).env("SA_STALE_AFTER", "5m").env("SA_IDLE_SLEEP", "50ms");
    let mut worker = of(&stage, "the_worker", worker).spawn().unwrap();
    let mut jobs = Vec::new();
    for n in 1..=6 {
        let ids = api.prompt(json!({ "prompt_text": format!("prompt {n}.") })).await;
        jobs.push(ids["job_id"].as_str().unwrap().to_owned());
        stage.provider.wait_for_calls(n.min(2), LIMIT).await.unwrap();
    }
    let before: Vec<HashSet<i64>> = vec![connections(&stage, "the_api").await, connections(&stage, "the_worker").await];

    stage.sql("SET GLOBAL read_only = 1").await;
    refuses_as_away(&stage, &api).await;
    gate.open();
    for line in ["The end of a run could not be written", "Beats do not arrive"] {
        worker.wait_for_output(line, LIMIT).await.unwrap();
    }
    stage.sql("SET GLOBAL read_only = 0").await;

    for (n, job) in (1..).zip(&jobs) {
        stage.wait_for_state(job, "succeeded").await;
        assert_eq!(stage.walk(job).await, "queued → running → succeeded", "prompt {n}");
        assert_eq!(stage.provider.calls_with(&format!("prompt {n}.")).len(), 1, "prompt {n}");
    }
    api.prompt(json!({ "prompt_text": "and on" })).await;
    for (user, before) in USERS.into_iter().zip(before) {
        let renewed = async || {
            api.get("/sa-core/v1/mission/recent").await;
            connections(&stage, user).await.is_disjoint(&before)
        };
        wait_until(&format!("{user} to have left its old connections"), LIMIT, renewed).await.unwrap();
    }
    assert_eq!(stage.count(HALVES).await, 0);
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_job").await, 7, "what was refused was not done");
    for process in [&mut worker, &mut api.process] {
        process.sigterm().unwrap();
        assert!(process.wait_exit(LIMIT).await.unwrap().success(), "{}", process.stderr());
    }
}

/// A POST is refused with 503 and `Retry-After`, a command with 5; what only reads goes on.
async fn refuses_as_away(stage: &Stage, api: &Api) {
    let request = api.request(Method::POST, "/sa-core/v1/prompt").json(&json!({ "prompt_text": "refused" }));
    let answer = request.send().await.unwrap();
    assert_eq!(
        (answer.status(), answer.headers().contains_key("retry-after")),
        (StatusCode::SERVICE_UNAVAILABLE, true)
    );
    let problem: Value = answer.json().await.unwrap();
    assert_eq!(problem["type"], "urn:asterion:problem:database_unavailable");
    let cli = stage.binary("sa-cli").args(["submit-prompt", "refused"]);
    let output = of(stage, "the_api", cli).run_to_end(LIMIT).await.unwrap();
    assert_eq!((output.code, output.stdout.as_str()), (Some(5), ""), "{}", output.stderr);
    api.get("/sa-core/v1/mission/recent").await;
    succeed(of(stage, "the_api", stage.binary("sa-cli").arg("list-jobs"))).await;
}

/// The same binary as another user of the database.
fn of(stage: &Stage, user: &str, binary: Binary) -> Binary {
    binary.env("DATABASE_URL", stage.database.url().replacen("root@", &format!("{user}@"), 1))
}

/// From each host by name, as an anonymous user of a fresh server would be met before one of any host.
async fn make_user(stage: &Stage, user: &str) {
    for host in ["localhost", "127.0.0.1"] {
        let name = stage.database.name();
        for statement in [
            format!("CREATE USER '{user}'@'{host}' IDENTIFIED BY ''"),
            format!("GRANT ALL ON {name}.* TO '{user}'@'{host}'"),
        ] {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(stage.pool()).await.unwrap();
        }
    }
}

/// The connections that a user has at present.
async fn connections(stage: &Stage, user: &str) -> HashSet<i64> {
    let ids = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist WHERE user = ?";
    let ids: Vec<i64> = sqlx::query_scalar(ids).bind(user).fetch_all(stage.pool()).await.unwrap();
    ids.into_iter().collect()
}
