//! `proofs/run explain`: no statement scans or sorts the backlog, whatever lies in the tables.

mod crowd;
mod plan;
mod rows_read;
mod statements;

use std::collections::BTreeMap;

use sa_harness::{Database, repository_root};
use serde_json::Value;
use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, Executor, MySql, MySqlConnection, Row};

use self::plan::{Access, Plan};
pub use self::rows_read::{RowsRead, Scope};
use self::statements::{Bound, Guard};
use crate::stage::Stage;

/// Tables that may never be scanned whole.
const LARGE: [&str; 6] = ["sa_job", "sa_job_event", "sa_entity", "sa_edge", "sa_ledger", "sa_audit"];
/// Names under which statements read their own JSON, or rows that they made themselves.
const OF_ITS_OWN: [&str; 3] = ["s", "t", "up"];

/// Every statement that the repository has, through sqlx itself, prepared and with values bound: each takes the key that
/// the table of `explain/statements.rs` allows, sorts nothing that is long, and reads at most 2 × batch + 10 rows. Then the
/// hot verbs whole, on real binaries. What makes case bank CB-32 crawl has no place to hide in.
#[tokio::test]
async fn no_statement_scans_or_sorts_the_backlog() {
    let (_server, database) = crowd::gather().await;
    let stage = Stage::over(database, "").await;
    let mut wrong = every_statement(&stage.database).await;
    wrong.extend(rows_read::of_the_verbs(&stage).await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

async fn every_statement(database: &Database) -> Vec<String> {
    let guards = statements::all();
    let mut session = MySqlConnection::connect(database.url()).await.unwrap();
    // MySQL's other form of the document tells of iterators, not of tables. MariaDB has one form only.
    session.execute("/*!80300 SET SESSION explain_json_format_version = 1 */").await.unwrap();
    session.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await.unwrap();
    let mut used = vec![0; guards.len()];
    let mut wrong = Vec::new();
    for query in prepared_statements() {
        let words = in_one_line(&query);
        let fits =
            |guard: &Guard| words.starts_with(&format!("-- repo::{} ", guard.verb)) && words.contains(guard.words);
        let mut fitting: Vec<_> = (0..guards.len()).filter(|&n| fits(&guards[n])).collect();
        if fitting.len() > 1 {
            // The same rows in statements of one, four and sixteen: the values bound tell which it is.
            fitting.retain(|&n| guards[n].binds.len() == query.matches('?').count());
        }
        let [only] = fitting[..] else {
            wrong.push(format!("{} guards of explain/statements.rs fit this statement: {words}", fitting.len()));
            continue;
        };
        used[only] += 1;
        let found = judge(&mut session, &query, &guards[only]).await;
        wrong.extend(found.into_iter().map(|fault| format!("{fault}: {words}")));
    }
    wrong.extend(
        (0..guards.len())
            .filter(|&n| used[n] != 1)
            .map(|n| format!("guard of {} statements: {:?}", used[n], guards[n])),
    );
    plants_are_found(&mut session).await;
    session.close().await.unwrap();
    wrong
}

/// Weakened statements, each of which a guard must find: without its index, in another order, without its bound, with ids
/// that compare in another character set.
async fn plants_are_found(session: &mut MySqlConnection) {
    let query_of = |guard: &Guard| {
        let of_guard = |query: &String| in_one_line(query).contains(&format!("-- repo::{} ", guard.verb));
        let fits = |query: &String| of_guard(query) && in_one_line(query).contains(guard.words);
        prepared_statements().into_iter().find(fits).unwrap()
    };
    let (level, fence) = (statements::level_read(), statements::fence());
    let plants = [
        (&level, "FORCE INDEX (idx_claim)", "FORCE INDEX (idx_state)"),
        (&level, "FORCE INDEX (idx_claim)", "IGNORE INDEX (idx_claim, idx_state)"),
        (&level, "ORDER BY scheduled_for, id", "ORDER BY created_at"),
        (&level, "AND priority = ?", "AND priority <> ? + 500"),
        (&fence, "id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin", "id CHAR(36) CHARACTER SET utf8mb4"),
        (&fence, "FORCE INDEX (PRIMARY)", "IGNORE INDEX (PRIMARY)"),
    ];
    for (guard, sound, weak) in plants {
        let query = query_of(guard);
        assert!(query.contains(sound), "{sound}");
        let found = judge(session, &query.replace(sound, weak), guard).await;
        assert!(!found.is_empty(), "{weak} in place of {sound} is not found");
        println!("planted {weak:?}: {}", found.join("; "));
    }
}

/// The heads of all levels are sent as text, so `.sqlx` does not hold them.
const LEVELS: &str = include_str!("../../crates/sa-core/src/repo/claim/levels.rs");

/// Every statement that is checked at compile time, as it is sent, and the one that is not.
fn prepared_statements() -> Vec<String> {
    let folder = repository_root().join(".sqlx");
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let by_name: BTreeMap<_, _> = files.map(|file| (file.clone(), std::fs::read_to_string(file).unwrap())).collect();
    assert!(by_name.len() > 50, "{} statements in {}", by_name.len(), folder.display());
    let query = |text: &String| serde_json::from_str::<Value>(text).unwrap()["query"].as_str().unwrap().to_owned();
    let heads = LEVELS.split("const HEADS: &str = \"").nth(1).and_then(|rest| rest.split("\";").next()).unwrap();
    by_name.values().map(query).chain([heads.to_owned()]).collect()
}

fn in_one_line(query: &str) -> String {
    query.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What one statement does that it may not.
async fn judge(session: &mut MySqlConnection, query: &str, guard: &Guard) -> Vec<String> {
    // None of them has a question mark in a text of its own.
    let wanted = query.matches('?').count();
    if wanted != guard.binds.len() {
        return vec![format!("{wanted} values are bound, and its guard names {}", guard.binds.len())];
    }
    let explain = bound(format!("EXPLAIN FORMAT=JSON {query}"), &guard.binds);
    let row = session.fetch_one(explain).await.unwrap_or_else(|error| panic!("{error}: {guard:?}"));
    let document: Value = serde_json::from_str(&row.get_unchecked::<String, _>(0)).unwrap();
    let mut wrong = faults(&Plan::of(&document), guard);
    let mut tx = session.begin().await.unwrap();
    let before = RowsRead::now(&mut tx, Scope::Session).await;
    tx.fetch_all(bound(query.to_owned(), &guard.binds)).await.unwrap_or_else(|error| panic!("{error}: {guard:?}"));
    let read = RowsRead::now(&mut tx, Scope::Session).await.since(before);
    tx.rollback().await.unwrap();
    let most = 2 * guard.batch + 10;
    if read > most {
        wrong.push(format!("{read} rows read, at most {most} allowed"));
    }
    wrong
}

fn faults(plan: &Plan, guard: &Guard) -> Vec<String> {
    let mut wrong = Vec::new();
    if plan.sorts && guard.may_sort.is_empty() {
        wrong.push("sorts".to_owned());
    }
    let mut expected: Vec<(&str, &str)> =
        guard.reads.split_whitespace().map(|read| read.split_once(':').unwrap()).collect();
    for Access { table, kind, key } in &plan.reads {
        if OF_ITS_OWN.contains(&table.as_str()) || table.starts_with('<') {
            continue;
        }
        let taken = key.as_deref().unwrap_or("no key");
        let allowed =
            |&(alias, key): &(&str, &str)| alias == table && (key == taken || (key == "*" && !LARGE.contains(&alias)));
        match expected.iter().position(allowed) {
            Some(at) => drop(expected.remove(at)),
            None => wrong.push(format!("{table} is read by {taken} ({kind})")),
        }
        if kind == "ALL" && !guard.reads.contains(&format!("{table}:*")) {
            wrong.push(format!("{table} is scanned"));
        }
    }
    wrong.extend(expected.into_iter().map(|(alias, key)| format!("{alias} is not read by {key}")));
    wrong
}

fn bound(query: String, binds: &[Bound]) -> Query<'static, MySql, MySqlArguments> {
    let mut query = sqlx::query(AssertSqlSafe(query));
    for value in binds.iter().cloned() {
        query = match value {
            Bound::Text(text) => query.bind(text),
            Bound::Number(number) => query.bind(number),
            Bound::LongAgo => query.bind(time::OffsetDateTime::UNIX_EPOCH),
            Bound::AnInstant => query.bind(time::OffsetDateTime::UNIX_EPOCH + time::Duration::days(20_000)),
            Bound::Null => query.bind(None::<String>),
        };
    }
    query
}
