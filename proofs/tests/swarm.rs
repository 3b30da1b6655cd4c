//! `proofs/run swarm`: many workers and many enqueuers at once, and a closed lane's backlog ahead of them all.

mod faults;
mod invariants;

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use sa_core::repo::invariants::queries;
use sa_harness::{Process, Reply, Rule, wait_until};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::stage::{Stage, complaints_of, succeed};

const WORKERS: usize = 8;
const ENQUEUERS: u64 = 4;
const PROMPTS_EACH: usize = 500;
/// 2,000 jobs on two cores that others use as well.
const SWARM_LIMIT: Duration = Duration::from_secs(600);

/// A second provider, where nobody listens: a job of its lane that were claimed would fail, not succeed.
const SECOND_PROVIDER: &str = "\n[[provider]]\nname = \"gated\"\nkind = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
    auth = \"none\"\nmodels = [\"gated-model\"]\n";

const CLOSE_THE_GATE: &str = "INSERT INTO sa_provider_gate (lane, closed_until, reason, closures)
    VALUES ('gated', UTC_TIMESTAMP(6) + INTERVAL 1 DAY, 'quota', 1)";

/// Ten thousand prompts from four digits: the one sequence that both engines know.
const GATED_PROMPTS: &str =
    "INSERT INTO sa_entity (id, kind, org_id, created_by, correlation_id, truth_class, state_class, content)
     WITH RECURSIVE d (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM d WHERE n < 9)
     SELECT CONCAT('00000000-0000-7000-8000-', LPAD(a.n * 1000 + b.n * 100 + c.n * 10 + d.n, 12, '0')), 'prompt', 9, 9,
            CONCAT('00000000-0000-7000-8000-', LPAD(a.n * 1000 + b.n * 100 + c.n * 10 + d.n, 12, '0')),
            'authored', 'settled', 'waits for its lane'
       FROM d a CROSS JOIN d b CROSS JOIN d c CROSS JOIN d";

/// Of a better priority than all others, and due for an hour.
const GATED_JOBS: &str = "INSERT INTO sa_job (id, prompt_id, priority, lane, scheduled_for, org_id, created_by)
     SELECT REPLACE(id, '-7000-', '-7001-'), id, 10, 'gated', UTC_TIMESTAMP(6) - INTERVAL 1 HOUR, org_id, created_by
       FROM sa_entity WHERE org_id = 9";

/// What is not as one run leaves it: one claim, one success, one answer, one call in the ledger.
const NOT_EXACTLY_ONCE: &str = "SELECT COUNT(*) FROM sa_job j WHERE j.lane = 'fake' AND NOT (
         j.state = 'succeeded' AND j.attempt = 1 AND j.releases = 0
     AND (SELECT GROUP_CONCAT(e.reason ORDER BY e.seq) FROM sa_job_event e WHERE e.job_id = j.id) = 'enqueue,claim,success'
     AND (SELECT COUNT(*) FROM sa_entity r WHERE r.parent_id = j.prompt_id AND r.kind = 'response') = 1
     AND (SELECT COUNT(*) FROM sa_ledger l WHERE l.job_id = j.id) = 1
     AND (SELECT MAX(l.outcome) FROM sa_ledger l WHERE l.job_id = j.id) = 'succeeded')";

const GATED_UNTOUCHED: &str = "SELECT COUNT(*) FROM sa_job j WHERE j.lane = 'gated' AND j.state = 'queued'
     AND j.attempt = 1 AND j.revision = 1 AND j.releases = 0 AND j.updated_at = j.created_at
     AND NOT EXISTS (SELECT 1 FROM sa_job_event e WHERE e.job_id = j.id)";

/// What a client was told about one prompt.
struct Accepted {
    text: String,
    job: String,
}

/// 8 workers, 4 enqueuers, 2,000 jobs, and 10,000 more of a closed lane ahead of them: each job is run exactly once, by
/// rows, events and the provider's own log; none starves, no error surfaces, and no invariant is broken.
#[tokio::test]
async fn every_job_of_a_swarm_succeeds_exactly_once_behind_a_closed_lane() {
    let stage = Stage::with_settings(SECOND_PROVIDER).await;
    for statement in [CLOSE_THE_GATE, GATED_PROMPTS, GATED_JOBS] {
        stage.sql(statement).await;
    }
    assert_eq!(stage.count(GATED_UNTOUCHED).await, 10_000);

    let mut api = stage.api().await;
    let mut workers: Vec<Process> = (0..WORKERS).map(|_| worker(&stage)).collect();
    let mut enqueuers = JoinSet::new();
    for user in 1..=ENQUEUERS {
        enqueuers.spawn(enqueue(api.url("/sa-core/v1/prompt"), stage.token(1, user).await, user));
    }
    let accepted: Vec<Accepted> = enqueuers.join_all().await.into_iter().flatten().collect();
    assert_eq!(accepted.len(), 2_000);
    let open = "SELECT COUNT(*) FROM sa_job WHERE lane = 'fake' AND state IN ('queued', 'running')";
    wait_until("the swarm to settle", SWARM_LIMIT, async || stage.count(open).await == 0).await.unwrap();

    for process in workers.iter_mut().chain([&mut api.process]) {
        process.sigterm().unwrap();
        assert!(process.wait_exit(SWARM_LIMIT).await.unwrap().success());
        assert_eq!(complaints_of(process), Vec::<String>::new());
    }
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_job WHERE lane = 'fake'").await, 2_000);
    assert_eq!(stage.count(NOT_EXACTLY_ONCE).await, 0);
    assert_eq!(stage.count(GATED_UNTOUCHED).await, 10_000);
    called_once_each(&stage, &accepted);
    assert_eq!(invariants::broken(stage.pool()).await, Vec::<String>::new());
}

/// A service as it is deployed, with its own beats: nothing dies here, and a busy machine shall not look like a death.
fn worker(stage: &Stage) -> Process {
    stage.binary("sa-worker").args(["run-worker", "--batch-size", "8"]).spawn().unwrap()
}

/// One enqueuer: its prompts one after the other, and each must be accepted.
async fn enqueue(url: String, token: String, user: u64) -> Vec<Accepted> {
    let client = reqwest::Client::builder().timeout(SWARM_LIMIT).build().unwrap();
    let mut accepted = Vec::new();
    for n in 0..PROMPTS_EACH {
        let text = format!("prompt {n:04} of user {user}.");
        let request = client.post(&url).bearer_auth(&token).json(&json!({ "prompt_text": text }));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 202, "{text}");
        let ids: Value = response.json().await.unwrap();
        accepted.push(Accepted { text, job: ids["job_id"].as_str().unwrap().to_owned() });
    }
    accepted
}

/// Each accepted prompt reached the provider once, under its own job's key, and nothing else did.
fn called_once_each(stage: &Stage, accepted: &[Accepted]) {
    let expected: HashMap<&str, &str> = accepted.iter().map(|one| (one.text.as_str(), one.job.as_str())).collect();
    assert_eq!(expected.len(), accepted.len());
    let mut seen = HashSet::new();
    for call in stage.provider.calls() {
        let body: Value = serde_json::from_str(&call.body).unwrap();
        let text = body["messages"].as_array().unwrap().last().unwrap()["content"].as_str().unwrap();
        let job = expected[text];
        assert_eq!(call.headers["idempotency-key"], job, "{text}");
        assert!(seen.insert(job.to_owned()), "job {job} was sent twice: {text}");
    }
    assert_eq!(seen.len(), accepted.len());
}

/// The same invariants hold of every kind of life: answered, failed, tried again, held, cancelled, reclaimed, retried.
#[tokio::test]
async fn every_kind_of_life_keeps_the_invariants() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::when("refused").reply(Reply::wire("aimock-401")));
    stage.provider.script(Rule::when("limited").first(1).reply(Reply::wire("aimock-429-rate-limit")));
    stage.provider.script(Rule::when("overloaded").first(1).reply(Reply::wire("aimock-503")));
    stage.provider.script(Rule::when("hangs").first(1).reply(Reply::wire("llama-chat").hang_before_headers()));
    let hangs = stage.submit("hangs", &[]).await;
    let mut dies = stage.worker().spawn().unwrap();
    stage.provider.wait_for_calls(1, SWARM_LIMIT).await.unwrap();
    dies.kill9().unwrap();
    stage.sql("UPDATE sa_job SET running_heartbeat_at = running_heartbeat_at - INTERVAL 1 HOUR").await;
    stage.reap().await;
    stage.submit("overloaded", &[]).await;
    let limited = stage.submit("limited", &[]).await;
    let refused = stage.submit("refused", &[]).await;
    let answered = stage.submit("answered", &[]).await;
    let unwanted = stage.submit("unwanted", &["--priority", "99"]).await;
    stage.sql("UPDATE sa_job SET scheduled_for = scheduled_for + INTERVAL 1 HOUR WHERE priority = 99").await;
    stage.work_once().await;
    // A refused key and a 429 close the lane for whoever comes after them.
    open(&stage).await;
    stage.work_once().await;
    stage.sql("UPDATE sa_job SET scheduled_for = UTC_TIMESTAMP(6) WHERE held_reason = 'backoff'").await;
    succeed(stage.binary("sa-cli").args(["cancel-job", &unwanted])).await;
    succeed(stage.binary("sa-cli").args(["retry-job", &refused, &answered, &unwanted])).await;
    open(&stage).await;
    stage.work_once().await;

    assert!(stage.walk(&limited).await.ends_with("queued → running → succeeded"));
    assert!(stage.count("SELECT COUNT(*) FROM sa_job_event WHERE reason = 'gate'").await > 0);
    assert_eq!(stage.walk(&hangs).await, "queued → running → queued → running → succeeded");
    let states = "SELECT COUNT(DISTINCT state) FROM sa_job WHERE state IN ('succeeded', 'failed', 'superseded')";
    assert_eq!(stage.count(states).await, 3);
    assert_eq!(invariants::broken(stage.pool()).await, Vec::<String>::new());
}

async fn open(stage: &Stage) {
    succeed(stage.binary("sa-cli").args(["provider-open", "fake"])).await;
}

/// An invariant that cannot be broken proves nothing: each is broken, on a database whose own guards are taken away.
#[tokio::test]
async fn each_invariant_notices_its_faults() {
    let stage = Stage::set().await;
    stage.database.not_judged("it plants faults");
    for statement in faults::UNGUARD {
        stage.sql(statement).await;
    }
    let (all, faulted) = (queries().map(|(name, _)| &name[..3]), faults::ALL.iter().map(|(name, _)| *name));
    assert!(all.eq(faulted), "each invariant has its faults, in the same order");
    for (name, fault) in faults::ALL.iter().flat_map(|(name, faults)| faults.iter().map(move |fault| (name, fault))) {
        for statement in faults::GOOD_LIFE {
            stage.sql(statement).await;
        }
        assert_eq!(invariants::broken(stage.pool()).await, Vec::<String>::new());
        stage.sql(fault).await;
        let broken = invariants::broken(stage.pool()).await;
        assert!(broken.iter().any(|line| line.starts_with(name)), "{name} does not notice {fault}: {broken:?}");
    }
}
