//! The schema page, from the migrations as they are committed: tables, columns and keys, each with its why.

use std::fs;

use sa_harness::repository_root;

/// The page.
pub fn page() -> String {
    let mut page = super::head("Schema", "the comments of `migrations/*.up.sql`");
    page += "\nTimes are UTC with microseconds, written by the database.\n";
    page += "An unset cell in the last column means that the name says it.\n";
    let folder = repository_root().join("migrations");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".up.sql"));
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let leading = text.lines().map_while(|line| line.strip_prefix("-- "));
        page += &format!("\n## {}\n\n", file.file_name().unwrap().to_string_lossy());
        page += &(leading.collect::<Vec<_>>().join(" ").replace(". ", ".\n") + "\n");
        // An ALTER has no table of its own to be shown; its page must be thought about when the first one comes.
        assert!(!text.contains("ALTER TABLE"), "{} alters a table: teach this page about it", file.display());
        for table in text.split("CREATE TABLE ").skip(1) {
            page += &section(table.split(") ENGINE").next().unwrap_or_default());
        }
    }
    page
}

/// One table, from its name to its last constraint.
fn section(table: &str) -> String {
    let (name, body) = table.split_once(" (\n").unwrap();
    let [mut columns, mut keys] = [Vec::new(), Vec::new()];
    for item in items(body) {
        let list = if is_key(&item.what) { &mut keys } else { &mut columns };
        list.push(item);
    }
    let mut section = format!("\n### {name}\n\n| column | type | why |\n|---|---|---|\n");
    for Item { what, why } in &columns {
        let (column, kind) = what.split_once(' ').unwrap_or((what, ""));
        section += &format!("| `{column}` | `{}` | {} |\n", cell(&plain(kind.trim())), cell(why));
    }
    section += "\n| key or rule | why |\n|---|---|\n";
    for Item { what, why } in &keys {
        section += &format!("| `{}` | {} |\n", cell(what), cell(why));
    }
    section
}

struct Item {
    what: String,
    why: String,
}

/// Lines of definition, those that go on joined to their first, each with the comment below it.
fn items(body: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for line in body.lines().filter(|line| !line.trim().is_empty()) {
        let text = line.trim();
        let begins = line.starts_with("    ") && !line.starts_with("     ");
        match (text.strip_prefix("-- "), items.last_mut()) {
            (Some(why), Some(item)) => {
                let joint = if item.why.is_empty() { "" } else { " " };
                item.why += &format!("{joint}{why}");
            }
            (None, Some(item)) if !begins => item.what += &format!(" {text}"),
            (None, _) => items.push(Item { what: text.to_owned(), why: String::new() }),
            (Some(why), None) => panic!("a comment about nothing: {why}"),
        }
    }
    for item in &mut items {
        item.what = item.what.trim_end_matches(',').to_owned();
    }
    items
}

fn is_key(what: &str) -> bool {
    ["PRIMARY KEY", "KEY ", "UNIQUE KEY", "CONSTRAINT "].iter().any(|word| what.starts_with(word))
}

/// Without the character set, which is the same for all ids, states and kinds.
fn plain(kind: &str) -> String {
    kind.replace(" CHARACTER SET ascii COLLATE ascii_bin", "")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
