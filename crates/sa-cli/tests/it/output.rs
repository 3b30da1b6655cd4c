//! What a shell may rely on: exit codes, streams, a closed pipe, no colour where none is wanted.

use std::{
    fs,
    process::{Command, Stdio},
};

use sa_harness::{Binary, Database};

use crate::cli::{LIMIT, cli, run, sql, submit};

#[tokio::test]
async fn without_a_database_url_it_is_a_usage_error_and_with_a_dead_server_code_5() {
    let none = Binary::named("sa-cli").unwrap().arg("list-jobs").run_to_end(LIMIT).await.unwrap();
    assert!(none.code == Some(2) && none.stderr.contains("DATABASE_URL"), "{none:?}");

    let dead = "mysql://user:hunter2@127.0.0.1:1/asterion";
    for arguments in
        [&["list-jobs"][..], &["migrate"], &["migrate", "--status"], &["cancel-job", "0190abcd", "0190abce"]]
    {
        let dead = Binary::named("sa-cli").unwrap().args(arguments).env("DATABASE_URL", dead);
        let output = dead.run_to_end(LIMIT).await.unwrap();
        assert_eq!((output.code, output.stdout.as_str()), (Some(5), ""), "{output:?}");
        assert!(output.stderr.contains("127.0.0.1:1/asterion") && !output.stderr.contains("hunter2"), "{output:?}");
        assert_eq!(output.stderr.lines().count(), 3, "what, why, what to do: {output:?}");
    }
}

#[tokio::test]
async fn database_url_may_lie_in_a_file_or_among_the_credentials() {
    let database = Database::fresh().await.unwrap();
    let folder = std::env::temp_dir().join(database.name());
    fs::create_dir(&folder).unwrap();
    let file = folder.join("database-url");
    fs::write(&file, format!("{}\n", database.url())).unwrap();
    let list = Binary::named("sa-cli").unwrap().arg("list-jobs");

    let by_file = list.clone().env("DATABASE_URL_FILE", &file).run_to_end(LIMIT).await.unwrap();
    let by_credential = list.clone().env("CREDENTIALS_DIRECTORY", &folder).run_to_end(LIMIT).await.unwrap();
    let no_file = list.env("DATABASE_URL_FILE", folder.join("none")).run_to_end(LIMIT).await.unwrap();

    fs::remove_dir_all(&folder).unwrap();
    assert_eq!((by_file.code, by_credential.code, no_file.code), (Some(0), Some(0), Some(2)), "{no_file:?}");
}

#[tokio::test]
async fn help_and_version_are_data_and_a_wrong_word_is_a_usage_error() {
    let database = Database::empty().await.unwrap();
    for (argument, code) in [("--help", 0), ("--version", 0), ("frobnicate", 2), ("--frobnicate", 2)] {
        let output = run(&database, &[argument]).await;
        assert_eq!((output.code, output.stdout.is_empty()), (Some(code), code != 0), "{output:?}");
    }
}

#[tokio::test]
async fn closed_pipe_is_silent_and_stops_nothing_half_way() {
    let database = Database::fresh().await.unwrap();
    let jobs = [submit(&database, "a").await, submit(&database, "b").await];
    let binary = Binary::named("sa-cli").unwrap();
    // `:` reads nothing and is gone before anything is written.
    let script = "\"$0\" \"$@\" | :; exit ${PIPESTATUS[0]}";
    let output = Command::new("bash")
        .args(["-c", script])
        .arg(binary.path())
        .args(["cancel-job", &jobs[0], &jobs[1]])
        .env("DATABASE_URL", database.url())
        .stdin(Stdio::null())
        .output()
        .unwrap();

    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    let left: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM sa_job WHERE state = 'queued'")
        .fetch_one(database.pool())
        .await
        .unwrap();
    assert_eq!(left, 0);
}

#[tokio::test]
async fn full_disk_is_an_error() {
    let database = Database::fresh().await.unwrap();
    let status = Command::new(Binary::named("sa-cli").unwrap().path())
        .args(["list-jobs", "--json"])
        .env("DATABASE_URL", database.url())
        .stdout(fs::OpenOptions::new().write(true).open("/dev/full").unwrap())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(1));
}

#[tokio::test]
async fn escapes_from_elsewhere_are_shown_and_not_obeyed() {
    let database = Database::fresh().await.unwrap();
    let text = "\u{1b}[2J\u{202e}prompt\r\n";
    let submitted =
        cli(&database, &["submit-prompt", "-", "--output", "ids"]).stdin(text).run_to_end(LIMIT).await.unwrap();
    let job = submitted.stdout.trim();
    let fail = "UPDATE sa_job SET state = 'failed', finished_at = UTC_TIMESTAMP(6), error_kind = 'unknown', \
                error_message = CONCAT(CHAR(27 USING utf8mb4), ']0;title', CHAR(7 USING utf8mb4)) WHERE id = ?";
    sql(&database, fail, job).await;

    for arguments in [&["list-jobs"][..], &["job-details", job]] {
        let output = run(&database, arguments).await;
        assert_eq!(output.code, Some(0), "{output:?}");
        let obeyed = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!output.stdout.contains(obeyed), "{output:?}");
        assert!(output.stdout.contains("\\u{1b}"), "{output:?}");
    }
}

#[tokio::test]
async fn colour_is_for_terminals_and_for_those_who_ask() {
    let database = Database::fresh().await.unwrap();
    submit(&database, "a").await;
    let list = cli(&database, &["list-jobs"]);
    let plain = list.run_to_end(LIMIT).await.unwrap();
    let forced = list.env("CLICOLOR_FORCE", "1").run_to_end(LIMIT).await.unwrap();
    assert!(!plain.stdout.contains('\u{1b}') && forced.stdout.contains('\u{1b}'), "{forced:?}");
}
