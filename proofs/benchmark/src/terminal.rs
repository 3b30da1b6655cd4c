//! Ten due jobs behind a long history: what a claim of one of them takes at worst (case bank CB-32).

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::claims::claimer;
use crate::crowd::{self, DELAYED, LONG_DUE, Queued};
use crate::rounds::{Contest, Pair, Side, Turn, take_turns};
use crate::stand::{Schema, Stand};

const DUE: u64 = 10;

struct Terminal {
    ours: Schema,
    base: Schema,
    /// What single claims took, of ours and of the base.
    waits: [Vec<Duration>; 2],
}

pub async fn measure(stand: &Stand) -> Result<Vec<Pair>> {
    let ours = stand.schema().await?;
    crowd::numbers(&ours, crowd::PART).await?;
    crowd::ended(&ours, 0, 1_000_000 / stand.extent.shrunk, "'one'").await?;
    let count = 20_000 / stand.extent.shrunk;
    let backed_off = Queued { first: 1_000_000, count, lane: "'one'", priority: 50, due: DELAYED };
    crowd::queued(&ours, &backed_off).await?;
    let base = stand.schema().await?;
    crowd::numbers(&base, DUE).await?;
    for schema in [&ours, &base] {
        let due = Queued { first: 2_000_000, count: DUE, lane: "'one'", priority: 50, due: LONG_DUE };
        crowd::queued(schema, &due).await?;
        crowd::done(schema).await?;
    }
    let mut terminal = Terminal { ours, base, waits: [Vec::new(), Vec::new()] };
    let pairs = take_turns(&mut terminal, stand.extent.short_rounds).await?;
    let [ours, base] = terminal.waits.map(|waits| percentile(waits, 99).as_secs_f64() * 1e3);
    println!("  of claim-terminal the 99th percentile of a claim: {ours:.1} ms, with the due ones alone {base:.1} ms");
    Ok(pairs)
}

impl Contest for Terminal {
    const TURNS: usize = 5;

    async fn reset(&mut self) -> Result<()> {
        Ok(())
    }

    /// Claims the ten one by one, with a new hand as of a worker that was just started: it knows no cursor.
    async fn turn(&mut self, side: Side) -> Result<Turn> {
        let [of_ours, of_base] = &mut self.waits;
        let (schema, waits) = match side {
            Side::Ours => (&self.ours, of_ours),
            Side::Base => (&self.base, of_base),
        };
        schema.restore().await?;
        let mut hand = claimer(&["one"]);
        let mut seconds = 0.0;
        for _ in 0..DUE {
            let began = Instant::now();
            let claims = hand.claim(&schema.db, 1).await?;
            let wait = began.elapsed();
            ensure!(claims.len() == 1, "a job that is due was not claimed");
            seconds += wait.as_secs_f64();
            waits.push(wait);
        }
        Ok(Turn { work: DUE as usize, seconds })
    }
}

fn percentile(mut waits: Vec<Duration>, percent: usize) -> Duration {
    waits.sort_unstable();
    waits[(waits.len() * percent).div_ceil(100) - 1]
}
