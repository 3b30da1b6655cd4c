//! Who may use whom, and who may write what.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    process::Command,
};

use sa_harness::repository_root;
use serde_json::Value;

use super::{demand_none, product_files};

struct Rule {
    package: &'static str,
    ours: &'static [&'static str],
    never: &'static [&'static str],
}

/// The table of architecture.md §2, and the harness, which depends on none of ours.
const RULES: [Rule; 9] = [
    Rule { package: "sa-core", ours: &[], never: &["clap", "anyhow", "reqwest", "actix-web", "tracing-subscriber"] },
    Rule { package: "sa-boot", ours: &["sa-core"], never: &["reqwest", "actix-web"] },
    Rule { package: "sa-api", ours: &["sa-core", "sa-boot"], never: &["reqwest"] },
    Rule { package: "sa-worker", ours: &["sa-core", "sa-boot"], never: &["actix-web"] },
    Rule { package: "sa-reaper", ours: &["sa-core", "sa-boot"], never: &["actix-web", "reqwest"] },
    Rule { package: "sa-cli", ours: &["sa-core", "sa-boot", "sa-worker"], never: &["actix-web"] },
    Rule { package: "sa-harness", ours: &[], never: &["reqwest", "actix-web"] },
    Rule { package: "sa-proofs", ours: &[], never: &[] },
    Rule { package: "sa-bench", ours: &["sa-core", "sa-harness"], never: &["reqwest", "actix-web"] },
];

/// Each package's normal dependencies, by name; of a package with several versions all of them.
struct Graph {
    members: BTreeSet<String>,
    normal: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// As cargo resolves it on this platform, with all features that the workspace turns on. Crates of other platforms
    /// are not there to be read: a build does not fetch them.
    fn read() -> Self {
        let version = output("RUSTC", "rustc", &["-vV"]);
        let platform = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
        let args = ["metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform", platform];
        let metadata: Value = serde_json::from_str(&output("CARGO", "cargo", &args)).unwrap();
        let list = |value: &Value| value.as_array().unwrap().clone();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let packages = list(&metadata["packages"]);
        let names: BTreeMap<_, _> =
            packages.iter().map(|package| (text(&package["id"]), text(&package["name"]))).collect();
        let mut normal: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"]) {
            let of = normal.entry(names[&text(&node["id"])].clone()).or_default();
            let is_normal = |dep: &&Value| list(&dep["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            of.extend(list(&node["deps"]).iter().filter(is_normal).map(|dep| names[&text(&dep["pkg"])].clone()));
        }
        let members = list(&metadata["workspace_members"]).iter().map(|id| names[&text(id)].clone()).collect();
        Self { members, normal }
    }

    /// All that a package reaches, over however many others.
    fn reach<'a>(&'a self, package: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut next) = (BTreeSet::new(), vec![package]);
        while let Some(package) = next.pop() {
            next.extend(self.normal[package].iter().map(String::as_str).filter(|dep| reached.insert(*dep)));
        }
        reached
    }
}

/// What a tool of the toolchain prints; cargo names its own in the environment of tests.
fn output(variable: &str, otherwise: &str, args: &[&str]) -> String {
    let tool = std::env::var_os(variable).unwrap_or_else(|| otherwise.into());
    let output = Command::new(tool).args(args).current_dir(repository_root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_crate_uses_only_the_crates_it_may() {
    let graph = Graph::read();
    let ruled: BTreeSet<_> = RULES.iter().map(|rule| rule.package.to_owned()).collect();
    assert_eq!(graph.members, ruled, "a new crate needs its line in the table");
    for Rule { package, ours, never } in RULES {
        let used: Vec<_> = graph.normal[package].iter().filter(|dep| graph.members.contains(*dep)).collect();
        let wrong: Vec<_> = used.into_iter().filter(|dep| !ours.contains(&dep.as_str())).collect();
        assert!(wrong.is_empty(), "{package} may not use {wrong:?}");
        let reached = graph.reach(package);
        let wrong: Vec<_> = never.iter().filter(|dep| reached.contains(**dep)).collect();
        assert!(wrong.is_empty(), "{package} must never reach {wrong:?}");
    }
    // The table is about something: these are reached, so their absence elsewhere is no accident of the reading.
    assert!(graph.reach("sa-cli").contains("reqwest") && graph.reach("sa-api").contains("actix-web"));
}

/// One string literal of a source file that holds SQL.
struct Statement {
    path: PathBuf,
    text: String,
}

/// The statements of the product: literals in which a keyword of SQL begins a line, or that begin with their comment.
fn statements() -> Vec<Statement> {
    const VERBS: [&str; 6] = ["SELECT ", "INSERT ", "UPDATE ", "DELETE ", "REPLACE ", "WITH "];
    let begins = |line: &str| line.starts_with("-- ") || VERBS.iter().any(|verb| line.starts_with(verb));
    let mut statements = Vec::new();
    for (path, text) in product_files() {
        let code: Vec<_> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        // Raw strings quote their quotes with r#"…"#: those inside are column names, and split nothing that begins a line.
        for literal in code.join("\n").split('"').skip(1) {
            let literal = literal.replace("\\n", "\n");
            if literal.lines().next().is_some_and(|line| begins(line.trim_start())) {
                statements.push(Statement { path: path.clone(), text: literal });
            }
        }
    }
    statements
}

fn in_repository(statement: &Statement) -> bool {
    statement.path.starts_with("crates/sa-core/src/repo")
}

/// Style 13: from the slow log to the code in one step. The comment names the verb, which is its file or its folder, or a
/// function of that file.
#[test]
fn each_statement_of_the_repository_names_its_verb() {
    let ours: Vec<_> = statements().into_iter().filter(in_repository).collect();
    assert!(ours.len() > 40, "only {} statements were found", ours.len());
    let is_home = |statement: &Statement, verb: &str| {
        let path = statement.path.strip_prefix("crates/sa-core/src/repo").unwrap().with_extension("");
        let file = std::fs::read_to_string(repository_root().join(&statement.path)).unwrap();
        path.iter().next().unwrap() == verb || file.contains(&format!("fn {verb}("))
    };
    let unnamed = |statement: &Statement| {
        let first = statement.text.lines().next().unwrap_or_default().trim();
        let verb = first.strip_prefix("-- repo::").filter(|verb| is_home(statement, verb));
        verb.is_none().then(|| format!("{}: {first}", statement.path.display()))
    };
    demand_none("a statement without its name", ours.iter().filter_map(unnamed).collect());
}

/// Only the repository writes, apart from migrations, whose bookkeeping is sqlx's own table.
#[test]
fn only_the_repository_writes_rows() {
    let writes =
        |statement: &&Statement| ["INSERT ", "UPDATE ", "DELETE "].iter().any(|verb| statement.text.contains(verb));
    let elsewhere = statements();
    let elsewhere = elsewhere.iter().filter(|statement| !in_repository(statement)).filter(writes);
    let wrong = elsewhere.filter(|statement| !statement.path.starts_with("crates/sa-cli/src/migration"));
    demand_none("SQL outside the repository", wrong.map(|statement| statement.path.display().to_string()).collect());
}

/// Architecture 3: a state is set to what a `Transition` says, and only where the row is still in the state it leaves.
#[test]
fn a_state_is_only_set_by_a_guarded_transition() {
    let mut moves = 0;
    for statement in statements().iter().filter(|statement| statement.text.contains("UPDATE ")) {
        let words = statement.text.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = words.replace("CHARACTER SET", "CHARSET");
        let Some((_, set)) = words.split_once(" SET ") else { continue };
        let (set, guard) = set.split_once(" WHERE ").unwrap_or((set, ""));
        let assigns = |part: &str| part.split(", ").any(|one| one.trim_start_matches("j.").starts_with("state ="));
        if assigns(set) {
            moves += 1;
            assert!(in_repository(statement), "{} sets a state", statement.path.display());
            let bound = |part: &str| part.contains("state = ?");
            assert!(bound(set) && bound(guard), "{}: not guarded: {words}", statement.path.display());
        }
    }
    assert!(moves >= 7, "only {moves} statements that move a job were found");
}
