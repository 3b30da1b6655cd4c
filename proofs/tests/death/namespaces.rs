//! What one cannot see into: another pid namespace, another user's process.

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use sa_harness::{Binary, Output};

use super::{is_left, is_taken, killed_at_work, own_pulse, reaper, stage};
use crate::stage::{LIMIT, Stage, succeed};

/// `unshare` with a pid namespace of its own, if this machine lets us make one.
async fn unshare() -> Option<Binary> {
    for rights in [&["--pid", "--fork"][..], &["--user", "--map-root-user", "--pid", "--fork"]] {
        let unshare = Binary::at("unshare").args(rights).arg("--kill-child");
        if unshare.clone().arg("true").run_to_end(LIMIT).await.is_ok_and(|output| output.code == Some(0)) {
            return Some(unshare);
        }
    }
    None
}

/// A container's process is never proven dead from outside, dead as it is: its numbers are not ours. Nor from inside by a
/// `/proc` that is still the host's, in which its numbers are other processes'.
#[tokio::test]
async fn another_pid_namespace_is_never_proven_dead() {
    let stage = stage().await;
    let job = match unshare().await {
        Some(unshare) => {
            a_proc_of_another_namespace_proves_nothing(unshare.clone()).await;
            let job = stage.submit("hello", &[]).await;
            let worker = unshare.arg(Binary::named("sa-worker").unwrap().path()).arg("run-worker");
            let mut contained = stage.settings(worker).spawn().unwrap();
            stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
            contained.kill9().unwrap();
            stage.provider.wait_for_client_gone(1, LIMIT).await.unwrap();
            job
        }
        // Where none can be made, its pulse can.
        None => {
            let job = killed_at_work(&stage).await;
            stage.sql("UPDATE sa_pulse SET pid_namespace = pid_namespace + 1 WHERE role = 'worker'").await;
            job
        }
    };
    let namespace = "SELECT CAST(pid_namespace AS SIGNED) FROM sa_pulse WHERE role = 'worker'";
    assert_ne!(u64::try_from(stage.count(namespace).await).ok(), own_pulse().pid_namespace);
    is_left(&stage, &job).await;
    stage.sql("UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 226 SECOND").await;
    is_taken(&stage, &job, "its worker fell silent").await;
}

/// Worker and reaper in one namespace of their own, under the host's `/proc`.
async fn a_proc_of_another_namespace_proves_nothing(unshare: Binary) {
    let stage = stage().await;
    let job = stage.submit("hello", &[]).await;
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    succeed(Binary::at("mkfifo").arg(&go)).await;
    let script = "\"$1\" run-worker & read -r _ < \"$2\"; \"$3\" reclaim-stuck-jobs && echo reaped; wait";
    let [worker, reaper] = ["sa-worker", "sa-reaper"].map(|name| Binary::named(name).unwrap());
    let shell = unshare.args(["sh", "-c", script, "sh"]).arg(worker.path()).arg(&go).arg(reaper.path());
    let mut inside = stage.settings(shell).spawn().unwrap();
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    std::fs::write(&go, "now\n").unwrap();
    inside.wait_for_output("reaped", LIMIT).await.unwrap();
    assert_eq!(inside.stdout(), "reaped\n");
    assert_eq!(stage.state(&job).await, "running");
}

/// A plain user may not ask after another's process: that is no answer, and so no death. Whoever may, sees another process
/// under the number.
#[tokio::test]
async fn a_process_that_may_not_be_asked_for_is_not_dead() {
    let stage = stage().await;
    let job = killed_at_work(&stage).await;
    let is_root = owner("/proc/self") == 0;
    assert!(is_root || owner("/proc/1") != owner("/proc/self"), "the first process is ours, so we may ask after it");
    stage.sql("UPDATE sa_pulse SET pid = 1 WHERE role = 'worker'").await;
    let output = if is_root { as_nobody(&stage).await } else { succeed(reaper(&stage)).await };
    assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
    assert_eq!(stage.state(&job).await, "running");
    if is_root {
        is_taken(&stage, &job, "its process ended").await;
    }
}

fn owner(path: &str) -> u32 {
    fs::metadata(path).unwrap().uid()
}

/// Runs a copy of the reaper as a plain user, who may not look where the build lies.
async fn as_nobody(stage: &Stage) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("sa-reaper");
    fs::copy(Binary::named("sa-reaper").unwrap().path(), &copy).unwrap();
    for path in [folder.path(), &copy] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let nobody = Binary::at("setpriv").args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    succeed(stage.settings(nobody.arg(&copy).arg("reclaim-stuck-jobs"))).await
}
