//! What every process promises about its settings and its end.

use anyhow::Context;
use clap::Parser;
use sa_boot::{BeatOptions, Exit, Problem, Shutdown, cannot_connect};
use sa_core::{repo, state::State};

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    beat: BeatOptions,
}

fn beats(every: &str, stale: &str) -> Result<sa_boot::Beats, Problem> {
    Options::parse_from(["test", "--beat-every", every, "--stale-after", stale]).beat.validate()
}

#[test]
fn stale_limit_under_four_beats_is_a_usage_error() {
    assert!(beats("30s", "2m").is_ok());
    assert_eq!(beats("30s", "119s").unwrap_err().exit(), Exit::Usage);
    assert_eq!(beats("0s", "119s").unwrap_err().exit(), Exit::Usage);
}

#[test]
fn duration_without_a_unit_is_a_usage_error() {
    let error = Options::try_parse_from(["test", "--beat-every", "30"]).err().unwrap();
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn error_gets_the_code_of_what_lies_in_its_chain() {
    let not_found = Err::<(), _>(repo::Error::NotFound).context("job 7").unwrap_err();
    assert_eq!(Exit::of(&not_found), Exit::NotFound);
    let conflict = repo::Error::Conflict { id: sa_core::id::JobId::new(), found: State::Succeeded };
    assert_eq!(Exit::of(&conflict.into()), Exit::Refused);
    let corrupt = repo::Error::Corrupt { table: "sa_job", column: "execution_options", id: "7".into() };
    assert_eq!(Exit::of(&corrupt.into()), Exit::Failed);
    assert_eq!(Exit::of(&anyhow::anyhow!("boom").context("while starting")), Exit::Failed);
    let usage = anyhow::Error::from(Problem::usage("what", "why", "do")).context("while starting");
    assert_eq!(Exit::of(&usage), Exit::Usage);
}

#[test]
fn failed_connection_names_the_server_and_what_to_do_but_no_password() {
    let url = secrecy::SecretString::from("mysql://user:pa?s@s@db.example:3306/asterion?ssl-mode=REQUIRED");
    let refused = cannot_connect(&url, "Connection refused");
    assert_eq!(refused.exit(), Exit::DatabaseUnreachable);
    let text = refused.to_string();
    assert!(
        text.starts_with("the database at db.example:3306/asterion cannot be reached: Connection refused"),
        "{text}"
    );
    assert!(!text.contains("pa?s"), "{text}");
    let rsa = cannot_connect(&url, "error with configuration: RSA auth backend disabled; enable feature `mysql-rsa`");
    assert_eq!(rsa.exit(), Exit::DatabaseUnreachable);
    assert!(rsa.to_string().contains("needs TLS or a socket"), "{rsa}");
    let broken = cannot_connect(&url, "error with configuration: invalid port number");
    assert_eq!(broken.exit(), Exit::Usage);
}

#[tokio::test]
async fn first_signal_asks_and_the_second_forces() {
    let shutdown = Shutdown::new();
    let clone = shutdown.clone();
    shutdown.request();
    clone.requested().await;
    let forced = tokio::time::timeout(std::time::Duration::ZERO, clone.forced()).await;
    assert!(forced.is_err(), "one signal forces nothing");
    shutdown.request();
    clone.forced().await;
}
