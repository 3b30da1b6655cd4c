//! `proofs/run fairness`: what is urgent comes first, and with `--fair-every` what is not comes too.

use sa_harness::{Process, wait_until};

use crate::stage::{LIMIT, Stage};

/// A prompt that nobody is in a hurry about, and an unbroken stream of urgent ones behind it: twenty wait already.
async fn starving(stage: &Stage) -> (String, Vec<String>) {
    let patient = stage.submit("patient", &["--priority", "100"]).await;
    let mut urgent = Vec::new();
    for _ in 0..20 {
        urgent.push(stage.submit("urgent", &["--priority", "5"]).await);
    }
    (patient, urgent)
}

/// A service that takes one job after another.
fn one_by_one(stage: &Stage, fair_every: &str) -> Process {
    stage.worker().args(["--batch-size", "1", "--fair-every", fair_every]).spawn().unwrap()
}

/// As the how-maniest this job was claimed, counted from 1.
async fn place(stage: &Stage, job: &str) -> i64 {
    let claims_before = "SELECT COUNT(*) FROM sa_job_event e JOIN sa_job_event own
                          ON own.reason = 'claim' AND e.reason = 'claim' AND e.seq <= own.seq AND own.job_id = ";
    sqlx::QueryBuilder::new(claims_before).push_bind(job).build_query_scalar().fetch_one(stage.pool()).await.unwrap()
}

async fn all_succeed(stage: &Stage) {
    let left = "SELECT COUNT(*) FROM sa_job WHERE state <> 'succeeded'";
    wait_until("all to succeed", LIMIT, async || stage.count(left).await == 0).await.unwrap();
}

/// Case bank CB-30: behind a stream of urgent prompts the patient one is among the first eight that are claimed.
#[tokio::test]
async fn cb_30_with_fair_every_8_the_oldest_runs_within_eight_claims() {
    let stage = Stage::set().await;
    let (patient, urgent) = starving(&stage).await;
    let _worker = one_by_one(&stage, "8");
    all_succeed(&stage).await;
    assert_eq!(place(&stage, &patient).await, 8);
    let mut places = Vec::new();
    for job in &urgent {
        places.push(place(&stage, job).await);
    }
    let rest: Vec<i64> = (1..=21).filter(|&n| n != 8).collect();
    assert_eq!(places, rest, "and the urgent ones keep their order");
}

/// Without it the priorities are strict: whatever is urgent comes first.
#[tokio::test]
async fn without_it_the_patient_one_comes_last() {
    let stage = Stage::set().await;
    let (patient, _urgent) = starving(&stage).await;
    let _worker = one_by_one(&stage, "0");
    all_succeed(&stage).await;
    assert_eq!(place(&stage, &patient).await, 21);
}
