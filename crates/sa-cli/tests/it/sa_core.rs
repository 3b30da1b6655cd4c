//! `sa-core` becomes the binary that knows the command.

use std::{fs, os::unix::fs::PermissionsExt};

use sa_harness::{Binary, Database};

use crate::cli::LIMIT;

#[tokio::test]
async fn command_goes_to_the_binary_that_knows_it_with_its_exit_code() {
    let folder = std::env::temp_dir().join(format!("sa-core-{}", std::process::id()));
    fs::create_dir(&folder).unwrap();
    fs::copy(Binary::of_package("sa-cli", "sa-core").unwrap().path(), folder.join("sa-core")).unwrap();
    for name in ["sa-worker", "sa-reaper", "sa-api", "sa-cli"] {
        let script = folder.join(name);
        fs::write(&script, "#!/bin/sh\necho \"${0##*/} $*\"\nexit 7\n").unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let sa_core = Binary::at(folder.join("sa-core"));

    for (typed, ran) in [
        ("run-worker --once --batch-size=5", "sa-worker run-worker --once --batch-size=5"),
        ("reclaim-stuck-jobs", "sa-reaper reclaim-stuck-jobs"),
        ("serve", "sa-api serve"),
        ("list-jobs --state=failed", "sa-cli list-jobs --state=failed"),
        ("submit-prompt serve", "sa-cli submit-prompt serve"),
        ("--json list-jobs", "sa-cli --json list-jobs"),
        ("", "sa-cli "),
    ] {
        let output = sa_core.clone().args(typed.split_whitespace()).run_to_end(LIMIT).await.unwrap();
        assert_eq!((output.code, output.stdout), (Some(7), format!("{ran}\n")), "{typed}");
    }

    fs::remove_file(folder.join("sa-worker")).unwrap();
    let missing = sa_core.arg("run-worker").env("PATH", "").run_to_end(LIMIT).await.unwrap();
    fs::remove_dir_all(&folder).unwrap();
    assert!(missing.code == Some(127) && missing.stderr.contains("sa-worker cannot be run"), "{missing:?}");
}

#[tokio::test]
async fn real_command_line_works_through_it() {
    let database = Database::fresh().await.unwrap();
    let list = Binary::of_package("sa-cli", "sa-core").unwrap().args(["list-jobs", "--json"]);
    let output = list.env("DATABASE_URL", database.url()).run_to_end(LIMIT).await.unwrap();
    assert_eq!((output.code, output.stdout.as_str()), (Some(0), "[]\n"), "{output:?}");
}
