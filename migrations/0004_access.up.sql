-- Who may call, and which calls were already answered.

CREATE TABLE sa_token (
    id           CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- names the token in lists and when it is revoked; no secret
    token_hash   CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- SHA-256 in hex: a copy of the database holds no usable token
    kind         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- token | session (12 h, behind a cookie)
    parent       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- the token a session was opened with
    role         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- viewer | operator | gateway
    org_id       BIGINT UNSIGNED NOT NULL,
    user_id      BIGINT UNSIGNED NOT NULL,
    created_at   DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    expires_at   DATETIME(6) NULL,
    last_used_at DATETIME(6) NULL,
        -- to the minute, so that reading does not become writing
    revoked_at   DATETIME(6) NULL,

    PRIMARY KEY (id),
    UNIQUE KEY uq_token_hash (token_hash),
        -- one look-up a request
    KEY idx_token_owner (org_id, user_id),
        -- a user's tokens
    CONSTRAINT token_kind CHECK (kind IN ('token', 'session')),
    CONSTRAINT token_role CHECK (role IN ('viewer', 'operator', 'gateway'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE sa_idempotency (
    org_id       BIGINT UNSIGNED NOT NULL,
    created_by   BIGINT UNSIGNED NOT NULL,
    idem_key     VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- the caller's Idempotency-Key
    request_hash CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- SHA-256 of the request in canonical JSON: the same key with another request is refused
    prompt_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    job_id       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- what the first call was answered
    created_at   DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),

    PRIMARY KEY (org_id, created_by, idem_key),
        -- inserted in the enqueue transaction: a twin waits on this key
    KEY idx_idempotency_age (created_at)
        -- rows go after 24 h
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

UPDATE sa_schema SET version = 4, oldest_binary_version = 4, updated_at = UTC_TIMESTAMP(6) WHERE id = 1;
