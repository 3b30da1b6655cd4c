//! A queue that is claimed while another session keeps alive the rows that were claimed before.

use std::time::Instant;

use anyhow::{Result, ensure};
use sqlx::{Connection, Executor, MySqlConnection};

use crate::claims::claimer;
use crate::crowd::{self, LONG_DUE, Queued};
use crate::rounds::{Contest, Pair, Side, Turn, take_turns};
use crate::stand::{Schema, Stand};

/// Jobs of a claim.
const BATCH: usize = 16;
/// Transactions in which the head is taken.
const PARTS: u64 = 100;

/// Jobs claimed of a turn.
const CLAIMED: usize = 6_400;

struct Held {
    schema: Schema,
    /// Jobs at the head of the queue that are taken before the turn begins.
    taken: u64,
}

pub async fn measure(stand: &Stand) -> Result<Vec<Pair>> {
    let (schema, taken) = (stand.schema().await?, stand.extent.taken);
    let count = taken + 2 * CLAIMED as u64;
    crowd::numbers(&schema, count).await?;
    let jobs = Queued { first: 0, count, lane: "'one'", priority: 50, due: LONG_DUE };
    crowd::queued(&schema, &jobs).await?;
    crowd::done(&schema).await?;
    take_turns(&mut Held { schema, taken }, stand.extent.long_rounds).await
}

impl Contest for Held {
    const TURNS: usize = 1;

    async fn reset(&mut self) -> Result<()> {
        Ok(())
    }

    async fn turn(&mut self, side: Side) -> Result<Turn> {
        self.schema.restore().await?;
        let holder = match side {
            Side::Ours => Some(snapshot(&self.schema).await?),
            Side::Base => None,
        };
        self.take_the_head().await?;
        match side {
            Side::Ours => self.prove_held().await?,
            Side::Base => self.schema.settle().await?,
        }
        let turn = self.claims().await?;
        if let Some(mut holder) = holder {
            holder.execute("COMMIT").await?;
            holder.close().await?;
        }
        Ok(turn)
    }
}

impl Held {
    /// Takes the head of the queue in small transactions, as claims do: what they leave there is what claims must not walk.
    async fn take_the_head(&self) -> Result<()> {
        for part in 0..PARTS {
            let (first, end) = (self.taken * part / PARTS, self.taken * (part + 1) / PARTS);
            let (first, end) = (crowd::job_id(first), crowd::job_id(end));
            let take = format!(
                "UPDATE sa_job
                    SET state = 'running', worker_claim = 'before', claimed_at = UTC_TIMESTAMP(6),
                        started_at = UTC_TIMESTAMP(6), running_heartbeat_at = UTC_TIMESTAMP(6)
                  WHERE id >= '{first}'
                    AND id < '{end}'"
            );
            self.schema.run(take).await?;
        }
        Ok(())
    }

    /// The engine must not have been able to clear away what was taken, or there is nothing to be seen.
    async fn prove_held(&self) -> Result<()> {
        self.schema.settle().await?;
        let left = self.schema.history().await?;
        ensure!(left >= PARTS, "the snapshot holds nothing: {left} old transactions are left of {PARTS}");
        Ok(())
    }

    async fn claims(&self) -> Result<Turn> {
        let mut claimer = claimer(&["one"]);
        let (mut work, began) = (0, Instant::now());
        while work < CLAIMED {
            let claims = claimer.claim(&self.schema.db, BATCH).await?.len();
            ensure!(claims == BATCH, "{claims} jobs were claimed of {BATCH} that are there");
            work += claims;
        }
        Ok(Turn { work, seconds: began.elapsed().as_secs_f64() })
    }
}

/// What a dump, a report or a forgotten BEGIN holds open.
async fn snapshot(schema: &Schema) -> Result<MySqlConnection> {
    let mut session = MySqlConnection::connect(schema.database.url()).await?;
    session.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ").await?;
    session.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT").await?;
    session.execute("SELECT COUNT(*) FROM sa_job_event").await?;
    Ok(session)
}
