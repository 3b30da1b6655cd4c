//! What each statement of `.sqlx` may do: the key by which it reads each table, and how many rows.

use serde_json::{Value, json};

use super::crowd::{FIRST_ENDED, FIRST_QUEUED, LEVELS, RUNNING, TOKEN_HASH, WORKER};

/// The batch that statements over many are judged with.
pub const BATCH: u64 = 5;

/// A value bound to a statement.
#[derive(Clone, Debug)]
pub enum Bound {
    Text(String),
    Number(u64),
    /// Some months ago; the crowd changed within the last month.
    LongAgo,
    /// The instant at which some row of viewer 1 changed.
    AnInstant,
    Null,
}

/// What one statement may do.
#[derive(Debug)]
pub struct Guard {
    /// The verb named in the statement's first line.
    pub verb: &'static str,
    /// Words that only this statement of the verb holds.
    pub words: &'static str,
    /// `alias:key` of each table that is read; `*` where a table is so small that any way is good.
    pub reads: &'static str,
    pub binds: Vec<Bound>,
    /// Why it may sort; empty where it may not.
    pub may_sort: &'static str,
    /// The batch of the rule "rows read at most 2 × batch + 10".
    pub batch: u64,
}

const fn guard(verb: &'static str, words: &'static str, reads: &'static str, binds: Vec<Bound>) -> Guard {
    Guard { verb, words, reads, binds, may_sort: "", batch: BATCH }
}

impl Guard {
    fn sorting(self, because: &'static str) -> Self {
        Self { may_sort: because, ..self }
    }

    fn batch(self, batch: u64) -> Self {
        Self { batch, ..self }
    }

    /// An UPDATE that joins lists the rows it will change before it changes them, and on MariaDB that list is read too.
    fn twice(self) -> Self {
        Self { batch: 2 * self.batch, ..self }
    }
}

fn text(text: impl Into<String>) -> Bound {
    Bound::Text(text.into())
}

fn job(n: u64) -> Bound {
    text(id(1, n))
}

fn id(kind: u64, n: u64) -> String {
    format!("0193{kind:04}-0000-7000-8000-{n:012x}")
}

/// A batch of JSON objects that hold what any of the statements looks for.
fn rows(first: u64) -> Bound {
    let row = |n| {
        let lane = ["fake", "one", "two", "three"][usize::try_from(n % 4).unwrap()];
        json!({ "id": id(1, n), "job": id(1, n), "prompt": id(2, n), "claim": format!("{WORKER}.{n}"), "attempt": 1,
                "lane": lane, "response": id(3, n),
                "error": "unknown", "message": "m", "spends": 0, "releases": 1, "held": null, "gated": 0, "base_us": 0, "spread_us": 0,
                "to": "succeeded", "reason": "success" })
    };
    text((first..first + BATCH).map(row).collect::<Value>().to_string())
}

/// A batch of jobs that are not there yet.
fn fresh() -> Bound {
    let row = |n| {
        json!({ "id": id(9, n), "prompt": id(9, n), "priority": 50, "lane": "fake", "max_attempts": 3, "options": "{}",
                "org": 1, "user": 1 })
    };
    text((0..BATCH).map(row).collect::<Value>().to_string())
}

fn ids(kind: u64, first: u64) -> Bound {
    text((first..first + BATCH).map(|n| id(kind, n)).collect::<Value>().to_string())
}

fn seqs() -> Bound {
    text((1..=BATCH).collect::<Value>().to_string())
}

fn viewer(more: &[Bound]) -> Vec<Bound> {
    [&[Bound::Number(1), Bound::Number(1)], more].concat()
}

/// The statements of the whole repository.
pub fn all() -> Vec<Guard> {
    [claim(), finalize(), intake(), acts(), reads(), processes(), gates()].into_iter().flatten().collect()
}

/// The read of one level's next rows: what a claim's cost hangs on.
pub fn level_read() -> Guard {
    let binds = vec![text("fake"), Bound::Number(50), Bound::LongAgo, Bound::Number(BATCH)];
    guard("claim", "scheduled_for >= ?", "sa_job:idx_claim", binds)
}

/// The fence of a finalize.
pub fn fence() -> Guard {
    guard("finalize", "SELECT j.id", "j:PRIMARY", vec![rows(0), text("running")])
}

fn claim() -> Vec<Guard> {
    let due = || rows(FIRST_QUEUED);
    vec![
        level_read(),
        guard("claim", "GROUP BY lane, state, priority", "sa_job:idx_claim", vec![]).batch(2 * LEVELS),
        guard("claim", "FOR UPDATE SKIP LOCKED", "j:PRIMARY", vec![due(), text("queued"), Bound::Number(BATCH)]),
        guard("claim", "UPDATE JSON_TABLE", "j:PRIMARY", vec![due(), text("running"), text("x.1"), text("queued")])
            .twice(),
        guard("claim", "AS \"sought!: ClaimId\"", "j:PRIMARY", vec![rows(0)]),
        guard("claim", "SELECT state AS \"state: State\" FROM sa_job WHERE id = ?", "sa_job:PRIMARY", vec![job(1)]),
        guard("claim", "execution_options AS options FROM sa_job WHERE id", "sa_job:PRIMARY", vec![job(1)]),
        guard("heartbeat", "UPDATE JSON_TABLE", "j:PRIMARY", vec![rows(0), text("running")]).twice(),
        guard("heartbeat", "SELECT j.id", "j:PRIMARY", vec![rows(0), text("running")]),
    ]
}

fn finalize() -> Vec<Guard> {
    let running = |to: &str| vec![rows(0), text(to), text("running")];
    vec![
        fence(),
        guard("finalize", "SET j.state = ?, j.response_id", "j:PRIMARY", running("succeeded")).twice(),
        guard("finalize", "SET j.state = ?, j.error_kind", "j:PRIMARY", running("failed")).twice(),
        guard("finalize", "SET j.state = ?, j.attempt", "j:PRIMARY", running("queued")).twice(),
        guard("finalize", "SELECT e.job_id", "e:idx_event_job", vec![rows(FIRST_ENDED)]),
        guard("finalize", "e.correlation_id AS \"thread", "e:PRIMARY", vec![ids(2, 0)]),
        guard("finalize", "SELECT state AS \"state: State\", worker_claim", "sa_job:PRIMARY", vec![job(1)]),
        guard("finalize", "SELECT state AS \"state: State\" FROM", "sa_job:PRIMARY", vec![job(1)]),
    ]
}

/// What is written beside a job.
fn intake() -> Vec<Guard> {
    let event = vec![text("queued"), text("running"), text("user:1"), text("claim"), rows(0)];
    let mut all = vec![
        guard("enqueue", "INSERT INTO sa_job", "", vec![text("queued"), fresh()]),
        guard("enqueue", "SELECT COUNT(*)", "j:PRIMARY", vec![ids(1, 0)]),
        guard("enqueue", "SELECT e.id", "e:PRIMARY", vec![ids(2, 0)]),
        guard("event", "INSERT INTO sa_job_event", "j:PRIMARY", event),
    ];
    for shape in [1, 4, 16] {
        let many = |row: fn(u64) -> Vec<Bound>| (0..shape).flat_map(row).collect();
        all.extend([
            guard("children", "INSERT INTO sa_entity", "", many(entity)),
            guard("children", "INSERT INTO sa_edge", "", many(edge)),
            guard("children", "INSERT INTO sa_audit", "", many(audit)),
            guard("children", "INSERT INTO sa_ledger", "", many(ledger)),
        ]);
    }
    all
}

fn entity(n: u64) -> Vec<Bound> {
    let ids = [text(id(9, n)), text("prompt"), Bound::Null, Bound::Number(1), Bound::Number(1), text(id(9, n))];
    let rest = [Bound::Null, Bound::Null, text("[]"), text("authored"), text("settled"), Bound::Null, Bound::Null];
    [&ids[..], &rest, &[text("hello")]].concat()
}

fn edge(n: u64) -> Vec<Bound> {
    let (from, to) = (text(id(9, n)), text(id(9, n)));
    vec![text(id(9, n)), text("flows-to"), from, to, Bound::Number(1), Bound::Number(1)]
}

fn audit(n: u64) -> Vec<Bound> {
    let (subject, job) = (text(id(9, n)), text(id(9, n)));
    vec![text("entity"), subject, job, text("user:1"), text("answered"), Bound::Number(1), Bound::Number(1)]
}

fn ledger(n: u64) -> Vec<Bound> {
    let ids = || text(id(9, n));
    let whose = [ids(), ids(), ids(), Bound::Number(1), Bound::Number(1), text("x.1"), text("answer"), text("fake")];
    let numbers = [1, 2, 3, 4, 5, 6, 7].map(Bound::Number);
    [&whose[..], &[text("m")], &numbers, &[text("succeeded"), Bound::Null, Bound::Null, Bound::Null]].concat()
}

/// Reclaim, cancel and supersede: one job each.
fn acts() -> Vec<Guard> {
    let stale = 225_000_000;
    let silent = vec![Bound::Number(stale), text("running"), Bound::Number(stale), text("a machine")];
    let mut taken = vec![text("failed"), text("stuck"), text("gone"), job(1), text("running")];
    taken.extend([text(format!("{WORKER}.1")), Bound::Number(1), Bound::AnInstant]);
    let requeued = [vec![text("queued")], taken[1..].to_vec()].concat();
    let mut successor = vec![text(id(9, 0)), text("queued"), Bound::Null, text("fake"), Bound::Null, text("{}")];
    successor.extend([Bound::Null, job(FIRST_ENDED)]);
    let ended = || job(FIRST_ENDED);
    vec![
        // All that runs is looked at, and nothing else.
        guard("reclaim", "SELECT j.id", "j:idx_state p:PRIMARY", silent).batch(RUNNING),
        guard("reclaim", "FOR UPDATE SKIP LOCKED", "sa_job:PRIMARY", vec![job(1)]),
        guard("reclaim", "attempt = attempt + 1", "sa_job:PRIMARY", requeued),
        guard("reclaim", "finished_at = UTC", "sa_job:PRIMARY", taken),
        guard("cancel", "FROM sa_job WHERE id = ? FOR UPDATE", "sa_job:PRIMARY", vec![job(1)]),
        guard("cancel", "UPDATE sa_job", "sa_job:PRIMARY", vec![text("cancelled"), job(FIRST_QUEUED), text("queued")]),
        guard("cancel", "FROM sa_job_event", "sa_job_event:idx_event_job", vec![ended()]),
        guard("supersede", "FROM sa_job_event", "sa_job_event:idx_event_job", vec![ended()]),
        guard("supersede", "SELECT prompt_id AS \"prompt: PromptId\" FROM", "sa_job:PRIMARY", vec![ended()]),
        guard("supersede", "WHERE id = ? FOR UPDATE", "sa_job:PRIMARY", vec![ended()]),
        guard("supersede", "SET state = ?", "sa_job:PRIMARY", vec![text("superseded"), ended(), text("succeeded")]),
        guard("supersede", "SET scheduled_for", "sa_job:PRIMARY", vec![job(FIRST_QUEUED), text("queued")]),
        guard("supersede", "SELECT scheduled_for", "sa_job:PRIMARY", vec![ended()]),
        guard("supersede", "WHERE supersedes = ?", "sa_job:uq_supersedes", vec![job(FIRST_ENDED + 5_000_006)]),
        guard("supersede", "INSERT INTO sa_job", "old:PRIMARY", successor),
    ]
}

/// What clients and followers read.
fn reads() -> Vec<Guard> {
    let few = "the ids of one page, from JSON";
    vec![
        guard("recent", "ORDER BY updated_at DESC", "sa_job:idx_viewer", viewer(&[Bound::Number(50)])).batch(50),
        guard("recent", "updated_at > ?", "sa_job:idx_viewer", viewer(&[Bound::LongAgo, Bound::Number(BATCH)])),
        guard("recent", "updated_at = ?", "sa_job:idx_viewer", viewer(&[Bound::AnInstant])),
        guard("recent", "WHERE prompt_id = ?", "sa_job:uq_in_flight", [vec![text(id(2, 1))], viewer(&[])].concat()),
        guard("recent", "AS \"last_event_id!: u64\"", "e:PRIMARY", vec![]),
        guard("recent", "SELECT p.id", "j:PRIMARY p:PRIMARY", vec![ids(1, 0)]),
        guard("recent", "SELECT e.from_id", "e:idx_edge_from", vec![ids(3, FIRST_ENDED)]).sorting(few),
        guard("recent", "SELECT e.id", "e:PRIMARY", vec![ids(3, FIRST_ENDED)]),
        guard("thread", "WITH RECURSIVE", "e:PRIMARY e:PRIMARY", vec![text(id(3, FIRST_ENDED)), Bound::Number(20)])
            .sorting("the turns of one thread, at most 101"),
        guard("thread", "e.parent_id = s.id", "e:idx_entity_parent", vec![ids(2, FIRST_ENDED)]),
        guard("thread", "SELECT e.id AS \"id: EntityId\", e.content", "e:PRIMARY", vec![ids(2, 0)]),
        guard("changes", "COALESCE(MAX(seq)", "", vec![]),
        guard("changes", "WHERE seq > ?", "sa_job_event:PRIMARY", vec![Bound::Number(1_000), Bound::Number(BATCH)]),
        guard("changes", "STRAIGHT_JOIN", "e:PRIMARY", vec![seqs()]).sorting("the numbers asked for, from JSON"),
    ]
}

/// Processes and tokens: small tables, and only the token is looked up by every request.
fn processes() -> Vec<Guard> {
    let own = || text(WORKER);
    let mut pulse = vec![own(), text("worker"), text("h"), Bound::Null, Bound::Null, Bound::Number(1), Bound::Null];
    pulse.extend([Bound::Null, text("0"), text("[]"), Bound::Number(0), Bound::Number(1), Bound::Number(4)]);
    let token = vec![text(id(9, 0)), text("f".repeat(64)), text("viewer"), Bound::Number(1), Bound::Number(1)];
    // A week of pulses, read once a minute by the reaper alone.
    let week = 5_000;
    vec![
        guard("pulse", "DELETE FROM sa_pulse", "sa_pulse:*", vec![text("worker")]).batch(week),
        guard("pulse", "SET ended_at", "sa_pulse:PRIMARY", vec![own()]),
        guard("pulse", "SET resumed_at", "sa_pulse:PRIMARY", vec![own()]),
        guard("pulse", "FORCE INDEX (uq_pulse_slot)", "sa_pulse:uq_pulse_slot", vec![Bound::Number(2)]),
        guard("pulse", "SET slot = NULL WHERE", "sa_pulse:*", vec![own(), Bound::Number(1), Bound::AnInstant]),
        guard("pulse", "SET slot = ?", "sa_pulse:PRIMARY", vec![Bound::Number(1), own()]),
        guard("pulse", "INSERT INTO sa_pulse", "", pulse),
        guard("pulse", "MAX(seen_at)", "", vec![text("worker")]),
        guard("pulse", "MAX(w.beat_ms)", "r:PRIMARY w:*", vec![text("worker"), own()]).batch(week),
        guard("schema", "FROM sa_schema", "sa_schema:PRIMARY", vec![]),
        guard("now", "SELECT UTC_TIMESTAMP(6)", "", vec![]),
        guard("token", "WHERE token_hash = ?", "sa_token:uq_token_hash", vec![text(TOKEN_HASH)]),
        guard("token", "UPDATE sa_token", "sa_token:PRIMARY", vec![text(id(5, 1))]),
        guard("token", "INSERT INTO sa_token", "", token),
    ]
}

/// Gates: a row a provider.
fn gates() -> Vec<Guard> {
    let lane = || text("fake");
    let trial = || vec![lane(), text(format!("{WORKER}.1"))];
    let wait = Bound::Number(60_000_000);
    let closing = vec![wait.clone(), text("quota"), wait.clone(), wait.clone(), Bound::Number(0), wait, lane()];
    vec![
        guard("gate", "closures,", "sa_provider_gate:*", vec![]),
        guard("gate", "SELECT errors_in_row", "", vec![lane()]),
        guard("gate", "INSERT IGNORE", "", vec![lane()]),
        guard(
            "gate",
            "SET trial_claim = ?",
            "sa_provider_gate:*",
            vec![text("w.1"), lane(), Bound::Number(200_000_000)],
        ),
        guard("gate", "SET trial_claim = NULL", "sa_provider_gate:*", trial()),
        guard("gate", "errors_in_row > 0)", "sa_provider_gate:*", trial()),
        guard("gate", "SET errors_in_row = errors_in_row + 1", "sa_provider_gate:*", vec![lane()]),
        guard("gate", "SET reason = IF", "sa_provider_gate:*", closing),
        guard("gate", "AND closed_until IS NOT NULL", "sa_provider_gate:*", vec![lane()]),
    ]
}
