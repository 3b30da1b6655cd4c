//! `proofs/run bench`: the benchmark says what it promises, in the shape it promises. What it measures is for
//! `proofs/bench` alone: a busy machine must not fail the suite.

use std::{collections::BTreeSet, fs, time::Duration};

use sa_harness::{Binary, Engine, Output, repository_root};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(300);

/// Cells that need no load tool of an engine's.
const CELLS: [&str; 10] = [
    "enqueue",
    "enqueue-single",
    "drain",
    "claim-100k",
    "claim-1m",
    "claim-lanes",
    "claim-closed",
    "claim-delayed",
    "claim-held",
    "claim-terminal",
];

async fn bench(args: &[&str]) -> Output {
    Binary::named("sa-bench").unwrap().args(args).run_to_end(LIMIT).await.unwrap()
}

#[tokio::test]
async fn both_helps_name_every_cell_and_option() {
    let launcher = repository_root().join("proofs/bench");
    let short = Binary::at(launcher).arg("--help").run_to_end(LIMIT).await.unwrap();
    let long = bench(&["--help"]).await;
    assert_eq!((short.code, long.code), (Some(0), Some(0)), "{}{}", short.stderr, long.stderr);
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).map(str::to_owned).collect()
    };
    let (short, long) = (words(&short.stdout), words(&long.stdout));
    for word in CELLS.into_iter().chain(["floor", "--quick", "--smoke", "--json", "--engine", "Exit"]) {
        assert!(short.contains(word) && long.contains(word), "a help does not name {word}");
    }
    let told = long.iter().filter(|word| word.starts_with("claim-")).count();
    assert_eq!(told, CELLS.iter().filter(|cell| cell.starts_with("claim-")).count(), "{long:?}");
}

#[tokio::test]
async fn what_it_does_not_know_is_usage() {
    for args in [&["claim-2m"][..], &["--engine", "postgres"], &["--fast"], &["--quick", "--smoke"]] {
        let output = bench(args).await;
        assert_eq!(output.code, Some(2), "{args:?}: {}", output.stderr);
        assert!(output.stderr.contains(args.last().unwrap()), "{args:?}: {}", output.stderr);
    }
}

/// Each cell is run once, on small tables, on the engine of this run.
#[tokio::test]
async fn every_round_is_in_the_json_as_two_rates() {
    let engine = Engine::of_this_run().unwrap().name();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rounds.json");
    let output =
        bench(&[&["--smoke", "--engine", engine, "--json", file.to_str().unwrap()], &CELLS[..]].concat()).await;
    assert_eq!(output.code, Some(0), "{}{}", output.stdout, output.stderr);
    let rounds: Vec<Value> = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let named: Vec<_> = rounds.iter().map(|round| round["cell"].as_str().unwrap()).collect();
    assert_eq!(named, CELLS, "one round of each");
    for round in &rounds {
        let keys: Vec<_> = round.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["base", "cell", "engine", "ours"]);
        assert_eq!(round["engine"], engine);
        assert!(round["ours"].as_f64().unwrap() > 0.0 && round["base"].as_f64().unwrap() > 0.0, "{round}");
        assert!(output.stdout.contains(round["cell"].as_str().unwrap()), "{}", output.stdout);
    }
}
