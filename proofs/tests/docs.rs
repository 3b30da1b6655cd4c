//! `proofs/run docs`: generated pages are what they are generated from (`UPDATE_DOCS=1` writes them), links lead somewhere,
//! and each proof that the conformance page names is there.

mod conformance;
mod schema;

use std::{fs, path::Path};

use sa_core::state::{State, Transition, mermaid};
use sa_harness::{Binary, Database, repository_root};

use crate::stage::succeed;

/// Compares a generated page with the committed one, or writes it.
fn fresh(page: &str, text: &str) {
    let path = repository_root().join("docs").join(page);
    if std::env::var("UPDATE_DOCS").is_ok_and(|value| value == "1") {
        fs::write(&path, text).unwrap();
        return;
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(text.lines()).position(|(old, new)| old != new);
    assert!(
        committed == text,
        "docs/{page} is not fresh from line {} on; write it with UPDATE_DOCS=1 proofs/run docs",
        differs.unwrap_or_else(|| committed.lines().count().min(text.lines().count())) + 1
    );
}

/// The head of a generated page: what it is generated from.
fn head(title: &str, source: &str) -> String {
    format!("# {title}\n\nGenerated from {source} by `UPDATE_DOCS=1 proofs/run docs`; a proof compares the two.\n")
}

#[test]
fn the_state_machine_page_is_fresh() {
    let mut page = head("State machine", "`sa_core::state::Transition::ALL`");
    page += "\nThese nine are all: another has no spelling in the code, and the database refuses rows that do not fit their state.\n";
    page += &format!("\n```mermaid\n{}```\n\n| state | terminal |\n|---|---|\n", mermaid());
    for state in State::ALL {
        page += &format!("| `{state}` | {} |\n", if state.is_terminal() { "yes" } else { "no" });
    }
    page += "\nTerminal means: never executed again.\n";
    page += "The only way out is `superseded`, in the transaction that inserts the successor.\n";
    page += "\n| from | to | set off by |\n|---|---|---|\n";
    for edge in Transition::ALL {
        page += &format!("| `{}` | `{}` | {} |\n", edge.from(), edge.to(), edge.trigger());
    }
    fresh("state-machine.md", &page);
}

#[test]
fn the_schema_page_is_fresh() {
    fresh("schema.md", &schema::page());
}

/// Nothing was lost on the way from the migrations to the page: the server has no column that is not there.
#[tokio::test]
async fn the_schema_page_has_every_column_of_the_server() {
    let database = Database::fresh().await.unwrap();
    let columns: Vec<(String, String)> = sqlx::query_as(
        "SELECT CAST(TABLE_NAME AS CHAR), CAST(COLUMN_NAME AS CHAR) FROM information_schema.COLUMNS
          WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME LIKE 'sa\\_%'",
    )
    .fetch_all(database.pool())
    .await
    .unwrap();
    assert!(columns.len() > 100, "only {} columns", columns.len());
    let page = schema::page();
    for (table, column) in columns {
        let section = page.split(&format!("\n### {table}\n")).nth(1).and_then(|rest| rest.split("\n##").next());
        let is_there = section.is_some_and(|section| section.contains(&format!("\n| `{column}` | ")));
        assert!(is_there, "{table}.{column} is not on the page");
    }
}

/// Every binary and every command, as it explains itself.
#[tokio::test]
async fn the_command_line_page_is_fresh() {
    let mut page = head("Command line", "each binary's own `--help`");
    page += "\n`sa-core COMMAND …` runs whichever of the four knows the command.\n";
    for binary in ["sa-api", "sa-worker", "sa-reaper", "sa-cli"] {
        let binary = Binary::named(binary).unwrap();
        let whole = help(&binary, &[]).await;
        page += &section("##", &binary, &[], &whole);
        for command in commands(&whole) {
            page += &section("###", &binary, &[command], &help(&binary, &[command]).await);
        }
    }
    fresh("cli.md", &page);
}

async fn help(binary: &Binary, command: &[&str]) -> String {
    succeed(binary.clone().args(command).arg("--help")).await.stdout
}

fn section(level: &str, binary: &Binary, command: &[&str], help: &str) -> String {
    let name = binary.path().file_name().unwrap().to_string_lossy();
    let title = [&[name.as_ref()], command].concat().join(" ");
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    format!("\n{level} {title}\n\n```text\n{}\n```\n", lines.join("\n").trim_end())
}

/// The commands that a help lists, apart from `help` itself.
fn commands(help: &str) -> Vec<&str> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| line.starts_with("  "));
    // Continued descriptions stand further in than the names.
    let names = listed
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next().filter(|_| !line.starts_with("   ")));
    names.filter(|name| *name != "help").collect()
}

/// Links in README.md and the pages of docs/ lead to files of this repository; the specification's text is not ours.
#[test]
fn links_lead_to_files() {
    let root = repository_root();
    let mut pages = vec![root.join("README.md")];
    pages.extend(fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    let mut dead = Vec::new();
    for page in pages.iter().filter(|page| page.extension().is_some_and(|end| end == "md") && page.is_file()) {
        let text = fs::read_to_string(page).unwrap();
        let folder = page.parent().unwrap_or(Path::new(""));
        for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()) {
            let file = target.split('#').next().unwrap_or_default();
            let elsewhere = file.is_empty() || file.contains("://");
            if !elsewhere && !folder.join(file).exists() {
                dead.push(format!("{}: {target}", page.strip_prefix(&root).unwrap_or(page).display()));
            }
        }
    }
    assert!(dead.is_empty(), "links that lead nowhere:\n  {}", dead.join("\n  "));
}
