//! What must hold of the rows whatever happened, asked of a live schema.

use super::{Db, Error};

/// The invariants, each a named query that answers the ids that break it.
pub const SQL: &str = include_str!("../invariants.sql");

/// An invariant and the rows that break it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Checked {
    /// Its number and what it says.
    pub name: String,
    /// The ids that break it, at most 100; none if it holds.
    pub broken_by: Vec<String>,
}

/// Checks every invariant, each in one statement: on a live system each is judged as of one instant.
///
/// # Errors
/// `Database`.
pub async fn check(db: &Db) -> Result<Vec<Checked>, Error> {
    let mut checked = Vec::new();
    for (name, query) in queries() {
        let mut broken_by: Vec<String> =
            db.retrying(|| async { Ok(sqlx::query_scalar(query).fetch_all(db.pool()).await?) }).await?;
        broken_by.truncate(100);
        checked.push(Checked { name: name.to_owned(), broken_by });
    }
    Ok(checked)
}

/// Name and query of each.
pub fn queries() -> impl Iterator<Item = (&'static str, &'static str)> {
    SQL.split(";\n").filter_map(|part| part[part.find("\n-- I")? + 4..].split_once('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_invariant_has_a_number_a_sentence_and_a_query() {
        let all: Vec<_> = queries().collect();
        assert!(all.len() >= 18, "{}", all.len());
        for (name, query) in all {
            assert!(name.len() > 10 && name.starts_with('I') && name[1..3].parse::<u8>().is_ok(), "{name}");
            assert!(query.starts_with("SELECT") && !query.contains(';'), "{name}");
        }
    }
}
