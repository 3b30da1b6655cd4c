//! The base: a client that writes the same rows as the repository, in the same batches, and guards nothing. It knows the
//! ids beforehand, locks and looks up nothing, and looks at no row count.

mod statements;

use std::sync::Arc;

use anyhow::Result;
use sqlx::mysql::MySqlArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Connection, Executor, MySql, MySqlConnection};
use uuid::Uuid;

use self::statements::Statements;

/// A job as the bare client knows it.
#[derive(Clone)]
pub struct Job {
    pub id: String,
    pub prompt: String,
    pub user: u64,
}

/// A session with its prepared statements for one size of batch.
pub struct Bare {
    session: MySqlConnection,
    statements: Statements,
    worker: String,
    claims: u64,
}

impl Bare {
    pub async fn connect(url: &str, batch: usize) -> Result<Self> {
        let mut session = MySqlConnection::connect(url).await?;
        session.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED").await?;
        Ok(Self { session, statements: Statements::of(batch), worker: Uuid::new_v4().to_string(), claims: 0 })
    }

    /// Prompts, jobs, events and audit rows, in one transaction.
    pub async fn enqueue(&mut self, batch: &[Job], text: &str) -> Result<()> {
        self.session.execute("BEGIN").await?;
        let mut entity = query(&self.statements.entity);
        for Job { id: _, prompt, user } in batch {
            let (none, kind) = (None::<&str>, "prompt");
            entity = entity.bind(prompt).bind(kind).bind(none).bind(user).bind(prompt).bind(none).bind(none);
            entity = entity.bind("authored").bind(none).bind(none).bind(text);
        }
        entity.execute(&mut self.session).await?;
        let mut job = query(&self.statements.job);
        for Job { id, prompt, user } in batch {
            job = job.bind(id).bind(prompt).bind(50).bind("one").bind(3).bind(user);
        }
        job.execute(&mut self.session).await?;
        self.events(batch, (None, "queued", 1), None, "enqueue").await?;
        let mut audit = query(&self.statements.audit);
        for Job { id, prompt, user } in batch {
            audit = audit.bind("entity").bind(prompt).bind(id).bind("user:1").bind("submitted").bind(user);
        }
        audit.execute(&mut self.session).await?;
        self.session.execute("COMMIT").await?;
        Ok(())
    }

    /// The jobs run, and their events say so; in one transaction. Answers the claim.
    pub async fn claim(&mut self, batch: &[Job]) -> Result<String> {
        self.claims += 1;
        let claim = format!("{}.{}", self.worker, self.claims);
        self.session.execute("BEGIN").await?;
        let update = batch.iter().fold(query(&self.statements.claim).bind(&claim), |update, job| update.bind(&job.id));
        update.execute(&mut self.session).await?;
        self.events(batch, (Some("queued"), "running", 2), Some(&claim), "claim").await?;
        self.session.execute("COMMIT").await?;
        Ok(claim)
    }

    /// Responses, edges, ledger and audit rows, the jobs' end and its events, in one transaction.
    pub async fn finalize(&mut self, batch: &[Job], claim: &str, text: &str) -> Result<()> {
        let responses: Vec<_> = batch.iter().map(response_id).collect();
        let edges: Vec<_> = batch.iter().map(|_| Uuid::now_v7().to_string()).collect();
        self.session.execute("BEGIN").await?;
        let mut entity = query(&self.statements.entity);
        for (Job { id, prompt, user }, response) in batch.iter().zip(&responses) {
            entity = entity.bind(response).bind("response").bind(id).bind(user).bind(prompt).bind(prompt).bind(prompt);
            entity = entity.bind("generated").bind("echo").bind("echo").bind(text);
        }
        entity.execute(&mut self.session).await?;
        let mut edge = query(&self.statements.edge);
        for ((Job { prompt, user, .. }, response), id) in batch.iter().zip(&responses).zip(&edges) {
            edge = edge.bind(id).bind(prompt).bind(response).bind(user);
        }
        edge.execute(&mut self.session).await?;
        self.ledger(batch, &responses, claim).await?;
        self.audit("entity", batch, &responses).await?;
        self.audit("edge", batch, &edges).await?;
        let mut end = query(&self.statements.end);
        for (job, response) in batch.iter().zip(&responses) {
            end = end.bind(&job.id).bind(response);
        }
        let end = batch.iter().fold(end, |end, job| end.bind(&job.id));
        end.execute(&mut self.session).await?;
        self.events(batch, (Some("running"), "succeeded", 3), Some(claim), "success").await?;
        self.session.execute("COMMIT").await?;
        Ok(())
    }

    async fn ledger(&mut self, batch: &[Job], responses: &[String], claim: &str) -> Result<()> {
        let mut ledger = query(&self.statements.ledger);
        for (Job { id, prompt, .. }, response) in batch.iter().zip(responses) {
            ledger = ledger.bind(Uuid::now_v7().to_string()).bind(id).bind(prompt).bind(claim).bind("echo");
            ledger = ledger.bind("echo").bind(3).bind(5).bind(7).bind(1).bind(2).bind("req-1").bind(response);
        }
        ledger.execute(&mut self.session).await?;
        Ok(())
    }

    async fn audit(&mut self, kind: &str, batch: &[Job], subjects: &[String]) -> Result<()> {
        let actor = format!("worker:{}", self.worker);
        let mut audit = query(&self.statements.audit);
        for (Job { id, user, .. }, subject) in batch.iter().zip(subjects) {
            audit = audit.bind(kind).bind(subject).bind(id).bind(&actor).bind("answered").bind(user);
        }
        audit.execute(&mut self.session).await?;
        Ok(())
    }

    async fn events(
        &mut self,
        batch: &[Job],
        (from, to, revision): (Option<&str>, &str, u32),
        claim: Option<&str>,
        reason: &str,
    ) -> Result<()> {
        let actor = format!("worker:{}", self.worker);
        let mut event = query(&self.statements.event);
        for Job { id, prompt, user } in batch {
            event = event.bind(id).bind(prompt).bind(user).bind(from).bind(to).bind(revision).bind(claim);
            event = event.bind(&actor).bind(reason);
        }
        event.execute(&mut self.session).await?;
        Ok(())
    }
}

fn query(statement: &Arc<str>) -> Query<'_, MySql, MySqlArguments> {
    sqlx::query(AssertSqlSafe(Arc::clone(statement)))
}

/// As the repository makes it: of the prompt and the job.
fn response_id(job: &Job) -> String {
    let prompt = Uuid::parse_str(&job.prompt).unwrap_or_default();
    Uuid::new_v5(&prompt, job.id.as_bytes()).to_string()
}
