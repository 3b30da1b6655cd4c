//! `proofs/run tidy`: the rules of the tree that a machine can check, of architecture.md §1 and §2 and style.md.

mod manifests;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use sa_harness::repository_root;

/// The specification is the user's: not a byte of it is ours to change.
const SPECIFICATION: (&str, &str) =
    ("docs/spec/async-execution.md", "a5824aeb7104da46c90fbe3cd8ac604033d6c2cdfb5fc2becfd6f7df853b1dac");
const LONGEST_FILE: usize = 299;
const LONGEST_MAIN: usize = 15;

/// Every file that is committed or about to be, with its text where it has one.
pub fn files() -> Vec<(PathBuf, String)> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(args).current_dir(repository_root()).output().unwrap();
    assert!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).unwrap();
    let names = names.split_terminator('\0').map(PathBuf::from);
    // A file deleted from the tree but not yet from the index has no text either.
    names.filter_map(|name| Some((name.clone(), fs::read_to_string(repository_root().join(name)).ok()?))).collect()
}

pub fn rust_files() -> Vec<(PathBuf, String)> {
    files().into_iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "rs")).collect()
}

/// Sources of the product itself, each without its unit tests.
fn product_files() -> Vec<(PathBuf, String)> {
    let is_product = |path: &Path| {
        path.starts_with("crates") && path.iter().any(|part| part == "src") && !path.ends_with("tests.rs")
    };
    let without_tests = |text: String| text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
    let product = rust_files().into_iter().filter(|(path, _)| is_product(path));
    product.map(|(path, text)| (path, without_tests(text))).collect()
}

/// `path:line: text` of each line that is not as it should be.
fn lines_where(files: &[(PathBuf, String)], bad: impl Fn(&str) -> bool) -> Vec<String> {
    let lines =
        files.iter().flat_map(|(path, text)| text.lines().enumerate().map(move |(n, line)| (path, n + 1, line)));
    lines
        .filter(|(_, _, line)| bad(line))
        .map(|(path, n, line)| format!("{}:{n}: {}", path.display(), line.trim()))
        .collect()
}

fn demand_none(rule: &str, found: Vec<String>) {
    assert!(found.is_empty(), "{rule}:\n  {}", found.join("\n  "));
}

/// Style 2: past that the anchors' own files stop being read. Functions are clippy's `too_many_lines`.
#[test]
fn files_stay_under_300_lines() {
    let too_long = |(path, text): (PathBuf, String)| {
        let lines = text.lines().count();
        (lines > LONGEST_FILE).then(|| format!("{}: {lines} lines", path.display()))
    };
    demand_none("too long", rust_files().into_iter().filter_map(too_long).collect());
    assert!(
        fs::read_to_string(repository_root().join("clippy.toml")).unwrap().contains("too-many-lines-threshold = 60")
    );
}

/// Style 3: a name that admits anything collects everything.
#[test]
fn no_module_has_a_name_that_admits_anything() {
    const VAGUE: [&str; 8] = ["util", "utils", "common", "helper", "helpers", "misc", "types", "manager"];
    let vague = |path: &Path| path.with_extension("").iter().any(|part| VAGUE.iter().any(|name| part == *name));
    let found = rust_files().into_iter().filter(|(path, _)| vague(path)).map(|(path, _)| path.display().to_string());
    demand_none("vague names", found.collect());
}

/// A main function starts the library and does nothing else.
#[test]
fn a_main_file_has_15_lines_at_most() {
    let is_main = |path: &Path| path.starts_with("crates") && path.ends_with("src/main.rs");
    let mains: Vec<_> = rust_files().into_iter().filter(|(path, _)| is_main(path)).collect();
    assert_eq!(mains.len(), 4);
    let long =
        |(path, text): &(PathBuf, String)| (text.lines().count() > LONGEST_MAIN).then(|| path.display().to_string());
    demand_none("more than a start", mains.iter().filter_map(long).collect());
}

/// Style 29: an exception that stopped being needed announces itself. The words are put together here, so that this file
/// does not find itself.
#[test]
fn exceptions_are_expected_never_allowed() {
    let allows = ["[allow", "(allow("].map(|start| format!("#{start}"));
    let bad = |line: &str| {
        let line = line.replace("#![", "#[");
        allows.iter().any(|allow| line.contains(allow))
            || (line.contains("cfg_attr") && line.contains(concat!("allow", "(")))
    };
    demand_none("write #[expect(…, reason = …)]", lines_where(&rust_files(), bad));
}

/// What is left to do stands in issues, where it is seen.
#[test]
fn nothing_is_left_to_do_in_the_tree() {
    let words = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let ours: Vec<_> = files().into_iter().filter(|(path, _)| path != Path::new("Cargo.lock")).collect();
    // mktemp's own placeholder is a longer row of the letter.
    let bad =
        |line: &str| words.iter().any(|word| line.split(|c: char| !c.is_alphanumeric()).any(|found| found == *word));
    let mktemp = |line: &str| line.contains("mktemp");
    demand_none("file an issue", lines_where(&ours, |line| bad(line) && !mktemp(line)));
}

/// Style 22: `expect` states the invariant that makes it true. Clippy says the same of code it compiles.
#[test]
fn the_product_unwraps_nothing() {
    let bad = |line: &str| !line.trim_start().starts_with("//") && line.contains(".unwrap()");
    demand_none("unwrap outside tests", lines_where(&product_files(), bad));
}

/// Hazard G34: no SQL put together from strings, except by migrations, which run what is committed.
#[test]
fn only_migrations_run_sql_that_is_no_literal() {
    let mut files = product_files();
    files.retain(|(path, _)| !path.starts_with("crates/sa-cli/src/migration"));
    let bad = |line: &str| line.contains("raw_sql") || line.contains("AssertSqlSafe");
    demand_none("SQL from strings", lines_where(&files, bad));
}

/// Every change of schema can be taken back.
#[test]
fn each_migration_has_its_way_back() {
    let names: Vec<_> = files().into_iter().filter_map(|(path, _)| Some(path.to_str()?.to_owned())).collect();
    let ups: Vec<_> =
        names.iter().filter_map(|name| name.strip_prefix("migrations/")?.strip_suffix(".up.sql")).collect();
    assert!(ups.len() >= 4);
    for up in ups {
        let down = format!("migrations/{up}.down.sql");
        assert!(names.contains(&down), "{down} is missing");
    }
}

/// Architecture 1: how a process starts and stops is five files, and may not grow a sixth.
#[test]
fn sa_boot_has_five_files() {
    let boot: Vec<_> = rust_files().into_iter().filter(|(path, _)| path.starts_with("crates/sa-boot/src")).collect();
    let mut names: Vec<_> = boot.iter().map(|(path, _)| path.file_name().unwrap().to_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, ["database.rs", "exit.rs", "lib.rs", "shutdown.rs", "telemetry.rs"]);
}

#[test]
fn the_specification_is_byte_for_byte_the_users() {
    let (path, expected) = SPECIFICATION;
    let output = Command::new("sha256sum").arg(repository_root().join(path)).output().unwrap();
    let sum = String::from_utf8(output.stdout).unwrap();
    assert_eq!(sum.split_whitespace().next(), Some(expected));
}

/// A clone lies anywhere: no file knows the folder it was written in.
#[test]
fn no_file_knows_where_it_was_written() {
    let folder = concat!("/wo", "rk/");
    let bad = |line: &str| {
        let starts_there = |at: usize| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "}.-_~\")".contains(c));
        line.match_indices(folder).any(|(at, _)| starts_there(at))
    };
    demand_none("an absolute path", lines_where(&files(), bad));
}

/// Hosts named in the tree are public ones, this machine, or none at all: a build must not need somebody's mirror.
#[test]
fn no_file_names_a_private_host() {
    const PUBLIC: [&str; 17] = [
        "api.anthropic.com",
        "api.openai.com",
        "crates.io",
        "deb.debian.org",
        "docs.litellm.ai",
        "docs.rs",
        "github.com",
        "generativelanguage.googleapis.com",
        "localhost",
        "mariadb.com",
        "mariadb.org",
        "opensource.org",
        "pypi.org",
        "rustup.rs",
        "sh.rustup.rs",
        "www.apache.org",
        "www.rfc-editor.org",
    ];
    // Names without a dot, addresses and example domains belong to tests.
    let made_up = |host: &str| {
        !host.contains('.')
            || host.ends_with(".example")
            || host == "example.com"
            || host == "x.openai.azure.com"
            || host.split('.').all(|part| part.parse::<u8>().is_ok())
    };
    let host_of = |rest: &str| {
        rest.split(|c: char| !(c.is_ascii_alphanumeric() || ".-".contains(c))).next().unwrap_or_default().to_owned()
    };
    let bad = |line: &str| {
        let hosts = line.split("://").skip(1).map(|rest| host_of(rest.rsplit_once('@').map_or(rest, |(_, host)| host)));
        hosts
            .map(|host| host.trim_end_matches('.').to_owned())
            .any(|host| !made_up(&host) && !PUBLIC.contains(&host.as_str()))
    };
    demand_none("a host that is not known to be public", lines_where(&files(), bad));
}
