//! `proofs/run slots`: cron starts one-shots as often as it likes, and they do not pile up.

use std::time::Duration;

use sa_harness::{Binary, Database, Engine, Gate, Process, Reply, Rule, Server, wait_until};

use crate::stage::{LIMIT, Stage, succeed};

/// A tick as cron starts it, with production's beats: nobody here is silent for long.
fn tick(stage: &Stage) -> Binary {
    stage.binary("sa-worker").args(["run-worker", "--once"])
}

/// Jobs that wait for a slow provider.
async fn slow_jobs(stage: &Stage, count: usize) -> Gate {
    let gate = Gate::closed();
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").until(&gate)));
    for _ in 0..count {
        stage.submit("hello", &[]).await;
    }
    gate
}

async fn slots(stage: &Stage) -> Vec<u8> {
    let taken = "SELECT slot FROM sa_pulse WHERE slot IS NOT NULL ORDER BY slot";
    sqlx::query_scalar(taken).fetch_all(stage.pool()).await.unwrap()
}

/// Starts a tick and waits until it has so many calls in flight with those before it.
async fn busy_tick(stage: &Stage, calls: usize) -> Process {
    let process = tick(stage).spawn().unwrap();
    stage.provider.wait_for_calls(calls, LIMIT).await.unwrap();
    process
}

/// A tick for which there is no place ends well and says nothing, or cron would mail it.
async fn is_turned_away(stage: &Stage) {
    let pulses = stage.count("SELECT COUNT(*) FROM sa_pulse").await;
    let output = succeed(tick(stage)).await;
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_pulse").await, pulses, "it leaves no sign of life behind");
}

/// Twenty ticks in the same moment, ten times as many as there are places: two work, eighteen leave without a word, and
/// the server never sees more connections than one of each and those of two workers.
#[tokio::test]
async fn of_twenty_ticks_at_once_two_work_and_the_rest_leave_silently() {
    let server = tokio::task::spawn_blocking(|| Server::own(Engine::of_this_run().unwrap())).await.unwrap().unwrap();
    let stage = Stage::over(Database::fresh_on(&server).await.unwrap(), "").await;
    let gate = slow_jobs(&stage, 14).await;
    let mut ticks: Vec<_> = (0..20).map(|_| tick(&stage).spawn().unwrap()).collect();

    let mut turned_away = Vec::new();
    wait_until("eighteen to leave", LIMIT, async || {
        for mut process in std::mem::take(&mut ticks) {
            match process.wait_exit(Duration::ZERO).await {
                Ok(status) => turned_away.push((status.code(), process.stdout(), process.stderr())),
                Err(_still_there) => ticks.push(process),
            }
        }
        turned_away.len() >= 18
    })
    .await
    .unwrap();
    assert_eq!(turned_away, vec![(Some(0), String::new(), String::new()); 18]);
    stage.provider.wait_for_calls(10, LIMIT).await.unwrap();
    assert_eq!((slots(&stage).await, ticks.len()), (vec![1, 2], 2));
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_job WHERE state = 'running'").await, 10);

    gate.open();
    for mut process in ticks {
        assert!(process.wait_exit(LIMIT).await.unwrap().success());
    }
    assert_eq!(slots(&stage).await, Vec::<u8>::new());
    let (_, most): (String, String) =
        sqlx::query_as("SHOW GLOBAL STATUS LIKE 'Max_used_connections'").fetch_one(stage.pool()).await.unwrap();
    let (each, two_workers, ours) = (20, 2 * 8, i64::from(stage.pool().options().get_max_connections()));
    assert!(most.parse::<i64>().unwrap() <= each + two_workers + ours, "{most} connections");

    succeed(tick(&stage)).await;
    assert_eq!(stage.count("SELECT COUNT(*) FROM sa_job WHERE state = 'succeeded'").await, 14);
}

/// Whoever was killed holds no place, although its last beat is a moment old and its jobs wait for the reaper.
#[tokio::test]
async fn a_killed_holders_slot_is_taken_over_at_once() {
    let stage = Stage::set().await;
    let _gate = slow_jobs(&stage, 15).await;
    let mut first = busy_tick(&stage, 5).await;
    let _second = busy_tick(&stage, 10).await;
    is_turned_away(&stage).await;
    first.kill9().unwrap();
    let third = busy_tick(&stage, 15).await;
    let holders = "SELECT COUNT(*) FROM sa_pulse WHERE slot = 1 AND pid = ";
    let mut of_third = sqlx::QueryBuilder::new(holders);
    let held: i64 = of_third.push_bind(third.id()).build_query_scalar().fetch_one(stage.pool()).await.unwrap();
    assert_eq!((held, slots(&stage).await), (1, vec![1, 2]), "the lowest free one");
    is_turned_away(&stage).await;
}

/// A holder that hangs keeps its place for three beats, wherever it is; one that ended without a word keeps none.
#[tokio::test]
async fn a_holder_that_misses_three_beats_loses_its_slot() {
    let stage = Stage::set().await;
    let _gate = slow_jobs(&stage, 10).await;
    let tick_of_one = || tick(&stage).args(["--slots", "1"]);
    let first = tick_of_one().spawn().unwrap();
    stage.provider.wait_for_calls(5, LIMIT).await.unwrap();
    first.sigstop().unwrap();
    let silent = async |seconds: u32| {
        let pulse = "UPDATE sa_pulse SET machine_id = 'another', seen_at = UTC_TIMESTAMP(6) - INTERVAL ? SECOND";
        sqlx::query(pulse).bind(seconds).execute(stage.pool()).await.unwrap();
    };
    silent(85).await;
    assert_eq!(succeed(tick_of_one()).await.stdout, "");
    assert_eq!(stage.provider.calls().len(), 5);
    silent(90).await;
    let _second = tick_of_one().spawn().unwrap();
    stage.provider.wait_for_calls(10, LIMIT).await.unwrap();
    assert_eq!(slots(&stage).await, [1]);
}

/// Contract §2 `--max-runtime`: what still runs then is given back, and no attempt is spent.
#[tokio::test]
async fn what_a_one_shot_cannot_end_in_time_is_given_back_unspent() {
    let stage = Stage::set().await;
    stage.provider.script(Rule::when("slow").reply(Reply::wire("llama-chat-stream").hang_before_headers()));
    let (slow, quick) = (stage.submit("slow", &[]).await, stage.submit("quick", &[]).await);
    let output = succeed(tick(&stage).args(["--max-runtime", "2s"])).await;
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
    assert_eq!(stage.walk(&quick).await, "queued → running → succeeded");
    assert_eq!(stage.walk(&slow).await, "queued → running → queued");
    assert_eq!(stage.events(&slow).await.last().unwrap().reason, "release");
    let columns = ["attempt", "releases"].map(|column| stage.job_text(&slow, column));
    let [attempt, releases] = columns;
    assert_eq!((attempt.await.as_deref(), releases.await.as_deref()), (Some("1"), Some("1")));
    assert_eq!(slots(&stage).await, Vec::<u8>::new());
}
