//! Claims from one table, and from another that holds what must not matter.

use std::time::Instant;

use anyhow::{Result, ensure};
use sa_core::id::WorkerId;
use sa_core::job::{Lane, Priority};
use sa_core::repo::{Claimer, Serves};

use crate::crowd::{self, DELAYED, LONG_DUE, Queued};
use crate::rounds::{Contest, Pair, Side, Turn, take_turns};
use crate::stand::{Schema, Stand};

/// Jobs of a claim.
const BATCH: usize = 5;
/// Claims of a turn: few, so that the turns of both sides see the same machine.
const CLAIMS: usize = 10;
/// The ready jobs behind what must not matter.
const READY: u64 = 20_000;
const ONE_LANE: [&str; 1] = ["one"];
const TEN_LANES: [&str; 10] = ["l0", "l1", "l2", "l3", "l4", "l5", "l6", "l7", "l8", "l9"];

/// A worker's claiming hand for these lanes.
pub fn claimer(lanes: &[&str]) -> Claimer {
    let lanes: Vec<_> = lanes.iter().map(|&lane| Lane::new(lane)).collect();
    Claimer::new(WorkerId::new(), Serves::only(lanes), Priority::LOWEST)
}

/// A table, and a hand that claims from it.
struct Table {
    schema: Schema,
    lanes: &'static [&'static str],
    hand: Claimer,
}

impl Table {
    fn new(schema: Schema, lanes: &'static [&'static str]) -> Self {
        Self { schema, lanes, hand: claimer(lanes) }
    }
}

/// Two tables to claim from.
struct TwoTables {
    ours: Table,
    base: Table,
}

impl Contest for TwoTables {
    /// Of a thousand jobs a hundred are left.
    const TURNS: usize = 18;

    async fn reset(&mut self) -> Result<()> {
        for table in [&mut self.ours, &mut self.base] {
            table.schema.restore().await?;
            table.hand = claimer(table.lanes);
        }
        Ok(())
    }

    async fn turn(&mut self, side: Side) -> Result<Turn> {
        let Table { schema, hand, .. } = match side {
            Side::Ours => &mut self.ours,
            Side::Base => &mut self.base,
        };
        let began = Instant::now();
        for _ in 0..CLAIMS {
            let claims = hand.claim(&schema.db, BATCH).await?;
            ensure!(claims.len() == BATCH, "{} jobs were claimed of {BATCH} that are there", claims.len());
        }
        Ok(Turn { work: CLAIMS, seconds: began.elapsed().as_secs_f64() })
    }
}

async fn measure(stand: &Stand, ours: Table, base: Table) -> Result<Vec<Pair>> {
    take_turns(&mut TwoTables { ours, base }, stand.extent.short_rounds).await
}

/// One schema with these jobs.
async fn holding(stand: &Stand, mut jobs: Vec<Queued<'_>>) -> Result<Schema> {
    for jobs in &mut jobs {
        jobs.count = (jobs.count / stand.extent.shrunk).max(1_000);
    }
    let schema = stand.schema().await?;
    let most = jobs.iter().map(|jobs| jobs.count).max().unwrap_or_default();
    crowd::numbers(&schema, most.min(crowd::PART)).await?;
    for jobs in &jobs {
        crowd::queued(&schema, jobs).await?;
    }
    crowd::done(&schema).await?;
    Ok(schema)
}

fn ready(count: u64, lane: &str) -> Queued<'_> {
    Queued { first: 2_000_000, count, lane, priority: 50, due: LONG_DUE }
}

/// A long backlog, beside a thousand jobs.
pub async fn backlog(stand: &Stand, queued: u64) -> Result<Vec<Pair>> {
    let ours = holding(stand, vec![ready(queued, "'one'")]).await?;
    let base = holding(stand, vec![ready(1_000, "'one'")]).await?;
    measure(stand, Table::new(ours, &ONE_LANE), Table::new(base, &ONE_LANE)).await
}

/// Ten lanes that are open, beside one.
pub async fn lanes(stand: &Stand) -> Result<Vec<Pair>> {
    let ours = holding(stand, vec![ready(100_000, "CONCAT('l', n MOD 10)")]).await?;
    let base = holding(stand, vec![ready(100_000, "'one'")]).await?;
    measure(stand, Table::new(ours, &TEN_LANES), Table::new(base, &ONE_LANE)).await
}

/// Eight of ten lanes closed, with better jobs in them.
pub async fn closed(stand: &Stand) -> Result<Vec<Pair>> {
    let ready = || ready(READY, "CONCAT('l', n MOD 2)");
    let behind = Queued { first: 0, count: 300_000, lane: "CONCAT('l', 2 + n MOD 8)", priority: 20, due: LONG_DUE };
    let ours = holding(stand, vec![behind, ready()]).await?;
    let base = holding(stand, vec![ready()]).await?;
    for schema in [&ours, &base] {
        let close = "INSERT INTO sa_provider_gate (lane, closed_until, reason)
                     SELECT CONCAT('l', n), UTC_TIMESTAMP(6) + INTERVAL 1 DAY, 'auth' FROM numbers WHERE n BETWEEN 2 AND 9";
        schema.run(close).await?;
    }
    measure(stand, Table::new(ours, &TEN_LANES), Table::new(base, &TEN_LANES)).await
}

/// Delayed jobs of better priority ahead.
pub async fn delayed(stand: &Stand) -> Result<Vec<Pair>> {
    let ahead = Queued { first: 0, count: 100_000, lane: "'one'", priority: 10, due: DELAYED };
    let ours = holding(stand, vec![ahead, ready(READY, "'one'")]).await?;
    let base = holding(stand, vec![ready(READY, "'one'")]).await?;
    measure(stand, Table::new(ours, &ONE_LANE), Table::new(base, &ONE_LANE)).await
}
