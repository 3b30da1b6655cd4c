//! A queue that is claimed from end to end while another session keeps the old rows alive.

use std::time::Instant;

use anyhow::{Result, ensure};
use sqlx::{Connection, Executor, MySqlConnection};

use crate::claims::claimer;
use crate::crowd::{self, LONG_DUE, Queued};
use crate::rounds::{Contest, Pair, Side, Turn, take_turns};
use crate::stand::{Schema, Stand};

/// Jobs of a claim.
const BATCH: usize = 16;

struct Held {
    schema: Schema,
    queued: u64,
}

pub async fn measure(stand: &Stand) -> Result<Vec<Pair>> {
    let (schema, queued) = (stand.schema().await?, stand.extent.held);
    crowd::numbers(&schema, queued).await?;
    let jobs = Queued { first: 0, count: queued, lane: "'one'", priority: 50, due: LONG_DUE };
    crowd::queued(&schema, &jobs).await?;
    crowd::done(&schema).await?;
    take_turns(&mut Held { schema, queued }, stand.extent.rounds).await
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
        let turn = self.drain().await?;
        if let Some(mut holder) = holder {
            holder.execute("COMMIT").await?;
            holder.close().await?;
        }
        Ok(turn)
    }
}

impl Held {
    /// Claims until no job is left.
    async fn drain(&self) -> Result<Turn> {
        let mut claimer = claimer(&["one"]);
        let (mut work, began) = (0, Instant::now());
        loop {
            let claims = claimer.claim(&self.schema.db, BATCH).await?.len();
            work += claims;
            if claims == 0 {
                break;
            }
        }
        let seconds = began.elapsed().as_secs_f64();
        ensure!(work as u64 == self.queued, "{work} jobs were claimed of {}", self.queued);
        Ok(Turn { work, seconds })
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
