use std::{os::unix::process::ExitStatusExt, time::Duration};

use anyhow::Result;
use sa_harness::{Binary, Output};

const LIMIT: Duration = Duration::from_secs(20);

fn shell(script: &str) -> Binary {
    Binary::at("sh").args(["-c", script])
}

#[tokio::test]
async fn run_to_end_tells_code_and_both_streams() -> Result<()> {
    let output = shell("cat; echo oh >&2; exit 3").stdin("in").run_to_end(LIMIT).await?;

    assert_eq!(output, Output { code: Some(3), stdout: "in".to_owned(), stderr: "oh\n".to_owned() });
    Ok(())
}

#[tokio::test]
async fn environment_of_the_test_stays_out() -> Result<()> {
    let output = Binary::at("env").env("OURS", "seen").run_to_end(LIMIT).await?;

    let known = ["OURS", "PATH", "HOME", "TMPDIR", "LANG", "TZ", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"];
    let names: Vec<_> = output.stdout.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    assert!(names.contains(&"OURS") && names.contains(&"PATH"), "{names:?}");
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    Ok(())
}

#[tokio::test]
async fn too_slow_process_is_an_error_with_its_stderr_and_is_killed() -> Result<()> {
    let error = shell("echo stuck >&2; exec sleep 60").run_to_end(Duration::from_millis(300)).await.unwrap_err();

    assert!(format!("{error:#}").contains("stuck"), "{error:#}");
    Ok(())
}

#[tokio::test]
async fn frozen_process_says_nothing_until_it_goes_on() -> Result<()> {
    let mut process = shell("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.01; done").spawn()?;
    process.wait_for_output("up", LIMIT).await?;

    process.sigstop()?;
    process.sigterm()?;
    assert!(process.wait_exit(Duration::from_millis(200)).await.is_err(), "a frozen process ended");
    process.sigcont()?;

    assert_eq!(process.wait_exit(LIMIT).await?.code(), Some(0));
    assert_eq!(process.stdout(), "up\nbye\n");
    Ok(())
}

#[tokio::test]
async fn kill9_is_over_when_it_returns() -> Result<()> {
    let mut process = shell("exec sleep 60").spawn()?;

    process.kill9()?;

    assert_eq!(process.wait_exit(Duration::ZERO).await?.signal(), Some(9));
    assert!(process.wait_for_output("never", LIMIT).await.is_err(), "a dead process is not waited for");
    Ok(())
}

#[tokio::test]
async fn cargo_tells_where_a_binary_lies() -> Result<()> {
    let output = Binary::named("sa-harness")?.arg("--help").run_to_end(LIMIT).await?;

    assert!(output.stdout.contains("with-server"), "{}", output.stdout);
    assert!(Binary::of_package("sa-harness", "no-such").is_err());
    Ok(())
}
