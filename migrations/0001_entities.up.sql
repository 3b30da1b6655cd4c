-- What people and models wrote, and how those writings hang together. Rows of these tables never change.
-- Ids, kinds and classes are ascii_bin: they compare byte for byte, and an index on them serves any connection collation.

CREATE TABLE sa_entity (
    id             CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- a prompt: UUIDv7, so inserts append; a response: UUIDv5 of its prompt and job, so one job can have one answer
    kind           VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- prompt | response
    job_id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- the job that wrote a response; NULL for a prompt, which may have many jobs
    org_id         BIGINT UNSIGNED NOT NULL,
    created_by     BIGINT UNSIGNED NOT NULL,
        -- with org_id the viewer: every read is scoped by the two
    correlation_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- the thread; the id of its first prompt
    parent_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- what this continues: a response's prompt, a prompt's root; NULL for a first prompt
    causation_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- what made this be written; today always parent_id
    source_refs    LONGTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ('[]'),
        -- JSON list of the entity ids that were sent to the provider as context
    truth_class    VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- authored (by a person) | generated (by a model)
    state_class    VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- settled | truncated (the token budget ended it) | partial (text already paid for when the run was cancelled)
    provider       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- which configured provider answered; NULL for a prompt
    model          VARCHAR(128) NULL,
        -- the model's own name for itself, as the provider reported it
    content        LONGTEXT NOT NULL,
        -- the text, byte for byte
    created_at     DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),

    PRIMARY KEY (id),
    KEY idx_entity_thread (correlation_id, created_at),
        -- a whole thread in order
    KEY idx_entity_parent (parent_id, kind, created_at),
        -- a prompt's responses, the newest last, and the prompts that continue an entity
    CONSTRAINT entity_ids CHECK (id REGEXP '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'),
        -- one spelling of an id, or a reader could not name it
    CONSTRAINT entity_kind CHECK (kind IN ('prompt', 'response') AND kind NOT LIKE '% '),
    CONSTRAINT entity_truth CHECK (truth_class IN ('authored', 'generated')),
    CONSTRAINT entity_state CHECK (state_class IN ('settled', 'truncated', 'partial') AND state_class NOT LIKE '% '),
    CONSTRAINT entity_response CHECK (kind = 'prompt' OR (job_id IS NOT NULL AND parent_id IS NOT NULL))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE sa_edge (
    id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    kind       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- flows-to (prompt to response) | superseded-by (response to response) | promoted | verdict (both on a response)
    from_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    to_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- NULL for promoted and verdict, which speak of one response
    verdict    VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- good | bad; NULL withdraws an earlier one
    note       TEXT NULL,
        -- what the person who judged had to say, at most 2,000 characters
    org_id     BIGINT UNSIGNED NOT NULL,
    created_by BIGINT UNSIGNED NOT NULL,
    created_at DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),

    PRIMARY KEY (id),
    KEY idx_edge_from (from_id, kind, created_at),
        -- a response's latest verdict, promotion and successor
    KEY idx_edge_to (to_id),
        -- where an entity came from
    CONSTRAINT edge_kind CHECK (kind IN ('flows-to', 'superseded-by', 'promoted', 'verdict')),
    CONSTRAINT edge_ends CHECK ((kind IN ('flows-to', 'superseded-by')) = (to_id IS NOT NULL)),
    CONSTRAINT edge_verdict CHECK (verdict IS NULL OR (kind = 'verdict' AND verdict IN ('good', 'bad')))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE sa_audit (
    id           BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    subject_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- entity | edge
    subject_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    job_id       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- the job whose run wrote it, where a run did
    actor        VARCHAR(96) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- who: user:N, worker:UUID, operator:NAME
    reason       VARCHAR(64) NOT NULL,
        -- why, as a few words: submitted, answered, partial, superseded, …
    org_id       BIGINT UNSIGNED NOT NULL,
    created_by   BIGINT UNSIGNED NOT NULL,
    at           DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),

    PRIMARY KEY (id),
    KEY idx_audit_subject (subject_id),
        -- the record of one entity or edge
    CONSTRAINT audit_subject CHECK (subject_kind IN ('entity', 'edge'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;
