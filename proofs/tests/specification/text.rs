//! The specification's text, cut into what it spells out.

use std::collections::BTreeSet;

use sa_harness::repository_root;

/// A column of §4's table.
#[derive(Clone)]
pub struct Column {
    pub name: String,
    /// In lower case, such as `varchar(16)` or `tinyint unsigned`.
    pub kind: String,
    pub nullable: bool,
    pub has_default: bool,
}

fn specification() -> String {
    std::fs::read_to_string(repository_root().join("docs/spec/async-execution.md")).unwrap()
}

/// Prose and fenced blocks, in turns; the first is prose.
fn parts(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split("```").enumerate()
}

/// What stands in backticks in the prose, each once, sorted.
pub fn spans() -> Vec<String> {
    let text = specification();
    let prose: String = parts(&text).filter(|(n, _)| n % 2 == 0).map(|(_, part)| part).collect();
    let lines = prose.lines().flat_map(|line| line.split('`').skip(1).step_by(2).map(ToOwned::to_owned));
    lines.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Whether it compares or assigns a column of the job table.
pub fn is_about_a_column(span: &str) -> bool {
    let span = span.trim_start_matches("WHERE ");
    let name: String = span.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
    let rest = span[name.len()..].trim_start();
    columns().iter().any(|column| column.name == name) && rest.starts_with(['=', '<', '>', '+'])
}

/// The blocks of SQL that begin with this word.
pub fn sql_blocks(verb: &str) -> Vec<String> {
    let text = specification();
    let blocks = parts(&text).filter(|(n, _)| n % 2 == 1).filter_map(|(_, part)| part.strip_prefix("sql\n"));
    blocks.map(|block| block.trim().to_owned()).filter(|block| block.starts_with(verb)).collect()
}

/// With every `<placeholder>` as a parameter.
pub fn bound(sql: &str) -> String {
    let mut pieces = sql.split('<');
    let mut bound = pieces.next().unwrap().to_owned();
    for piece in pieces {
        // A placeholder begins with a letter right behind the sign, where a comparison has a space or an equals sign.
        match piece.split_once('>').filter(|_| piece.starts_with(|c: char| c.is_ascii_lowercase())) {
            Some((_name, rest)) => bound.extend(["?", rest]),
            None => bound.extend(["<", piece]),
        }
    }
    bound
}

/// Every command line, each once, sorted: in backticks or in a block, without `wp` and without a crontab's five fields.
pub fn commands() -> Vec<String> {
    let text = specification();
    let blocks = parts(&text).filter(|(n, _)| n % 2 == 1).flat_map(|(_, part)| part.lines());
    let all = blocks.map(ToOwned::to_owned).chain(spans());
    let typed = all.filter_map(|line| line.split_once("wp sa-core ").map(|(_, command)| command.trim().to_owned()));
    typed.collect::<BTreeSet<_>>().into_iter().collect()
}

/// The columns of §4's `CREATE TABLE`.
pub fn columns() -> Vec<Column> {
    let [table] = &sql_blocks("CREATE TABLE ")[..] else { panic!("the specification has one CREATE TABLE") };
    let lines = table.lines().skip(1).map(str::trim);
    lines.filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase())).map(column).collect()
}

fn column(line: &str) -> Column {
    let words: Vec<_> = line.trim_end_matches(',').split_whitespace().collect();
    let unsigned = if words.get(2) == Some(&"UNSIGNED") { " unsigned" } else { "" };
    Column {
        name: words[0].to_owned(),
        kind: words[1].to_lowercase() + unsigned,
        nullable: !words.windows(2).any(|pair| pair == ["NOT", "NULL"]),
        has_default: words.contains(&"DEFAULT"),
    }
}
