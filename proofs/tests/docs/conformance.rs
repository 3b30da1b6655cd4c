//! docs/spec-conformance.md: every statement is quoted, every quotation is true, and every test it names is there. The same
//! of the tests that docs/guarantees.md names.

use std::{fs, path::Path};

use sa_harness::repository_root;

use crate::tidy::rust_files;

/// The sections of the specification that the page goes through.
const SECTIONS: [u32; 6] = [2, 3, 4, 5, 8, 10];

/// A row of the page.
struct Row {
    section: u32,
    number: usize,
    quote: String,
    here: String,
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(repository_root().join("docs/spec-conformance.md")).unwrap();
    let cells = page.lines().map(|line| line.trim_matches(['|', ' ']).split(" | ").collect::<Vec<_>>());
    let row = |cells: Vec<&str>| {
        let [number, quote, here] = cells[..] else { return None };
        let (section, number) = number.split_once('.')?;
        let (section, number) = (section.parse().ok()?, number.parse().ok()?);
        Some(Row { section, number, quote: quote.to_owned(), here: here.to_owned() })
    };
    cells.filter_map(row).collect()
}

/// Without markup and spaces, so that a quotation may leave them out.
fn bare(text: &str) -> String {
    let text = text.replace("&lt;", "<");
    text.chars().filter(|c| !c.is_whitespace() && !"*`\\".contains(*c)).collect()
}

/// The lines of a section that say something: no headings, heads of tables, fences, or comments of the DDL.
fn statements(section: u32) -> Vec<String> {
    let text = fs::read_to_string(repository_root().join("docs/spec/async-execution.md")).unwrap();
    let start = format!("\n## {section}. ");
    let (_, rest) = text.split_once(&start).unwrap();
    let (_title, rest) = rest.split_once('\n').unwrap();
    let lines: Vec<_> = rest.split("\n## ").next().unwrap().lines().map(str::trim).collect();
    let says = |n: &usize| {
        let is_head = lines.get(n + 1).is_some_and(|next| next.starts_with("|---"));
        let silent = ["#", "|---", "```", "--"].iter().any(|start| lines[*n].starts_with(start));
        !lines[*n].is_empty() && lines[*n] != ")" && !is_head && !silent
    };
    (0..lines.len()).filter(says).map(|n| bare(lines[n])).collect()
}

fn fragments(row: &Row) -> impl Iterator<Item = String> {
    row.quote.split(" … ").map(bare)
}

#[test]
fn each_statement_of_the_specification_has_its_row() {
    let rows = rows();
    for section in SECTIONS {
        let ours: Vec<_> = rows.iter().filter(|row| row.section == section).collect();
        let numbers: Vec<_> = ours.iter().map(|row| row.number).collect();
        assert_eq!(numbers, (1..=ours.len()).collect::<Vec<_>>(), "§{section} is not numbered through");
        let said = statements(section);
        for row in &ours {
            for fragment in fragments(row) {
                let is_quoted = fragment.len() > 5 && said.iter().any(|line| line.contains(&fragment));
                assert!(is_quoted, "{section}.{} quotes what §{section} does not say: {fragment}", row.number);
            }
        }
        for line in said {
            let listed = ours.iter().flat_map(|row| fragments(row)).any(|fragment| line.contains(&fragment));
            assert!(listed, "§{section} says what no row quotes: {line}");
        }
    }
    assert!(rows.iter().all(|row| SECTIONS.contains(&row.section)));
}

#[test]
fn each_row_has_its_proof_or_its_decision() {
    for Row { section, number, here, .. } in rows() {
        let answers = ["proof: ", "decision: ", "not yet: "].iter().any(|word| here.contains(word));
        assert!(answers, "{section}.{number} is not answered");
        let names_a_test = here.contains("::");
        assert!(names_a_test || !here.contains("proof: "), "{section}.{number} names no test as its proof");
    }
}

#[test]
fn each_test_that_is_named_is_there() {
    let guarantees = fs::read_to_string(repository_root().join("docs/guarantees.md")).unwrap();
    assert!(tests_named(&guarantees).count() > 20, "docs/guarantees.md names its proofs");
    let sources = rust_files();
    let rows: Vec<_> = rows().into_iter().map(|row| (format!("{}.{}", row.section, row.number), row.here)).collect();
    for (place, text) in rows.iter().chain(&[("docs/guarantees.md".to_owned(), guarantees)]) {
        for name in tests_named(text) {
            let (module, test) = name.split_once("::").unwrap();
            let mut homes = sources.iter().filter(|(path, _)| is_home(path, module));
            assert!(homes.any(|(_, text)| has_test(text, test)), "{place} names {name}, which is not there");
        }
    }
}

/// What stands in code type and looks like a test's path; `module::test` itself explains the form.
fn tests_named(text: &str) -> impl Iterator<Item = &str> {
    let spans = text.split('`').skip(1).step_by(2);
    spans.filter(|span| span.contains("::") && !span.ends_with("module::test"))
}

/// `retry` is a proof, with whatever lies in its folder; `sa-core/retry` is a file of that crate.
fn is_home(path: &Path, module: &str) -> bool {
    match module.split_once('/') {
        None => {
            let proofs = Path::new("proofs/tests");
            path == proofs.join(module).with_extension("rs") || path.starts_with(proofs.join(module))
        }
        Some((package, file)) => {
            path.starts_with(Path::new("crates").join(package)) && path.file_stem().is_some_and(|stem| stem == file)
        }
    }
}

/// A function of this name with a test's attribute above it.
fn has_test(text: &str, name: &str) -> bool {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let is_here = |line: &&str| line.split_once("fn ").is_some_and(|(_, rest)| rest.starts_with(&format!("{name}(")));
    let Some(at) = lines.iter().position(is_here) else { return false };
    let above = lines[..at].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    above.into_iter().any(|line| line.contains("test]") || line.contains("test("))
}
