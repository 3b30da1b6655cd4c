//! A plan as the engines tell it: which tables are read by which key, and whether rows are sorted.

use serde_json::Value;

/// How one table of a statement is read.
#[derive(Debug)]
pub struct Access {
    /// The table's name in the statement.
    pub table: String,
    /// `ALL`, `ref`, `eq_ref`, `range`, `const`, …
    pub kind: String,
    /// The key taken, if any.
    pub key: Option<String>,
}

/// What matters of a plan.
#[derive(Debug, Default)]
pub struct Plan {
    /// Every table read.
    pub reads: Vec<Access>,
    /// Whether rows are sorted on the way.
    pub sorts: bool,
}

impl Plan {
    /// Reads the document of `EXPLAIN FORMAT=JSON`; the two engines name the same things nearly alike.
    pub fn of(document: &Value) -> Self {
        let mut plan = Self::default();
        plan.walk(document);
        plan
    }

    fn walk(&mut self, node: &Value) {
        if let Some(list) = node.as_array() {
            list.iter().for_each(|child| self.walk(child));
        }
        let Some(fields) = node.as_object() else { return };
        self.sorts |=
            fields.get("using_filesort").is_some_and(|sorts| sorts == true) || fields.contains_key("filesort");
        // An INSERT names its target too, which it does not read.
        let written = fields.get("insert").is_some_and(|insert| insert == true);
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        if let (Some(table), Some(kind), false) = (text("table_name"), text("access_type"), written) {
            self.reads.push(Access { table, kind, key: text("key") });
        }
        fields.values().for_each(|child| self.walk(child));
    }
}
