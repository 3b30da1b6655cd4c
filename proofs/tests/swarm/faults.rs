//! Rows that are as they should be, and one statement each that breaks them.

/// Takes away the guards of the database itself, which would refuse most of the faults, and the short ids of these rows.
pub const UNGUARD: &[&str] = &[
    "ALTER TABLE sa_job DROP CONSTRAINT job_state, DROP CONSTRAINT job_running, DROP CONSTRAINT job_queued,
         DROP CONSTRAINT job_ended, DROP CONSTRAINT job_succeeded, DROP CONSTRAINT job_failed,
         DROP CONSTRAINT job_response, DROP CONSTRAINT job_attempts, DROP CONSTRAINT job_ids",
    "ALTER TABLE sa_entity DROP CONSTRAINT entity_ids",
    "ALTER TABLE sa_job DROP INDEX uq_in_flight, DROP INDEX uq_supersedes",
];

/// `a` was superseded by `b`, which succeeded; `c` is queued after a crash, `d` runs, `e` failed, `f` was cancelled and
/// left a partial.
pub const GOOD_LIFE: &[&str] = &[
    "DELETE FROM sa_job_event",
    "DELETE FROM sa_ledger",
    "DELETE FROM sa_audit",
    "DELETE FROM sa_entity",
    "DELETE FROM sa_job",
    "INSERT INTO sa_job (id, prompt_id, state, attempt, worker_claim, claimed_at, started_at, running_heartbeat_at,
                         finished_at, response_id, error_kind, supersedes, revision, org_id, created_by, created_at)
     VALUES ('a', 'p', 'superseded', 1, 'w.1', '2030-01-01 00:01', '2030-01-01 00:01', '2030-01-01 00:01',
             '2030-01-01 00:02', 'ra', NULL, NULL, 4, 1, 1, '2030-01-01 00:00'),
            ('b', 'p', 'succeeded', 1, 'w.2', '2030-01-01 00:04', '2030-01-01 00:04', '2030-01-01 00:04',
             '2030-01-01 00:05', 'rb', NULL, 'a', 7, 1, 1, '2030-01-01 00:03'),
            ('c', 'q', 'queued', 2, NULL, NULL, NULL, NULL, NULL, NULL, 'worker_crash', NULL, 3, 1, 1, '2030-01-01 00:00'),
            ('d', 'r', 'running', 1, 'w.4', '2030-01-01 00:01', '2030-01-01 00:01', '2030-01-01 00:01',
             NULL, NULL, NULL, NULL, 2, 1, 1, '2030-01-01 00:00'),
            ('e', 's', 'failed', 1, 'w.5', '2030-01-01 00:01', '2030-01-01 00:01', '2030-01-01 00:01',
             '2030-01-01 00:02', NULL, 'auth', NULL, 3, 1, 1, '2030-01-01 00:00'),
            ('f', 't', 'cancelled', 1, 'w.6', '2030-01-01 00:01', '2030-01-01 00:01', '2030-01-01 00:01',
             '2030-01-01 00:02', NULL, NULL, NULL, 3, 1, 1, '2030-01-01 00:00')",
    "INSERT INTO sa_entity (id, kind, job_id, parent_id, org_id, created_by, correlation_id, truth_class, state_class, content)
     VALUES ('ra', 'response', 'a', 'p', 1, 1, 'p', 'generated', 'settled', 'first'),
            ('rb', 'response', 'b', 'p', 1, 1, 'p', 'generated', 'truncated', 'second'),
            ('rf', 'response', 'f', 't', 1, 1, 't', 'generated', 'partial', 'third')",
    "INSERT INTO sa_ledger (id, job_id, prompt_id, org_id, attempt, claim, purpose, provider, model, total_ms, outcome)
     VALUES ('la', 'a', 'p', 1, 1, 'w.1', 'answer', 'fake', 'm', 1, 'succeeded'),
            ('lb', 'b', 'p', 1, 1, 'w.2', 'fallback', 'fake', 'm', 1, 'succeeded')",
    "INSERT INTO sa_audit (subject_kind, subject_id, job_id, actor, reason, org_id, created_by)
     VALUES ('entity', 'ra', 'a', 'worker:w', 'answered', 1, 1), ('entity', 'rb', 'b', 'worker:w', 'answered', 1, 1)",
    "INSERT INTO sa_job_event (job_id, prompt_id, org_id, created_by, from_state, to_state, attempt, revision, claim,
                               actor, reason, error_kind)
     VALUES ('a', 'p', 1, 1, NULL, 'queued', 1, 1, NULL, 'user:1', 'enqueue', NULL),
            ('a', 'p', 1, 1, 'queued', 'running', 1, 2, 'w.1', 'worker:w', 'claim', NULL),
            ('a', 'p', 1, 1, 'running', 'succeeded', 1, 3, 'w.1', 'worker:w', 'success', NULL),
            ('a', 'p', 1, 1, 'succeeded', 'superseded', 1, 4, NULL, 'user:1', 'supersede', NULL),
            ('b', 'p', 1, 1, NULL, 'queued', 1, 5, NULL, 'user:1', 'enqueue', NULL),
            ('b', 'p', 1, 1, 'queued', 'running', 1, 6, 'w.2', 'worker:w', 'claim', NULL),
            ('b', 'p', 1, 1, 'running', 'succeeded', 1, 7, 'w.2', 'worker:w', 'success', NULL),
            ('c', 'q', 1, 1, 'queued', 'running', 1, 2, 'w.3', 'worker:w', 'claim', NULL),
            ('c', 'q', 1, 1, 'running', 'queued', 2, 3, 'w.3', 'reaper:h', 'reclaim', 'worker_crash'),
            ('d', 'r', 1, 1, NULL, 'queued', 1, 1, NULL, 'user:1', 'enqueue', NULL),
            ('d', 'r', 1, 1, 'queued', 'running', 1, 2, 'w.4', 'worker:w', 'claim', NULL),
            ('e', 's', 1, 1, NULL, 'queued', 1, 1, NULL, 'user:1', 'enqueue', NULL),
            ('e', 's', 1, 1, 'queued', 'running', 1, 2, 'w.5', 'worker:w', 'claim', NULL),
            ('e', 's', 1, 1, 'running', 'failed', 1, 3, 'w.5', 'worker:w', 'failure', 'auth'),
            ('f', 't', 1, 1, NULL, 'queued', 1, 1, NULL, 'user:1', 'enqueue', NULL),
            ('f', 't', 1, 1, 'queued', 'running', 1, 2, 'w.6', 'worker:w', 'claim', NULL),
            ('f', 't', 1, 1, 'running', 'cancelled', 1, 3, 'w.6', 'user:1', 'cancel', NULL),
            ('f', 't', 1, 1, 'cancelled', 'cancelled', 1, 3, 'w.6', 'worker:w', 'partial', NULL)",
];

/// Each invariant's number with the statements that break it.
pub const ALL: &[(&str, &[&str])] = &[
    ("I01", &["UPDATE sa_job SET state = 'lost' WHERE id = 'e'", "UPDATE sa_job SET state = 'failed ' WHERE id = 'e'"]),
    (
        "I02",
        &[
            "UPDATE sa_job SET worker_claim = 'w.9' WHERE id = 'c'",
            "UPDATE sa_job SET started_at = created_at WHERE id = 'c'",
            "UPDATE sa_job SET finished_at = created_at WHERE id = 'c'",
        ],
    ),
    (
        "I03",
        &[
            "UPDATE sa_job SET worker_claim = NULL WHERE id = 'd'",
            "UPDATE sa_job SET running_heartbeat_at = NULL WHERE id = 'd'",
            "UPDATE sa_job SET finished_at = started_at WHERE id = 'd'",
        ],
    ),
    (
        "I04",
        &[
            "UPDATE sa_job SET finished_at = NULL WHERE id = 'e'",
            "UPDATE sa_job SET finished_at = started_at - INTERVAL 1 SECOND WHERE id = 'b'",
            "UPDATE sa_job SET claimed_at = created_at - INTERVAL 1 SECOND WHERE id = 'b'",
        ],
    ),
    (
        "I05",
        &[
            "DELETE FROM sa_entity WHERE id = 'rb'",
            "UPDATE sa_entity SET job_id = 'a' WHERE id = 'rb'",
            "UPDATE sa_entity SET state_class = 'partial' WHERE id = 'rb'",
            "UPDATE sa_entity SET state_class = 'settled' WHERE id = 'rf'",
        ],
    ),
    (
        "I06",
        &[
            "UPDATE sa_job SET error_kind = 'boredom' WHERE id = 'e'",
            "UPDATE sa_job SET error_kind = NULL WHERE id = 'e'",
            "UPDATE sa_job SET error_kind = 'timeout' WHERE id = 'b'",
        ],
    ),
    (
        "I07",
        &[
            "UPDATE sa_job SET attempt = 0 WHERE id = 'd'",
            "UPDATE sa_job SET attempt = 4 WHERE id = 'd'",
            "UPDATE sa_job SET max_attempts = 21 WHERE id = 'd'",
        ],
    ),
    (
        "I08",
        &[
            "UPDATE sa_entity SET job_id = 'nobody' WHERE id = 'rf'",
            "UPDATE sa_entity SET job_id = 'b' WHERE id = 'ra'",
        ],
    ),
    ("I09", &["UPDATE sa_job SET prompt_id = 'q' WHERE id = 'd'"]),
    (
        "I10",
        &[
            "UPDATE sa_job SET state = 'succeeded' WHERE id = 'a'",
            "UPDATE sa_job SET supersedes = NULL WHERE id = 'b'",
            "UPDATE sa_job SET supersedes = 'a' WHERE id = 'e'",
            "UPDATE sa_job SET org_id = 2 WHERE id = 'b'",
            "UPDATE sa_job SET created_at = '2029-01-01' WHERE id = 'b'",
            "UPDATE sa_job SET revision = 4 WHERE id = 'b'",
        ],
    ),
    (
        "I11",
        &[
            "DELETE FROM sa_job_event WHERE job_id = 'b' AND reason = 'claim'",
            "DELETE FROM sa_job_event WHERE job_id = 'b' AND reason = 'success'",
            "DELETE FROM sa_job_event WHERE job_id = 'b'",
            "DELETE FROM sa_job_event WHERE job_id = 'f' AND reason IN ('enqueue', 'claim')",
        ],
    ),
    ("I12", &["UPDATE sa_job_event SET from_state = 'queued' WHERE job_id = 'b' AND reason = 'success'"]),
    (
        "I13",
        &[
            "UPDATE sa_job_event SET attempt = 2 WHERE job_id = 'b' AND reason = 'success'",
            "UPDATE sa_job_event SET attempt = 1 WHERE job_id = 'c' AND reason = 'reclaim'",
            "UPDATE sa_job_event SET reason = 'release', error_kind = NULL WHERE job_id = 'c' AND reason = 'reclaim'",
        ],
    ),
    (
        "I14",
        &[
            "UPDATE sa_job_event SET claim = NULL WHERE job_id = 'b' AND reason = 'claim'",
            "UPDATE sa_job_event SET reason = 'claim' WHERE job_id = 'b' AND reason = 'success'",
        ],
    ),
    ("I15", &["UPDATE sa_job_event SET claim = 'w.9' WHERE job_id = 'b' AND reason = 'success'"]),
    ("I16", &["UPDATE sa_job SET max_attempts = 0 WHERE id = 'b'"]),
    (
        "I18",
        &[
            "UPDATE sa_job_event SET reason = 'success' WHERE job_id = 'f' AND reason = 'partial'",
            "INSERT INTO sa_job_event (job_id, prompt_id, org_id, created_by, from_state, to_state, attempt, revision,
                                       actor, reason)
             VALUES ('f', 't', 1, 1, 'cancelled', 'cancelled', 1, 3, 'worker:w', 'partial')",
        ],
    ),
    (
        "I24",
        &[
            "DELETE FROM sa_ledger WHERE job_id = 'b'",
            "UPDATE sa_ledger SET outcome = 'discarded' WHERE job_id = 'b'",
            "DELETE FROM sa_audit WHERE subject_id = 'rb'",
        ],
    ),
];
