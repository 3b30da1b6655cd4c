//! `proofs/run gates`: a provider that cannot answer is left alone by all workers, and its jobs wait without harm.

mod storm;

use sa_harness::{FakeProvider, Reply, Rule};

use crate::stage::Stage;

/// Two providers: `fake`, and `spare`, which is `fake`'s fallback.
struct Pair {
    stage: Stage,
    spare: FakeProvider,
}

impl Pair {
    async fn set() -> Self {
        let spare = FakeProvider::start().await.unwrap();
        let settings = format!(
            "fallback = [\"spare\"]\n\n[[provider]]\nname = \"spare\"\nkind = \"openai\"\nbase_url = \"{}\"\n\
             auth = \"none\"\nmodels = [\"spare-model\"]\n",
            spare.url()
        );
        Self { stage: Stage::with_settings(&settings).await, spare }
    }

    async fn columns(&self, job: &str) -> [String; 4] {
        columns(&self.stage, job).await
    }

    /// Purpose, provider and outcome of each call of a job.
    async fn ledger(&self, job: &str) -> Vec<(String, String, String)> {
        sqlx::query_as("SELECT purpose, provider, outcome FROM sa_ledger WHERE job_id = ? ORDER BY id")
            .bind(job)
            .fetch_all(self.stage.pool())
            .await
            .unwrap()
    }
}

async fn columns(stage: &Stage, job: &str) -> [String; 4] {
    let mut columns = [const { String::new() }; 4];
    for (column, name) in columns.iter_mut().zip(["state", "attempt", "error_kind", "held_reason"]) {
        *column = stage.job_text(job, name).await.unwrap_or_default();
    }
    columns
}

fn rows(rows: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    rows.iter().map(|&(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())).collect()
}

const WAITED_OUT: &str = "UPDATE sa_provider_gate SET closed_until = UTC_TIMESTAMP(6)";

/// Contract §4.10: a refused key closes the lane for all until an operator opens it, and only the job that met it fails.
#[tokio::test]
async fn a_refused_key_holds_the_others_until_an_operator_opens_the_lane() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().first(1).reply(Reply::wire("aimock-401")));
    let first = stage.submit("first", &[]).await;
    stage.work_once().await;
    assert_eq!(columns(&stage, &first).await, ["failed", "1", "auth", ""]);

    let second = stage.submit("second", &[]).await;
    stage.work_once().await;
    assert_eq!(stage.provider.calls().len(), 1);
    let refused = stage.cli(&["retry-job", &second]).await;
    assert_eq!(refused.code, Some(4), "{}", refused.stderr);
    assert!(refused.stderr.contains("lane fake is closed") && refused.stderr.contains("sa-cli provider-open fake"));

    let opened = stage.cli(&["provider-open", "fake"]).await;
    assert_eq!(
        (opened.code, opened.stdout.as_str()),
        (Some(0), "fake is open; it had closed 1 times in a row, last for auth\n")
    );
    stage.work_once().await;
    assert_eq!(columns(&stage, &second).await, ["succeeded", "1", "", ""]);
    let again = stage.cli(&["provider-open", "fake"]).await;
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), "fake was open already\n"));
}

/// A 403 is about this request, not about the key: it fails its job and closes nothing.
#[tokio::test]
async fn a_forbidden_request_closes_nothing() {
    let stage = Stage::set().await;
    let forbidden =
        Reply::by_hand("403 Forbidden", &[("content-type", "application/json")], r#"{"error":{"message":"no"}}"#);
    stage.provider.script(Rule::always().first(1).reply(forbidden));
    let first = stage.submit("first", &[]).await;
    stage.work_once().await;
    assert_eq!(columns(&stage, &first).await, ["failed", "1", "auth", ""]);
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_provider_gate").await, 0);
}

/// What money or a key cannot buy here is bought elsewhere, in the same run and with a key of its own.
#[tokio::test]
async fn a_fallback_answers_in_the_same_run_and_then_in_place_of_the_closed_lane() {
    let pair = Pair::set().await;
    let Pair { stage, spare } = &pair;
    stage.provider.script(Rule::always().reply(Reply::wire("aimock-429-quota")));
    let job = stage.submit("hello", &[]).await;
    stage.work_once().await;
    assert_eq!(pair.columns(&job).await, ["succeeded", "1", "", ""]);
    let expected = rows(&[("answer", "fake", "failed"), ("fallback", "spare", "succeeded")]);
    assert_eq!(pair.ledger(&job).await, expected);
    assert_eq!(stage.provider.calls()[0].headers["idempotency-key"], job);
    assert_eq!(spare.calls()[0].headers["idempotency-key"], format!("{job}:spare"));
    assert!(spare.calls()[0].body.contains("spare-model"), "its own model, since it lacks the other");

    let next = stage.submit("and again", &[]).await;
    stage.work_once().await;
    assert_eq!(stage.provider.calls().len(), 1, "a closed lane is not called");
    assert_eq!(pair.ledger(&next).await, rows(&[("fallback", "spare", "succeeded")]));
}

/// If none can answer, the answer call's error decides: here the 429, which holds the job.
#[tokio::test]
async fn when_no_fallback_answers_either_the_first_error_decides() {
    let pair = Pair::set().await;
    let Pair { stage, spare } = &pair;
    stage.provider.script(Rule::always().first(1).reply(Reply::wire("aimock-429-rate-limit")));
    spare.script(Rule::always().first(1).reply(Reply::wire("aimock-400-content-policy")));
    let job = stage.submit("hello", &[]).await;
    stage.work_once().await;
    assert_eq!(pair.columns(&job).await, ["queued", "1", "rate_limit", "gate"]);
    let expected = rows(&[("answer", "fake", "failed"), ("fallback", "spare", "failed")]);
    assert_eq!(pair.ledger(&job).await, expected);

    // Neither lane is open: the job is not claimed at all. When the time is over, one trial finds out.
    stage.sql("INSERT INTO sa_provider_gate (lane, closed_until, reason) VALUES ('spare', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, 'quota')").await;
    let events = stage.events(&job).await.len();
    stage.sql("UPDATE sa_provider_gate SET closed_until = closed_until + INTERVAL 1 HOUR").await;
    stage.work_once().await;
    assert_eq!(stage.events(&job).await.len(), events);
    stage.sql(WAITED_OUT).await;
    stage.work_once().await;
    assert_eq!(pair.columns(&job).await, ["succeeded", "1", "", ""]);
    assert_eq!(
        stage
            .count(
                "SELECT COUNT(*) FROM sa_provider_gate WHERE lane = 'fake' AND closed_until IS NULL AND closures = 0"
            )
            .await,
        1
    );
}

/// Contract §4.10: 24 hours after a gate held the job for the first time, the next 429 is its end.
#[tokio::test]
async fn a_day_of_429_is_enough() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().reply(Reply::wire("aimock-429-rate-limit")));
    let job = stage.submit("hello", &[]).await;
    stage.work_once().await;
    stage.sql("UPDATE sa_job SET held_since = UTC_TIMESTAMP(6) - INTERVAL 1 DAY").await;
    stage.sql(WAITED_OUT).await;
    stage.work_once().await;
    assert_eq!(columns(&stage, &job).await, ["failed", "1", "rate_limit", ""]);
}

/// Contract §5: the router is asked first, once, and its word is taken if it names a configured model.
#[tokio::test]
async fn a_router_chooses_who_answers_and_a_useless_one_leaves_the_default() {
    let pair = Pair::set().await;
    let Pair { stage, spare } = &pair;
    stage.provider.script(Rule::when("Choose the model").nth(1).reply(says("spare-model")));
    stage.provider.script(Rule::when("Choose the model").reply(says("I am only a poet.")));
    let routed = stage.submit("which?", &["--router-model", "fake-model"]).await;
    stage.work_once().await;
    let expected = rows(&[("router", "fake", "succeeded"), ("answer", "spare", "succeeded")]);
    assert_eq!(pair.ledger(&routed).await, expected);
    assert_eq!(stage.provider.calls()[0].headers["idempotency-key"], format!("{routed}:router"));
    assert_eq!(stage.job_text(&routed, "lane").await.as_deref(), Some("fake"), "the choice does not move the job");

    let unrouted = stage.submit("which?", &["--router-model", "fake-model"]).await;
    stage.work_once().await;
    assert_eq!(pair.ledger(&unrouted).await, rows(&[("router", "fake", "succeeded"), ("answer", "fake", "succeeded")]));
    assert_eq!(spare.calls().len(), 1);
}

/// A chosen lane that is closed, and has no fallback, is what the job waits for from now on.
#[tokio::test]
async fn a_job_waits_for_the_lane_its_router_chose() {
    let Pair { stage, spare } = &Pair::set().await;
    stage.provider.script(Rule::always().reply(says("spare-model")));
    stage.sql("INSERT INTO sa_provider_gate (lane, closed_until, reason) VALUES ('spare', UTC_TIMESTAMP(6) + INTERVAL 1 HOUR, 'quota')").await;
    let job = stage.submit("which?", &["--router-model", "fake-model"]).await;
    stage.work_once().await;
    assert_eq!(columns(stage, &job).await, ["queued", "1", "quota", "gate"]);
    assert_eq!(stage.job_text(&job, "lane").await.as_deref(), Some("spare"));
    assert_eq!((stage.provider.calls().len(), spare.calls().len()), (1, 0));
    stage.work_once().await;
    assert_eq!(stage.provider.calls().len(), 1, "held, and not asked again");
    stage.sql(WAITED_OUT).await;
    stage.work_once().await;
    assert_eq!(columns(stage, &job).await, ["succeeded", "1", "", ""]);
}

/// A provider's whole answer of this text.
fn says(text: &str) -> Reply {
    let body = format!(r#"{{"choices":[{{"message":{{"content":"{text}"}},"finish_reason":"stop"}}]}}"#);
    Reply::by_hand("200 OK", &[("content-type", "application/json")], &body)
}
