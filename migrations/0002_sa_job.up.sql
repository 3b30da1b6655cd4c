-- One row is one execution record of a prompt. The column names are the specification's; a row inserted with those columns
-- alone is a good job. Ids, state, claim and kinds are ascii_bin: they compare byte for byte under any connection collation.

CREATE TABLE sa_job (
    id                   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- UUIDv7, so that inserts append
    prompt_id            CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    state                VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'queued',
        -- queued | running | succeeded | failed | cancelled | superseded
    priority             TINYINT UNSIGNED NOT NULL DEFAULT 50,
        -- 0 to 100, lower is sooner: 0-10 urgent, 20-40 normal, 50 default, 60-90 bulk, 100 lowest
    lane                 VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
        -- the provider this job waits for; '' in rows of plain SQL: the claiming worker resolves it
    scheduled_for        DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
        -- earliest instant a claim may take it: carries backoff and scheduled prompts, so created_at stays true history
    attempt              SMALLINT UNSIGNED NOT NULL DEFAULT 1,
        -- number of the current or next run
    max_attempts         SMALLINT UNSIGNED NOT NULL DEFAULT 3,
    releases             TINYINT UNSIGNED NOT NULL DEFAULT 0,
        -- how often a run was given back without spending an attempt; bounded, or a job could run for ever
    held_reason          VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- why a queued job waits although nothing claims it: gate | backoff | schedule
    held_since           DATETIME(6) NULL,
        -- first release by a gate: a day later the next 429 fails the job
    execution_options    LONGTEXT NOT NULL DEFAULT ('{}'),
        -- JSON {model?, prefer_provider?, depth?, router_model?}. No validity check: bad options fail their job, not the insert
    worker_claim         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- <worker uuid>.<counter>, fresh for every claim statement and never reused: the fence of every write of a run
    claimed_at           DATETIME(6) NULL,
    started_at           DATETIME(6) NULL,
        -- set anew by each claim: the 15-minute ceiling counts from here
    running_heartbeat_at DATETIME(6) NULL,
        -- moved by each beat, which leaves updated_at alone: followers must not be flooded
    finished_at          DATETIME(6) NULL,
    response_id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- the answer; set on succeeded and kept when superseded
    error_kind           VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
    error_message        TEXT NULL,
        -- why the last run did not succeed, at most 8 KiB
    supersedes           CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- the job this one retries
    revision             INT UNSIGNED NOT NULL DEFAULT 1,
        -- rises at each change a viewer may see and runs on through the chain: clients merge only a higher one
    org_id               BIGINT UNSIGNED NOT NULL,
    created_by           BIGINT UNSIGNED NOT NULL,
    created_at           DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    updated_at           DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
        -- moves exactly when revision does; written in SQL, since an ON UPDATE clause would follow the session's time zone
    in_flight            TINYINT UNSIGNED GENERATED ALWAYS AS (CASE WHEN state IN ('queued', 'running') THEN 1 END) VIRTUAL,
        -- 1 while the job may still run, else NULL: carries uq_in_flight
    live_org             BIGINT UNSIGNED GENERATED ALWAYS AS (CASE WHEN state IN ('queued', 'running') THEN org_id END) VIRTUAL,
        -- org_id while the job may still run, else NULL: carries idx_live

    PRIMARY KEY (id),
    KEY idx_claim (lane, state, priority, scheduled_for),
        -- the claim: heads of the open lanes, level by level; a closed lane or a delayed level costs nothing
    UNIQUE KEY uq_in_flight (prompt_id, in_flight),
        -- at most one live job per prompt; leads with prompt_id, so it also serves a prompt's history
    UNIQUE KEY uq_supersedes (supersedes),
        -- at most one successor: of two retries at once one wins
    KEY idx_viewer (org_id, created_by, updated_at),
        -- a viewer's recent changes
    KEY idx_live (live_org, created_by),
        -- how many jobs a viewer has in flight
    KEY idx_state (state, finished_at),
        -- the reaper's running rows, lists by state, archiving by end; not led by the beat, which would rewrite it every 30 s
    CONSTRAINT job_ids CHECK (id REGEXP '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
        AND prompt_id REGEXP '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'),
        -- any other spelling would be a row that no worker can name: it could not be claimed, and might stop those that can
    CONSTRAINT job_state CHECK (state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'superseded')
        AND state NOT LIKE '% '),
        -- NOT LIKE: 'queued ' equals 'queued' in SQL and is another string everywhere else
    CONSTRAINT job_running CHECK (state <> 'running' OR (worker_claim IS NOT NULL AND claimed_at IS NOT NULL
        AND started_at IS NOT NULL AND running_heartbeat_at IS NOT NULL AND finished_at IS NULL)),
    CONSTRAINT job_queued CHECK (state <> 'queued' OR (worker_claim IS NULL AND claimed_at IS NULL
        AND started_at IS NULL AND running_heartbeat_at IS NULL AND finished_at IS NULL)),
    CONSTRAINT job_ended CHECK (state IN ('queued', 'running') OR finished_at IS NOT NULL),
    CONSTRAINT job_succeeded CHECK (state <> 'succeeded' OR (response_id IS NOT NULL AND error_kind IS NULL)),
    CONSTRAINT job_failed CHECK (state <> 'failed' OR error_kind IS NOT NULL),
    CONSTRAINT job_cancelled CHECK (state <> 'cancelled' OR error_kind IS NULL),
    CONSTRAINT job_response CHECK (response_id IS NULL OR state IN ('succeeded', 'superseded')),
    CONSTRAINT job_held CHECK (held_reason IS NULL OR held_reason IN ('gate', 'backoff', 'schedule')),
    CONSTRAINT job_priority CHECK (priority <= 100),
    CONSTRAINT job_attempts CHECK (attempt >= 1 AND attempt <= max_attempts AND max_attempts <= 20)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE sa_job_event (
    seq           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
        -- becomes visible out of order: readers keep the gaps in mind (repo::changes)
    job_id        CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    prompt_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    org_id        BIGINT UNSIGNED NOT NULL,
    created_by    BIGINT UNSIGNED NOT NULL,
        -- the viewer, so that a replay needs no join
    from_state    VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- NULL at enqueue; equal to to_state for a note
    to_state      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    attempt       SMALLINT UNSIGNED NOT NULL,
    revision      INT UNSIGNED NOT NULL,
    claim         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- whose run it was; also how a worker finds out whether a commit it got no answer to took place
    actor         VARCHAR(96) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- who: user:N, worker:UUID, reaper:HOST, operator:NAME
    reason        VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- enqueue | claim | success | failure | transient | release | gate | reclaim | cancel | supersede
        -- | brought_forward | partial | promote | verdict
    error_kind    VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
    error_message TEXT NULL,
    at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),

    PRIMARY KEY (seq),
    KEY idx_event_job (job_id, seq),
        -- one job's history
    KEY idx_event_viewer (org_id, created_by, seq),
        -- a follower that comes back
    CONSTRAINT event_reason CHECK (reason IN ('enqueue', 'claim', 'success', 'failure', 'transient', 'release', 'gate',
        'reclaim', 'cancel', 'supersede', 'brought_forward', 'partial', 'promote', 'verdict'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE sa_ledger (
    id                  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- UUIDv7 minted before the call: a repeated write collides
    job_id              CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    prompt_id           CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    org_id              BIGINT UNSIGNED NOT NULL,
    attempt             SMALLINT UNSIGNED NOT NULL,
    claim               VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    purpose             VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- answer | router | fallback
    provider            VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    model               VARCHAR(128) NOT NULL,
    tokens_in           INT UNSIGNED NULL,
    tokens_cached       INT UNSIGNED NULL,
    tokens_out          INT UNSIGNED NULL,
    tokens_reasoning    INT UNSIGNED NULL,
        -- as the provider counted; NULL where it did not say
    cost_micro_usd      BIGINT UNSIGNED NULL,
        -- by the prices of the configuration; NULL where it has none
    first_token_ms      INT UNSIGNED NULL,
    total_ms            INT UNSIGNED NOT NULL,
    outcome             VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- succeeded | failed | cancelled | discarded (the claim was lost) | maybe_charged (cut off after it began)
    error_kind          VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
    provider_request_id VARCHAR(255) NULL,
        -- the provider's own name for the call, for its support desk
    response_id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
    at                  DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),

    PRIMARY KEY (id),
    KEY idx_ledger_job (job_id),
        -- what one job cost
    KEY idx_ledger_org (org_id, at),
        -- what an organisation spent in a span of time
    CONSTRAINT ledger_purpose CHECK (purpose IN ('answer', 'router', 'fallback')),
    CONSTRAINT ledger_outcome CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'discarded', 'maybe_charged'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
