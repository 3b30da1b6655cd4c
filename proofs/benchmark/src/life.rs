//! A queue of prompts from claim to answer, with a provider that does nothing.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use sa_core::entity::{Answer, StateClass};
use sa_core::id::LedgerId;
use sa_core::ledger::{CallOutcome, LedgerRow, Purpose, Usage};
use sa_core::repo::{self, Claim, Claimer, Finish, Outcome};
use tokio::sync::mpsc;

use crate::bare::{Bare, Job};
use crate::claims::claimer;
use crate::crowd::{self, LONG_DUE, Queued};
use crate::rounds::{Contest, Pair, Side, Turn, take_turns};
use crate::stand::{Schema, Stand};

/// Jobs of a claim, and ends of a transaction: as the worker's committer has it at most.
const BATCH: usize = 64;
/// Batches that wait for their end while the next is claimed.
const AHEAD: usize = 2;
/// Bytes of an answer.
const ANSWER: usize = 2_000;

/// A full life, ours and the bare client's, each with one task that claims and one that finalizes, as a worker has them.
pub struct Life {
    ours: Schema,
    hand: Claimer,
    base: Schema,
    bare: [Bare; 2],
    /// Jobs of a turn.
    jobs: usize,
    /// Turns that the bare client has had in this round.
    turns: usize,
}

pub async fn measure(stand: &Stand) -> Result<Vec<Pair>> {
    take_turns(&mut Life::prepare(stand).await?, stand.extent.rounds).await
}

impl Contest for Life {
    const TURNS: usize = 4;

    async fn reset(&mut self) -> Result<()> {
        self.turns = 0;
        self.hand = claimer(&["one"]);
        for schema in [&self.ours, &self.base] {
            self.fill(schema).await?;
        }
        Ok(())
    }

    async fn turn(&mut self, side: Side) -> Result<Turn> {
        let began = Instant::now();
        match side {
            Side::Ours => self.ours().await?,
            Side::Base => self.bare().await?,
        }
        let seconds = began.elapsed().as_secs_f64();
        if self.turns == Self::TURNS && side == Side::Base {
            self.prove_written(&self.base).await?;
        }
        Ok(Turn { work: self.jobs, seconds })
    }
}

impl Life {
    pub async fn prepare(stand: &Stand) -> Result<Self> {
        let jobs = stand.extent.jobs / Self::TURNS;
        ensure!(jobs.is_multiple_of(BATCH), "a turn is a whole number of batches");
        let (ours, base) = (stand.schema().await?, stand.schema().await?);
        for schema in [&ours, &base] {
            crowd::numbers(schema, stand.extent.jobs as u64).await?;
        }
        let url = base.database.url();
        let bare = [Bare::connect(url, BATCH).await?, Bare::connect(url, BATCH).await?];
        Ok(Self { ours, hand: claimer(&["one"]), base, bare, jobs, turns: 0 })
    }

    async fn fill(&self, schema: &Schema) -> Result<()> {
        schema.empty().await?;
        let count = (self.jobs * Self::TURNS) as u64;
        crowd::prompts(schema, count).await?;
        let queued = Queued { first: 0, count, lane: "'one'", priority: 50, due: LONG_DUE };
        crowd::queued(schema, &queued).await?;
        crowd::done(schema).await
    }

    /// Both sides must have written as many rows of each kind, or they are not the same work.
    async fn prove_written(&self, schema: &Schema) -> Result<()> {
        let rows = [
            ("succeeded jobs", "SELECT COUNT(*) FROM sa_job WHERE state = 'succeeded'", 1),
            ("entities", "SELECT COUNT(*) FROM sa_entity", 2),
            ("events", "SELECT COUNT(*) FROM sa_job_event", 2),
            ("edges", "SELECT COUNT(*) FROM sa_edge", 1),
            ("audit rows", "SELECT COUNT(*) FROM sa_audit", 2),
            ("ledger rows", "SELECT COUNT(*) FROM sa_ledger", 1),
        ];
        let jobs = self.jobs * Self::TURNS;
        for (what, query, per_job) in rows {
            let found: i64 = sqlx::query_scalar(query).fetch_one(schema.pool()).await?;
            ensure!(found == (per_job * jobs) as i64, "{found} {what} after {jobs} jobs");
        }
        Ok(())
    }

    /// The repository.
    pub async fn ours(&mut self) -> Result<()> {
        let (queue, mut claimed) = mpsc::channel::<Vec<Claim>>(AHEAD);
        let (db, batches) = (&self.ours.db, self.jobs / BATCH);
        let hand = &mut self.hand;
        let claiming = async move {
            for _ in 0..batches {
                let claims = hand.claim(db, BATCH).await?;
                ensure!(claims.len() == BATCH, "{} jobs were claimed of {BATCH} that are there", claims.len());
                queue.send(claims).await?;
            }
            anyhow::Ok(())
        };
        let finalizing = async move {
            while let Some(claims) = claimed.recv().await {
                let ends = claims.into_iter().map(end).collect();
                for outcome in repo::finalize(db, ends).await {
                    let outcome = outcome.map_err(|(error, _)| error)?;
                    ensure!(outcome == Outcome::Written, "a claim was lost: {outcome:?}");
                }
            }
            anyhow::Ok(())
        };
        tokio::try_join!(claiming, finalizing)?;
        Ok(())
    }

    /// The bare client.
    async fn bare(&mut self) -> Result<()> {
        let first = (self.turns * self.jobs) as u64;
        self.turns += 1;
        let jobs: Vec<_> = (first..first + self.jobs as u64)
            .map(|n| Job { id: crowd::job_id(n), prompt: crowd::prompt_id(n), user: 1 + n % 50 })
            .collect();
        let (queue, mut claimed) = mpsc::channel(AHEAD);
        let [claimer, finalizer] = &mut self.bare;
        let claiming = async move {
            for batch in jobs.chunks(BATCH) {
                let claim = claimer.claim(batch).await?;
                queue.send((batch.to_vec(), claim)).await.ok().context("nobody finalizes")?;
            }
            anyhow::Ok(())
        };
        let finalizing = async move {
            let text = "a".repeat(ANSWER);
            while let Some((batch, claim)) = claimed.recv().await {
                finalizer.finalize(&batch, &claim, &text).await?;
            }
            anyhow::Ok(())
        };
        tokio::try_join!(claiming, finalizing)?;
        Ok(())
    }
}

fn end(claim: Claim) -> Finish {
    let answer = Answer {
        text: "a".repeat(ANSWER),
        provider: "echo".into(),
        model: "echo".into(),
        state_class: StateClass::Settled,
        source_refs: Vec::new(),
    };
    let ledger = LedgerRow {
        id: LedgerId::new(),
        purpose: Purpose::Answer,
        provider: "echo".into(),
        model: "echo".into(),
        usage: Usage { tokens_in: Some(3), tokens_out: Some(5), ..Usage::default() },
        cost_micro_usd: Some(7),
        first_token_ms: Some(1),
        total_ms: 2,
        outcome: CallOutcome::Succeeded,
        error_kind: None,
        provider_request_id: Some("req-1".into()),
    };
    claim.succeed(answer, vec![ledger])
}
