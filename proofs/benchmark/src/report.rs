//! What is printed and written.

use std::fs::File;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::cell::Cell;
use crate::options::Options;
use crate::rounds::Pair;
use crate::stand::Stand;

/// One round of one cell: rates, in turns of one run.
#[derive(Serialize)]
struct Round {
    engine: &'static str,
    cell: String,
    ours: f64,
    base: f64,
}

/// All that was measured so far.
pub struct Report {
    /// Whether the median of some cell is below its target.
    pub missed: bool,
    json: Option<std::path::PathBuf>,
    rounds: Vec<Round>,
    failures: Vec<String>,
}

/// Ratios in order.
struct Spread(Vec<f64>);

impl Spread {
    fn of(pairs: &[Pair]) -> Self {
        let mut ratios: Vec<_> = pairs.iter().map(|pair| pair.ratio()).collect();
        ratios.sort_by(f64::total_cmp);
        Self(ratios)
    }

    fn median(&self) -> f64 {
        let Self(ratios) = self;
        let middle = ratios.len() / 2;
        if ratios.len() % 2 == 1 { ratios[middle] } else { (ratios[middle - 1] + ratios[middle]) / 2.0 }
    }
}

impl Report {
    pub fn new(options: &Options) -> Self {
        Self { missed: false, json: options.json.clone(), rounds: Vec::new(), failures: Vec::new() }
    }

    /// Says on what the next cells are measured.
    pub fn begins(&self, stand: &Stand) {
        println!("{} {}, {} run", stand.engine.name(), stand.version(), stand.extent.name);
        println!("  {:<15} {:>7}  {:<15} {:>6}  rounds", "ours / base", "median", "least..greatest", "target");
    }

    /// Adds a cell's rounds, prints what they come to, and writes the file anew: a run that breaks keeps what it has.
    pub fn add(&mut self, stand: &Stand, cell: Cell, pairs: Vec<Pair>) -> Result<()> {
        let spread = Spread::of(&pairs);
        let (median, engine) = (spread.median(), stand.engine.name());
        let target = cell.target().filter(|_| stand.extent.counts());
        let verdict = match target {
            Some(target) if median < target => "missed",
            Some(_) => "met",
            None => "",
        };
        if verdict == "missed" {
            self.missed = true;
            self.failures.push(format!("{cell} on {engine}: {median:.2}"));
        }
        let range = format!("{:.2}..{:.2}", spread.0[0], spread.0[spread.0.len() - 1]);
        let shown = target.map_or_else(|| "-".to_owned(), |target| format!("{target:.2}"));
        println!("  {cell:<15} {median:>7.2}  {range:<15} {shown:>6}  {:>6}  {verdict}", pairs.len());
        let rounds = pairs.into_iter().map(|Pair { ours, base }| Round { engine, cell: cell.name(), ours, base });
        self.rounds.extend(rounds);
        self.write()
    }

    fn write(&self) -> Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        let file = File::create(path).with_context(|| format!("{} cannot be written", path.display()))?;
        serde_json::to_writer_pretty(file, &self.rounds)?;
        Ok(())
    }

    /// Says which targets were missed.
    pub fn ends(&self) {
        if self.failures.is_empty() {
            println!("all targets met");
        } else {
            println!("targets missed: {}", self.failures.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle_or_between_the_two() {
        let of = |ratios: &[f64]| {
            Spread::of(&ratios.iter().map(|&ours| Pair { ours, base: 1.0 }).collect::<Vec<_>>()).median()
        };
        assert!((of(&[3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
        assert!((of(&[4.0, 1.0, 2.0, 3.0]) - 2.5).abs() < 1e-9);
    }
}
