//! Prompts stored with their jobs.

use std::time::Instant;

use anyhow::Result;
use sa_core::id::{OrgId, UserId};
use sa_core::job::{ExecutionOptions, Lane, MaxAttempts, Priority};
use sa_core::repo::{self, Db, NewPrompt};
use sa_core::viewer::{Actor, Viewer};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::bare::{Bare, Job};
use crate::rounds::{Contest, Pair, Side, Turn, take_turns};
use crate::stand::{Schema, Stand};

/// Bytes of a prompt.
const PROMPT: usize = 1_000;

struct Enqueue {
    schema: Schema,
    /// The callers' sessions, on a schema of their own.
    bare: Vec<Bare>,
    bare_schema: Schema,
    /// Prompts of a transaction.
    batch: usize,
    /// Transactions of a caller in a turn.
    transactions: usize,
}

/// With this many prompts in a transaction: one, as callers come, or as many as `sa-api` may gather.
pub async fn measure(stand: &Stand, batch: usize) -> Result<Vec<Pair>> {
    let callers = if batch == 1 { 16 } else { 4 };
    let (schema, bare_schema) = (stand.schema().await?, stand.schema().await?);
    let mut bare = Vec::new();
    for _ in 0..callers {
        bare.push(Bare::connect(bare_schema.database.url(), batch).await?);
    }
    let transactions = (stand.extent.jobs / Enqueue::TURNS / callers / batch).max(1);
    let mut enqueue = Enqueue { schema, bare, bare_schema, batch, transactions };
    take_turns(&mut enqueue, stand.extent.rounds).await
}

impl Contest for Enqueue {
    const TURNS: usize = 4;

    async fn reset(&mut self) -> Result<()> {
        self.schema.empty().await?;
        self.bare_schema.empty().await
    }

    async fn turn(&mut self, side: Side) -> Result<Turn> {
        let (batch, transactions) = (self.batch, self.transactions);
        let work = self.bare.len() * transactions * batch;
        let began = Instant::now();
        match side {
            Side::Ours => {
                let mut callers = JoinSet::new();
                for _ in &self.bare {
                    callers.spawn(ours(self.schema.db.clone(), batch, transactions));
                }
                while let Some(done) = callers.join_next().await {
                    done??;
                }
            }
            Side::Base => {
                let mut callers = JoinSet::new();
                for bare in self.bare.drain(..) {
                    callers.spawn(theirs(bare, batch, transactions));
                }
                while let Some(done) = callers.join_next().await {
                    self.bare.push(done??);
                }
            }
        }
        Ok(Turn { work, seconds: began.elapsed().as_secs_f64() })
    }
}

async fn ours(db: Db, batch: usize, transactions: usize) -> Result<()> {
    let viewer = Viewer { org: OrgId(1), user: UserId(1) };
    let prompt = NewPrompt {
        viewer,
        actor: Actor::user(viewer.user),
        text: "p".repeat(PROMPT),
        root: None,
        options: ExecutionOptions::default(),
        lane: Lane::new("one"),
        priority: Priority::DEFAULT,
        max_attempts: MaxAttempts::DEFAULT,
        scheduled_for: None,
    };
    for _ in 0..transactions {
        for enqueued in repo::enqueue(&db, vec![prompt.clone(); batch]).await {
            enqueued?;
        }
    }
    Ok(())
}

async fn theirs(mut bare: Bare, batch: usize, transactions: usize) -> Result<Bare> {
    let text = "p".repeat(PROMPT);
    let job = || Job { id: Uuid::now_v7().to_string(), prompt: Uuid::now_v7().to_string(), user: 1 };
    for _ in 0..transactions {
        let jobs: Vec<_> = (0..batch).map(|_| job()).collect();
        bare.enqueue(&jobs, &text).await?;
    }
    Ok(bare)
}
