//! Rows in great numbers, made by the server itself.

use anyhow::Result;

use crate::stand::Schema;

/// Rows in one statement.
pub const PART: u64 = 250_000;

/// SQL for the id of the row of number `n`. Ids of one kind sort by their numbers.
fn id(kind: u64, n: &str) -> String {
    format!("CONCAT('0193{kind:04}-0000-7000-8000-', LPAD(LOWER(HEX({n})), 12, '0'))")
}

/// The id of job number `n`, as [`queued`] makes it.
pub fn job_id(n: u64) -> String {
    format!("01930001-0000-7000-8000-{n:012x}")
}

/// The id of prompt number `n`.
pub fn prompt_id(n: u64) -> String {
    format!("01930002-0000-7000-8000-{n:012x}")
}

/// A table of the numbers below `most`.
pub async fn numbers(schema: &Schema, most: u64) -> Result<()> {
    schema.run("CREATE TABLE numbers (n BIGINT UNSIGNED NOT NULL PRIMARY KEY)").await?;
    schema.run("INSERT INTO numbers VALUES (0)").await?;
    let mut count = 1;
    while count < most {
        let more = format!("INSERT INTO numbers SELECT n + {count} FROM numbers WHERE n + {count} < {most}");
        schema.run(more).await?;
        count *= 2;
    }
    Ok(())
}

/// Jobs that wait.
pub struct Queued<'a> {
    /// The number of the first.
    pub first: u64,
    pub count: u64,
    /// SQL for the lane of number `n`.
    pub lane: &'a str,
    pub priority: u8,
    /// SQL for when number `n` is due.
    pub due: &'a str,
}

/// When jobs are due that may run at once: in the order of their numbers.
pub const LONG_DUE: &str = "UTC_TIMESTAMP(6) - INTERVAL (4000000 - n) SECOND";
/// Far from due.
pub const DELAYED: &str = "UTC_TIMESTAMP(6) + INTERVAL 20 HOUR + INTERVAL n SECOND";

/// Adds jobs that wait.
pub async fn queued(schema: &Schema, jobs: &Queued<'_>) -> Result<()> {
    let Queued { first, count, lane, priority, due } = jobs;
    let held = if *due == LONG_DUE { "NULL" } else { "'schedule'" };
    let (job, prompt) = (id(1, "n"), id(2, "n"));
    parts(schema, *first, *count, |from| {
        format!(
            "INSERT INTO sa_job (id, prompt_id, state, priority, lane, scheduled_for, held_reason, org_id, created_by,
                                 created_at, updated_at)
             SELECT {job}, {prompt}, 'queued', {priority}, {lane}, {due}, {held}, 1, 1 + n MOD 50, {LONG_DUE}, {LONG_DUE}
               {from}"
        )
    })
    .await
}

/// Adds jobs that have ended.
pub async fn ended(schema: &Schema, first: u64, count: u64, lane: &str) -> Result<()> {
    let (job, prompt, response) = (id(1, "n"), id(2, "n"), id(3, "n"));
    parts(schema, first, count, |from| {
        format!(
            "INSERT INTO sa_job (id, prompt_id, state, priority, lane, scheduled_for, response_id, finished_at, org_id,
                                 created_by, created_at, updated_at)
             SELECT {job}, {prompt}, 'succeeded', 10, {lane}, {LONG_DUE}, {response}, {LONG_DUE}, 1, 1 + n MOD 50,
                    {LONG_DUE}, {LONG_DUE} {from}"
        )
    })
    .await
}

/// Adds the prompts of the first jobs, of 1,000 letters each.
pub async fn prompts(schema: &Schema, count: u64) -> Result<()> {
    let prompt = id(2, "n");
    parts(schema, 0, count, |from| {
        format!(
            "INSERT INTO sa_entity (id, kind, org_id, created_by, correlation_id, truth_class, state_class, content,
                                    created_at)
             SELECT {prompt}, 'prompt', 1, 1 + n MOD 50, {prompt}, 'authored', 'settled', REPEAT('p', 1000), {LONG_DUE}
               {from}"
        )
    })
    .await
}

/// Two statements at a time: a server uses one processor for each.
async fn parts(schema: &Schema, first: u64, count: u64, statement: impl Fn(&str) -> String) -> Result<()> {
    let part = PART.min(count.div_ceil(2)).max(1);
    let from = |done: u64| {
        let (start, most) = (first + done, part.min(count - done));
        statement(&format!("FROM (SELECT n + {start} AS n FROM numbers WHERE n < {most}) k"))
    };
    let mut done = 0;
    while done < count {
        let other = done + part;
        if other < count {
            tokio::try_join!(schema.run(from(done)), schema.run(from(other)))?;
        } else {
            schema.run(from(done)).await?;
        }
        done = other + part;
    }
    Ok(())
}

/// Tells the engine what it now holds, and waits until it has tidied up.
pub async fn done(schema: &Schema) -> Result<()> {
    schema.run("ANALYZE TABLE sa_job").await?;
    schema.settle().await
}
