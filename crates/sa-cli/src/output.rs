//! The one place that writes to standard output: table, json, ndjson or ids. All else goes to standard error.

use std::{
    fmt::Display,
    io::{ErrorKind, IsTerminal, Write},
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use comfy_table::{Cell, Color, ContentArrangement, Table, presets};
use sa_core::state::State;
use serde::Serialize;
use time::OffsetDateTime;

/// How results are printed.
#[derive(Debug, Args)]
pub(crate) struct OutputOptions {
    /// How results are printed.
    #[arg(long, short, global = true, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    output: Format,
    /// The same as --output json.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// One JSON document.
    Json,
    /// One JSON document a line.
    Ndjson,
    /// Ids alone, one a line.
    Ids,
}

/// Prints results in the format that was asked for.
pub(crate) struct Output {
    format: Format,
    terminal: bool,
    colour: bool,
}

impl Output {
    pub(crate) fn new(options: OutputOptions) -> Self {
        let stdout = std::io::stdout();
        // anstream knows NO_COLOR, CLICOLOR, CLICOLOR_FORCE and TERM=dumb.
        let colour = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        let format = if options.json { Format::Json } else { options.output };
        Self { format, terminal: stdout.is_terminal(), colour }
    }

    /// One result: `words` for people, `id` for a pipe.
    pub(crate) fn one(
        &self,
        value: &impl Serialize,
        id: impl Display,
        words: impl FnOnce(&Self) -> String,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Table => put(&words(self)),
            Format::Json => put(&self.json(value)?),
            Format::Ndjson => put(&serde_json::to_string(value)?),
            Format::Ids => put(&id.to_string()),
        }
    }

    /// A list: `table` for people, the ids of its rows for a pipe. An empty list prints no table.
    pub(crate) fn list<T: Serialize>(
        &self,
        rows: &[T],
        id: impl Fn(&T) -> String,
        table: impl FnOnce(&Self) -> String,
    ) -> anyhow::Result<()> {
        match self.format {
            Format::Table if rows.is_empty() => {
                note("nothing found");
                Ok(())
            }
            Format::Table => put(&table(self)),
            Format::Json => put(&self.json(&rows)?),
            Format::Ndjson => rows.iter().try_for_each(|row| put(&serde_json::to_string(row)?)),
            Format::Ids => rows.iter().try_for_each(|row| put(&id(row))),
        }
    }

    /// Results that come one by one, each printed when it comes.
    pub(crate) fn stream(&self) -> Stream<'_> {
        Stream { out: self, collected: Vec::new() }
    }

    /// A result that is a text: byte for byte into a pipe, made harmless on a terminal.
    pub(crate) fn text_of(&self, value: &impl Serialize, id: impl Display, text: &str) -> anyhow::Result<()> {
        self.one(value, id, |out| if out.terminal { harmless(text) } else { text.to_owned() })
    }

    /// A table without lines, as wide as its content: a pipe to grep wants one job a line.
    pub(crate) fn table<const N: usize>(&self, header: [&str; N], rows: impl IntoIterator<Item = [Cell; N]>) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled).set_header(header);
        if self.colour {
            table.enforce_styling()
        } else {
            table.force_no_tty()
        };
        table.add_rows(rows);
        let lines: Vec<_> = table.lines().map(|line| line.trim().to_owned()).collect();
        lines.join("\n")
    }

    fn json(&self, value: &impl Serialize) -> serde_json::Result<String> {
        if self.terminal { serde_json::to_string_pretty(value) } else { serde_json::to_string(value) }
    }
}

/// See [`Output::stream`].
pub(crate) struct Stream<'a> {
    out: &'a Output,
    collected: Vec<serde_json::Value>,
}

impl Stream<'_> {
    /// Prints one result; a JSON document has to wait for the last one.
    pub(crate) fn add(&mut self, value: &impl Serialize, id: impl Display, line: impl Display) -> anyhow::Result<()> {
        if self.out.format == Format::Json {
            self.collected.push(serde_json::to_value(value)?);
            return Ok(());
        }
        self.out.one(value, id, |_| line.to_string())
    }

    /// Prints what had to wait.
    pub(crate) fn end(self) -> anyhow::Result<()> {
        if self.out.format == Format::Json { put(&self.out.json(&self.collected)?) } else { Ok(()) }
    }
}

/// Writes to standard output. A reader that has left (`| head`) is no error, and no reason to stop half-way.
fn put(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    let end = if text.ends_with('\n') { "" } else { "\n" };
    match write!(stdout, "{text}{end}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("writing to standard output"),
        _written_or_unwanted => Ok(()),
    }
}

/// Says something that is no result; whoever closed standard error does not want to hear it.
pub(crate) fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// The part of an id that tables show. UUIDv7s of one minute share 8 characters; 18 hold the time and 12 random bits.
pub(crate) fn short(id: impl Display) -> String {
    id.to_string().chars().take(18).collect()
}

/// To the second; JSON has the microseconds.
pub(crate) fn when(at: OffsetDateTime) -> String {
    let text = sa_core::timestamp::format(at);
    text.get(..19).map_or_else(|| text.clone(), |second| second.replace('T', " "))
}

/// A cell with a state: a sign and a colour, never the colour alone.
pub(crate) fn state_cell(state: State) -> Cell {
    let (sign, colour) = match state {
        State::Queued => ("·", Color::Blue),
        State::Running => ("▸", Color::Cyan),
        State::Succeeded => ("✓", Color::Green),
        State::Failed => ("✗", Color::Red),
        State::Cancelled => ("⊘", Color::Yellow),
        State::Superseded => ("↷", Color::DarkGrey),
    };
    Cell::new(format!("{sign} {state}")).fg(colour)
}

/// Text from elsewhere on one line, cut to `width` characters, unable to move the cursor, colour or reorder a terminal.
pub(crate) fn line(text: &str, width: usize) -> String {
    let mut cut: String = text.chars().take(width).flat_map(escaped).collect();
    if text.chars().nth(width).is_some() {
        cut.push('…');
    }
    cut
}

/// As [`line`], but whole, and with its line ends and tabs.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .flat_map(|c| if matches!(c, '\n' | '\t') { c.to_string().chars().collect() } else { escaped(c) })
        .collect()
}

fn escaped(c: char) -> Vec<char> {
    // Marks and overrides of writing direction are not control characters, yet they reorder what is read. The two joiners
    // between (U+200C, U+200D) only join: Persian, Indic and family emoji need them.
    let reorders = matches!(c, '\u{61c}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    if c.is_control() || reorders { c.escape_default().collect() } else { vec![c] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_shown_and_not_obeyed() {
        assert_eq!(line("a\u{1b}[31mred\r\nb", 80), "a\\u{1b}[31mred\\r\\nb");
        assert_eq!(line("abc\u{202e}def", 80), "abc\\u{202e}def");
        assert_eq!(harmless("a\n\tb\u{7}"), "a\n\tb\\u{7}");
        assert_eq!(line("naïve 🦀 👨\u{200d}👩\u{200d}👧", 80), "naïve 🦀 👨\u{200d}👩\u{200d}👧");
    }

    #[test]
    fn long_text_is_cut_between_characters() {
        assert_eq!(line("ééé", 2), "éé…");
        assert_eq!(line("éé", 2), "éé");
    }
}
