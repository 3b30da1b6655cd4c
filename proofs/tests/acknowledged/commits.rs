//! The acknowledgement of a COMMIT is lost, or the COMMIT itself: to its client both look the same (reliability.md G6).
//!
//! The proxy says each time that it met exactly one COMMIT, so no proof can pass without its fault.

use reqwest::{Method, StatusCode};
use sa_harness::{Gate, Proxy, Reply, Rule};
use serde_json::{Value, json};

use super::{BOTH_CUTS, Cut, HALVES, JOBS, complaints};
use crate::stage::{Api, LIMIT, Stage, succeed};

const RESPONSES: &str = "SELECT COUNT(*) FROM sa_entity WHERE kind = 'response'";
const CALLS: &str = "SELECT COUNT(*) FROM sa_ledger";

/// A stage whose API reaches the database through a proxy.
async fn apart() -> (Stage, Proxy, Api) {
    let stage = Stage::set().await;
    let (proxy, url) = stage.proxy().await;
    let api = stage.api_of(stage.binary("sa-api").env("DATABASE_URL", url)).await;
    (stage, proxy, api)
}

async fn post(api: &Api, path: &str, body: &Value) -> (StatusCode, Value) {
    let answer = api.request(Method::POST, path).json(body).send().await.unwrap();
    (answer.status(), answer.json().await.unwrap())
}

/// Enqueue: 202, and one prompt with one job, whether the unanswered COMMIT took place or not.
#[tokio::test]
async fn an_unanswered_enqueue_is_found_or_done_again_never_doubled() {
    let (stage, proxy, api) = apart().await;
    for (n, cut) in (1..).zip(BOTH_CUTS) {
        cut.arm(&proxy);
        let ids = api.prompt(json!({ "prompt_text": "hello" })).await;
        assert_eq!(proxy.commits_cut(), n);
        assert_eq!(stage.walk(ids["job_id"].as_str().unwrap()).await, "queued", "{cut:?}");
        assert_eq!(i64::try_from(n).unwrap(), stage.count(JOBS).await, "{cut:?}");
        assert_eq!(stage.count(HALVES).await, 0, "{cut:?}");
    }
    assert_eq!(super::complaints_of(&api.process), Vec::<String>::new());
}

/// The same by the operator's command.
#[tokio::test]
async fn an_unanswered_submit_prompt_prints_the_one_job_it_made() {
    let stage = Stage::set().await;
    let (proxy, url) = stage.proxy().await;
    for (n, cut) in (1..).zip(BOTH_CUTS) {
        cut.arm(&proxy);
        let cli = stage.binary("sa-cli").args(["submit-prompt", "--json", "hello"]);
        let output = succeed(cli.env("DATABASE_URL", &url)).await;
        let ids: Value = serde_json::from_str(&output.stdout).unwrap();
        assert_eq!(stage.walk(ids["job_id"].as_str().unwrap()).await, "queued", "{cut:?}");
        assert_eq!((proxy.commits_cut(), stage.count(JOBS).await), (n, i64::try_from(n).unwrap()), "{cut:?}");
    }
}

/// When nobody can be asked what became of the COMMIT, the answer says just that: no 202, no failure, and no second job.
#[tokio::test]
async fn an_enqueue_that_cannot_be_found_out_is_called_unknown() {
    // The work goes on when its client has been answered, so the second may still be done: that is what unknown means.
    for (cut, jobs) in [(Cut::Acknowledgement, 1..=1), (Cut::Before, 0..=1)] {
        let (stage, proxy, api) = apart().await;
        api.get("/sa-core/v1/mission/recent").await;
        cut.arm(&proxy);
        // Open connections go on until they break, so the COMMIT is reached; afterwards nobody can ask.
        proxy.refuse().await.unwrap();
        let (status, problem) = post(&api, "/sa-core/v1/prompt", &json!({ "prompt_text": "hello" })).await;
        assert_eq!((status, &problem["type"]), (StatusCode::SERVICE_UNAVAILABLE, &away()), "{cut:?}");
        assert!(problem["detail"].as_str().unwrap().contains("it is not known whether it did"), "{problem}");
        proxy.accept().await.unwrap();
        assert!(jobs.contains(&stage.count(JOBS).await), "{cut:?}");
        assert_eq!((stage.count(HALVES).await, proxy.commits_cut()), (0, 1), "{cut:?}");
        api.prompt(json!({ "prompt_text": "and on" })).await;
    }
}

fn away() -> Value {
    Value::from("urn:asterion:problem:database_unavailable")
}

/// Cancel: 200 with the state that it really ended, of a waiting and of a running job, and one event.
#[tokio::test]
async fn an_unanswered_cancel_says_what_it_ended_and_ends_it_once() {
    let (stage, proxy, api) = apart().await;
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").hang_before_headers()));
    for (n, cut) in (0..).zip(BOTH_CUTS) {
        let running = stage.submit("hello", &[]).await;
        let _worker = stage.worker().args(["--priority-ceiling", "50"]).spawn().unwrap();
        stage.provider.wait_for_calls(n + 1, LIMIT).await.unwrap();
        let waiting = stage.submit("later", &["--priority", "99"]).await;
        for (job, from) in [(waiting, "queued"), (running, "running")] {
            cut.arm(&proxy);
            let (status, answer) = post(&api, &format!("/sa-core/v1/jobs/{job}/cancel"), &json!({})).await;
            assert_eq!((status, &answer["from"]), (StatusCode::OK, &json!(from)), "{cut:?} {answer}");
            assert_eq!(stage.state(&job).await, "cancelled", "{cut:?}");
            let cancels = stage.events(&job).await.iter().filter(|event| event.reason == "cancel").count();
            assert_eq!(cancels, 1, "{cut:?}");
        }
    }
    assert_eq!(proxy.commits_cut(), 4);
    assert_eq!(super::complaints_of(&api.process), Vec::<String>::new());
}

/// Retry of an ended job: 202 with the one successor there is.
#[tokio::test]
async fn an_unanswered_retry_names_the_one_successor() {
    let (stage, proxy, api) = apart().await;
    for (n, cut) in (1..).zip(BOTH_CUTS) {
        let job = stage.submit("hello", &[]).await;
        assert_eq!(stage.cli(&["cancel-job", &job]).await.code, Some(0));
        cut.arm(&proxy);
        let (status, answer) = post(&api, &format!("/sa-core/v1/jobs/{job}/retry"), &json!({})).await;
        assert_eq!((status, &answer["supersedes"]), (StatusCode::ACCEPTED, &json!(job)), "{cut:?} {answer}");
        assert_eq!((proxy.commits_cut(), stage.walk(&job).await.as_str()), (n, "queued → cancelled → superseded"));
        assert_eq!(stage.walk(answer["job_id"].as_str().unwrap()).await, "queued", "{cut:?}");
        assert_eq!(stage.count(JOBS).await, 2 * i64::try_from(n).unwrap(), "{cut:?}");
    }
    assert_eq!(super::complaints_of(&api.process), Vec::<String>::new());
}

/// Retry of a waiting job: 200 and the instant it is due, which is written once.
#[tokio::test]
async fn an_unanswered_bringing_forward_is_noted_once() {
    let (stage, proxy, api) = apart().await;
    for (n, cut) in (1..).zip(BOTH_CUTS) {
        let job = stage.submit("later", &[]).await;
        stage.sql("UPDATE sa_job SET scheduled_for = scheduled_for + INTERVAL 1 HOUR").await;
        cut.arm(&proxy);
        let (status, answer) = post(&api, &format!("/sa-core/v1/jobs/{job}/retry"), &json!({})).await;
        assert_eq!((status, &answer["job_id"]), (StatusCode::OK, &json!(job)), "{cut:?} {answer}");
        let reasons: Vec<_> = stage.events(&job).await.into_iter().map(|event| event.reason).collect();
        assert_eq!((proxy.commits_cut(), reasons), (n, vec!["enqueue".to_owned(), "brought_forward".to_owned()]));
    }
}

/// Claim by a service: the jobs of the unanswered claim are found, or claimed again, and each is run once, in attempt 1.
#[tokio::test]
async fn an_unanswered_claim_is_found_and_its_jobs_run_once() {
    let stage = Stage::set().await;
    let (proxy, url) = stage.proxy().await;
    for (n, cut) in (1..).zip(BOTH_CUTS) {
        let jobs = [stage.submit("one", &[]).await, stage.submit("two", &[]).await, stage.submit("three", &[]).await];
        cut.arm(&proxy);
        let worker = stage.worker().args(["--batch-size", "3"]).env("DATABASE_URL", &url);
        let _worker = worker.env("SA_STALE_AFTER", "60s").spawn().unwrap();
        for job in &jobs {
            stage.wait_for_state(job, "succeeded").await;
            assert_eq!(stage.walk(job).await, "queued → running → succeeded", "{cut:?}");
        }
        assert_eq!((proxy.commits_cut(), stage.provider.calls().len()), (n, 3 * n), "{cut:?}");
    }
}

/// Claim by a one-shot: what it has claimed without hearing of it, it runs. What it has not, it says and leaves alone.
#[tokio::test]
async fn a_one_shot_runs_what_it_claimed_unheard_and_leaves_what_it_did_not() {
    let stage = Stage::set().await;
    let (proxy, url) = stage.proxy().await;
    let once = stage.worker().arg("--once").env("DATABASE_URL", &url);
    let job = stage.submit("hello", &[]).await;
    proxy.cut_ack_of_next_commit();
    let output = succeed(once.clone()).await;
    assert_eq!((proxy.commits_cut(), stage.walk(&job).await.as_str()), (1, "queued → running → succeeded"));
    assert_eq!(complaints(&output.stderr), Vec::<&str>::new());

    let job = stage.submit("hello again", &[]).await;
    proxy.cut_before_next_commit();
    let output = once.clone().run_to_end(LIMIT).await.unwrap();
    assert_eq!((output.code, stage.walk(&job).await.as_str()), (Some(5), "queued"), "{}", output.stderr);
    succeed(once).await;
    assert_eq!(stage.walk(&job).await, "queued → running → succeeded");
    assert_eq!((proxy.commits_cut(), stage.provider.calls().len()), (2, 2));
}

/// Finalize, of a success, a failure and a requeue: the end is written once, the provider is not asked again, and the run
/// succeeds in the eyes of its worker.
#[tokio::test]
async fn an_unanswered_finalize_is_written_once_and_costs_no_second_call() {
    let stage = Stage::set().await;
    let (proxy, url) = stage.proxy().await;
    let ends = [
        ("llama-chat-stream", "queued → running → succeeded", "success"),
        ("aimock-400-content-policy", "queued → running → failed", "failure"),
        ("aimock-503", "queued → running → queued", "transient"),
    ];
    let mut runs = 0;
    for cut in BOTH_CUTS {
        for (wire, walk, reason) in ends {
            let (gate, text) = (Gate::closed(), format!("{wire} {cut:?}"));
            stage.provider.script(Rule::when(&text).reply(Reply::wire(wire).until(&gate)));
            let job = stage.submit(&text, &[]).await;
            let mut worker = stage.worker().arg("--once").env("DATABASE_URL", &url).spawn().unwrap();
            runs += 1;
            stage.provider.wait_for_calls(runs, LIMIT).await.unwrap();
            cut.arm(&proxy);
            gate.open();
            assert!(worker.wait_exit(LIMIT).await.unwrap().success(), "{text}: {}", worker.stderr());

            assert_eq!((proxy.commits_cut(), stage.walk(&job).await.as_str()), (runs, walk), "{text}");
            assert_eq!(stage.events(&job).await.last().unwrap().reason, reason, "{text}");
            assert_eq!(super::complaints_of(&worker), Vec::<String>::new(), "{text}");
        }
    }
    assert_eq!(stage.provider.calls().len(), runs);
    assert_eq!((stage.count(RESPONSES).await, stage.count(CALLS).await), (2, 6));
}

/// The synchronous run stores and claims in one COMMIT: unheard, it is one prompt and one answer; undone, it is none, and the
/// command says that the database was away.
#[tokio::test]
async fn an_unanswered_run_prompt_is_one_prompt_and_one_answer_or_none() {
    let stage = Stage::set().await;
    let (proxy, url) = stage.proxy().await;
    let cli = stage.binary("sa-cli").args(["run-prompt", "--json", "hello"]).env("DATABASE_URL", &url);
    Cut::Before.arm(&proxy);
    let output = cli.run_to_end(LIMIT).await.unwrap();
    assert_eq!((output.code, output.stdout.as_str()), (Some(5), ""), "{}", output.stderr);
    assert_eq!((stage.count(JOBS).await, stage.count(HALVES).await, proxy.commits_cut()), (0, 0, 1));

    Cut::Acknowledgement.arm(&proxy);
    let answered: Value = serde_json::from_str(&succeed(cli).await.stdout).unwrap();
    assert_eq!(stage.state(answered["job_id"].as_str().unwrap()).await, "succeeded");
    let rows = (stage.count(JOBS).await, stage.count(RESPONSES).await, stage.count(HALVES).await);
    assert_eq!((rows, proxy.commits_cut(), stage.provider.calls().len()), ((1, 1, 0), 2, 1));
}
