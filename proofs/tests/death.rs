//! `proofs/run death`: a process that is dead for certain loses its jobs at the reaper's next run, and no other does.
//!
//! All limits are those of production, so nothing here is taken for its silence.

mod namespaces;

use std::{fs, process::id, time::Duration};

use sa_core::{
    id::WorkerId,
    pulse::{Pulse, PulseRole},
};
use sa_harness::{Binary, Gate, Output, Process, Reply, Rule, wait_until};

use crate::stage::{LIMIT, Stage, succeed};

/// A stage whose provider never answers.
async fn stage() -> Stage {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").hang_before_headers()));
    stage
}

/// A worker as it is deployed.
fn worker(stage: &Stage) -> Binary {
    stage.binary("sa-worker").arg("run-worker")
}

/// A reaper as it is deployed.
fn reaper(stage: &Stage) -> Binary {
    stage.binary("sa-reaper").arg("reclaim-stuck-jobs")
}

/// Runs the reaper and returns what it said.
async fn reap(stage: &Stage) -> String {
    let Output { stdout, stderr, .. } = succeed(reaper(stage)).await;
    assert_eq!(stderr, "");
    stdout
}

/// A worker, and the one job that it will never end.
async fn at_work(stage: &Stage) -> (Process, String) {
    let job = stage.submit("hello", &[]).await;
    let worker = worker(stage).spawn().unwrap();
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    (worker, job)
}

/// The same, whose worker was killed.
async fn killed_at_work(stage: &Stage) -> String {
    let (mut worker, job) = at_work(stage).await;
    worker.kill9().unwrap();
    job
}

/// What this very process would say in its pulse.
fn own_pulse() -> Pulse {
    Pulse::of_this_process(WorkerId::new(), PulseRole::Worker, Duration::ZERO, Duration::ZERO, vec![])
}

/// Demands that the reaper takes this job and nothing else, and says this.
async fn is_taken(stage: &Stage, job: &str, how: &str) {
    assert_eq!(reap(stage).await, format!("{job} running → queued (attempt 2): {how} in attempt 1\n"));
    // A worker that lives may have claimed it again since.
    assert!(stage.walk(job).await.starts_with("queued → running → queued"));
    let reclaims = "SELECT error_kind FROM sa_job_event WHERE job_id = ? AND reason = 'reclaim'";
    let kinds: Vec<String> = sqlx::query_scalar(reclaims).bind(job).fetch_all(stage.pool()).await.unwrap();
    assert_eq!(kinds, ["worker_crash"]);
}

/// Demands that the reaper leaves this job alone.
async fn is_left(stage: &Stage, job: &str) {
    assert_eq!(reap(stage).await, "");
    assert_eq!(stage.state(job).await, "running");
}

/// Case bank CB-03: the kernel takes a worker with five running jobs. All five are back at the reaper's next run, seconds
/// later and not after 225 s of silence, and another worker answers them.
#[tokio::test]
async fn cb_03_a_killed_workers_five_jobs_are_back_at_once() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::always().first(5).reply(Reply::wire("llama-chat-stream").hang_before_headers()));
    let mut jobs = Vec::new();
    for _ in 0..5 {
        jobs.push(stage.submit("hello", &[]).await);
    }
    let mut killed = worker(&stage).spawn().unwrap();
    stage.provider.wait_for_calls(5, LIMIT).await.unwrap();
    assert_eq!(reap(&stage).await, "", "it lives");
    killed.kill9().unwrap();

    let mut expected: Vec<_> =
        jobs.iter().map(|job| format!("{job} running → queued (attempt 2): its process ended in attempt 1")).collect();
    let said = reap(&stage).await;
    let mut lines: Vec<_> = said.lines().collect();
    lines.sort_unstable();
    expected.sort_unstable();
    assert_eq!(lines, expected);
    assert_eq!(reap(&stage).await, "");

    succeed(worker(&stage).arg("--once")).await;
    for job in &jobs {
        assert_eq!(stage.walk(job).await, "queued → running → queued → running → succeeded");
    }
}

/// Case bank CB-04: the unit is started again at once on the same host. The old process's job is taken, the new one's is
/// not.
#[tokio::test]
async fn cb_04_a_restart_hides_no_orphan_and_harms_no_successor() {
    let stage = stage().await;
    let orphan = killed_at_work(&stage).await;
    let successors = stage.submit("hello", &[]).await;
    let _restarted = worker(&stage).spawn().unwrap();
    stage.provider.wait_for_calls(2, LIMIT).await.unwrap();
    is_taken(&stage, &orphan, "its process ended").await;
    assert_eq!(stage.state(&successors).await, "running");
}

/// A process nobody has waited for is there, and dead.
#[tokio::test]
async fn a_zombie_is_dead() {
    let stage = stage().await;
    let (worker, job) = at_work(&stage).await;
    let pid = worker.id().to_string();
    succeed(Binary::at("kill").args(["-9", &pid])).await;
    let stat = format!("/proc/{pid}/stat");
    wait_until("a zombie", LIMIT, async || fs::read_to_string(&stat).unwrap().contains(") Z ")).await.unwrap();
    is_taken(&stage, &job, "its process ended").await;
    drop(worker);
}

/// The number of a dead worker belongs to another process by now, which started at another time.
#[tokio::test]
async fn a_number_that_was_given_to_another_process_is_no_life() {
    let stage = stage().await;
    let job = killed_at_work(&stage).await;
    let own = own_pulse();
    let become_us = "UPDATE sa_pulse SET pid = ?, start_time = ? WHERE role = 'worker'";
    let claim_to_be = async |start_time: Option<u64>| {
        sqlx::query(become_us).bind(id()).bind(start_time).execute(stage.pool()).await.unwrap();
    };
    claim_to_be(own.start_time).await;
    is_left(&stage, &job).await;
    claim_to_be(None).await;
    is_left(&stage, &job).await;
    claim_to_be(own.start_time.map(|start| start + 1)).await;
    is_taken(&stage, &job, "its process ended").await;
}

/// A machine that was started anew has no process of before. A clone of it has its machine id and another boot too, and
/// lives: its last pulse is younger than this boot.
#[tokio::test]
async fn a_machine_started_anew_has_no_old_process_and_its_clone_lives() {
    let stage = stage().await;
    let job = killed_at_work(&stage).await;
    stage.sql("UPDATE sa_pulse SET boot_id = 'another' WHERE role = 'worker'").await;
    is_left(&stage, &job).await;
    let up_for = fs::read_to_string("/proc/uptime").unwrap();
    let up_for: f64 = up_for.split_whitespace().next().unwrap().parse().unwrap();
    // The reaper throws pulses of last week away, and this machine may have been up for longer.
    stage.sql("CREATE TABLE kept AS SELECT * FROM sa_pulse WHERE role = 'worker'").await;
    let last_pulse = "UPDATE sa_pulse SET seen_at = UTC_TIMESTAMP(6) - INTERVAL ? SECOND WHERE role = 'worker'";
    for (age, dead) in [(up_for - 60.0, false), (up_for + 60.0, true)] {
        stage.sql("INSERT IGNORE INTO sa_pulse SELECT * FROM kept").await;
        sqlx::query(last_pulse).bind(age as u64).execute(stage.pool()).await.unwrap();
        if dead {
            is_taken(&stage, &job, "the machine was started anew").await;
        } else {
            is_left(&stage, &job).await;
        }
    }
}

/// Another machine's process is out of sight, and so is one that says of itself too little.
#[tokio::test]
async fn what_is_not_known_is_waited_for() {
    let stage = stage().await;
    let job = killed_at_work(&stage).await;
    let known = own_pulse();
    for unknown in
        ["machine_id = 'another'", "machine_id = NULL", "boot_id = NULL", "pid_namespace = NULL", "pid_namespace = 1"]
    {
        let mut plant = sqlx::QueryBuilder::new("UPDATE sa_pulse SET machine_id = ");
        plant.push_bind(&known.machine_id).push(", boot_id = ").push_bind(&known.boot_id);
        plant.push(", pid_namespace = ").push_bind(known.pid_namespace).push(" WHERE role = 'worker'");
        plant.build().execute(stage.pool()).await.unwrap();
        let mut forget = sqlx::QueryBuilder::new("UPDATE sa_pulse SET ");
        forget.push(unknown).push(" WHERE role = 'worker'").build().execute(stage.pool()).await.unwrap();
        is_left(&stage, &job).await;
    }
    stage.sql("UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 226 SECOND").await;
    is_taken(&stage, &job, "its worker fell silent").await;
}

/// Contract §4.6: after an outage *nothing* is reclaimed for two beats, also not what is proven dead.
#[tokio::test]
async fn after_an_outage_the_dead_too_wait_for_two_beats() {
    let stage = stage().await;
    let job = killed_at_work(&stage).await;
    stage.sql("DELETE FROM sa_pulse WHERE role = 'reaper'").await;
    stage
        .sql(
            "INSERT INTO sa_pulse (id, role, host, pid, version, lanes, beat_ms, stale_ms, seen_at)
             VALUES ('00000000-0000-0000-0000-000000000000', 'reaper', 'h', 1, '0', '[]', 30000, 225000,
                     UTC_TIMESTAMP(6) - INTERVAL 121 SECOND)",
        )
        .await;
    let output = succeed(reaper(&stage)).await;
    assert!(output.stdout.is_empty() && output.stderr.contains("nothing is taken back"), "{output:?}");
    assert_eq!(stage.state(&job).await, "running");
    stage.sql("UPDATE sa_pulse SET resumed_at = UTC_TIMESTAMP(6) - INTERVAL 61 SECOND WHERE role = 'reaper'").await;
    is_taken(&stage, &job, "its process ended").await;
}

/// Case bank CB-51: a prompt kills its worker each time. It is given up after three, whatever else ran is answered, and it
/// could have been cancelled at any moment.
#[tokio::test]
async fn cb_51_a_prompt_that_kills_its_worker_is_given_up_and_can_be_cancelled_before() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::when("poison").reply(Reply::wire("llama-chat-stream").hang_before_headers()));
    let (poison, cancelled) = (stage.submit("poison", &[]).await, stage.submit("poison too", &[]).await);
    for round in 1..=3 {
        let bystander = stage.submit("hello", &[]).await;
        let mut victim = worker(&stage).spawn().unwrap();
        stage.wait_for_state(&bystander, "succeeded").await;
        wait_until("the poison", LIMIT, async || stage.provider.calls_with("poison").len() >= round * 2).await.unwrap();
        victim.kill9().unwrap();
        if round == 1 {
            let output = stage.cli(&["cancel-job", &cancelled]).await;
            assert_eq!(output.code, Some(0), "{output:?}");
            stage.submit("poison in its place", &[]).await;
        }
        assert!(reap(&stage).await.contains(&poison));
    }
    assert_eq!(stage.walk(&cancelled).await, "queued → running → cancelled");
    assert_eq!(stage.walk(&poison).await, "queued → running → queued → running → queued → running → failed");
    assert_eq!(stage.job_text(&poison, "error_message").await.as_deref(), Some("worker died 3 times"));
}

/// A worker that lives, whatever was thought of it, loses nothing that it has finished; what it finishes later changes
/// nothing, and nobody is paid a third time.
#[tokio::test]
async fn a_worker_taken_for_dead_loses_only_what_it_had_not_finished() {
    let stage = Stage::set().await;
    let gate = Gate::closed();
    let answer = || Reply::wire("llama-chat-stream");
    stage.provider.script(Rule::when("slow").first(1).reply(answer().until_after_bytes(700, &gate)));
    let (done, slow) = (stage.submit("quick", &[]).await, stage.submit("slow", &[]).await);
    let _worker = worker(&stage).spawn().unwrap();
    stage.wait_for_state(&done, "succeeded").await;
    wait_until("the slow call", LIMIT, async || !stage.provider.calls_with("slow").is_empty()).await.unwrap();
    // No kernel gives this number to a process: it is the first behind all that it can.
    stage.sql("UPDATE sa_pulse SET pid = 4194304 WHERE role = 'worker'").await;
    is_taken(&stage, &slow, "its process ended").await;
    gate.open();
    stage.wait_for_state(&slow, "succeeded").await;
    assert_eq!(stage.job_text(&slow, "attempt").await.as_deref(), Some("2"));
    assert_eq!(stage.walk(&done).await, "queued → running → succeeded");
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_entity WHERE kind = 'response'").await, 2);
    assert_eq!(stage.provider.calls_with("slow").len(), 2);
}
