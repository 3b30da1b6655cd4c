use std::{
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::Result;
use sa_harness::{Database, Engine, Server, wait_until};
use sqlx::{Connection, Executor, MySqlConnection};

#[tokio::test]
async fn committed_rows_survive_kill9_and_start_again() -> Result<()> {
    let server = Server::own(Engine::of_this_run()?)?;
    let database = Database::fresh_on(&server).await?;
    database.pool().execute("CREATE TABLE t (n INT) ENGINE = InnoDB").await?;
    database.pool().execute("INSERT INTO t VALUES (7)").await?;

    server.kill9()?;
    assert!(MySqlConnection::connect(&server.url()).await.is_err(), "a killed server answers nothing");
    server.start_again()?;

    let n: i32 = sqlx::query_scalar("SELECT n FROM t").fetch_one(database.pool()).await?;
    assert_eq!(n, 7);
    server.stop()?;
    assert!(server.stop().is_err(), "a stopped server cannot be stopped");
    Ok(())
}

#[tokio::test]
async fn stopped_server_keeps_silent_and_goes_on_later() -> Result<()> {
    let server = Server::own(Engine::of_this_run()?)?;
    let database = Database::fresh_on(&server).await?;
    database.pool().execute("SELECT 1").await?;

    server.sigstop()?;
    let answer = tokio::time::timeout(Duration::from_millis(300), database.pool().execute("SELECT 1")).await;
    assert!(answer.is_err(), "a frozen server answered");
    server.sigcont()?;

    wait_until("an answer", Duration::from_secs(10), async || database.pool().execute("SELECT 1").await.is_ok()).await
}

#[tokio::test]
async fn with_server_sets_the_url_and_hands_on_the_exit_code() -> Result<()> {
    let engine = Engine::of_this_run()?.name();
    let output = Command::new(env!("CARGO_BIN_EXE_sa-harness"))
        .args(["with-server", engine, "--", "sh", "-c"])
        .arg(r#"printf '%s\n%s\n' "$SA_TEST_SERVER_URL" "$SA_TEST_SERVER_SOCKET"; exit 7"#)
        .output()?;

    assert_eq!(output.status.code(), Some(7));
    let said = String::from_utf8(output.stdout)?;
    let (url, socket) = said.trim().split_once('\n').expect("two lines");
    assert!(url.starts_with("mysql://root@127.0.0.1:"), "{url}");
    assert!(!Path::new(socket).parent().expect("a folder").exists(), "the server's folder is left");
    Ok(())
}

#[tokio::test]
async fn server_ends_with_a_killed_test() -> Result<()> {
    let engine = Engine::of_this_run()?.name();
    let marker = tempfile::NamedTempFile::new()?;
    let mut run = Command::new(env!("CARGO_BIN_EXE_sa-harness"))
        .args(["with-server", engine, "--", "sh", "-c", r#"echo "$SA_TEST_SERVER_SOCKET" >"$0"; exec sleep 300"#])
        .arg(marker.path())
        .stderr(Stdio::null())
        .spawn()?;
    let socket = wait_until("the server", Duration::from_secs(180), async || {
        let said = std::fs::read_to_string(marker.path())?;
        anyhow::Ok(said.strip_suffix('\n').map(ToOwned::to_owned))
    })
    .await?;

    run.kill()?;
    run.wait()?;

    let folder = Path::new(&socket).parent().expect("a folder");
    wait_until("the end of the server's folder", Duration::from_secs(10), async || !folder.exists()).await
}
