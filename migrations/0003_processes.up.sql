-- Signs of life, closed lanes, and the two facts a daemon asks before it starts.

CREATE TABLE sa_pulse (
    id             CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- a worker's uuid, the first part of its claims; the nil UUID in the one row of the reaper's last run
    role           VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
        -- worker | reaper
    host           VARCHAR(255) NOT NULL,
    machine_id     VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
    boot_id        VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
    pid            INT UNSIGNED NOT NULL,
    pid_namespace  BIGINT UNSIGNED NULL,
    start_time     BIGINT UNSIGNED NULL,
        -- in clock ticks since boot, as /proc says: with pid, boot and namespace it names one process for good
    version        VARCHAR(32) NOT NULL,
    lanes          TEXT NOT NULL,
        -- JSON list of the lanes this worker serves, to say of a waiting job that nobody does
    in_flight      INT UNSIGNED NOT NULL DEFAULT 0,
    beat_ms        INT UNSIGNED NOT NULL,
    stale_ms       INT UNSIGNED NOT NULL,
        -- what the worker was told; the reaper uses the larger of its own limit and this one
    slot           TINYINT UNSIGNED NULL,
        -- which of the one-shot places it holds
    started_at     DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
    seen_at        DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
        -- moved at each beat
    ended_at       DATETIME(6) NULL,
        -- a clean end; without it the process died or still runs
    resumed_at     DATETIME(6) NULL,
        -- reaper only: when it came back after an outage in which nobody could beat

    PRIMARY KEY (id),
    UNIQUE KEY uq_pulse_slot (slot),
        -- a one-shot place is held by one process
    KEY idx_pulse_role (role, seen_at),
        -- which workers live, which rows may go
    CONSTRAINT pulse_role CHECK (role IN ('worker', 'reaper'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE sa_provider_gate (
    lane          VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    closed_until  DATETIME(6) NULL,
        -- claims skip the lane until then; NULL is open
    reason        VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- the error kind that closed it
    closures      INT UNSIGNED NOT NULL DEFAULT 0,
        -- in a row: the wait doubles with it
    errors_in_row INT UNSIGNED NOT NULL DEFAULT 0,
        -- provider_5xx since the last success
    trial_claim   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NULL,
        -- the one run that may find out whether the lane works again
    trial_at      DATETIME(6) NULL,
    updated_at    DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),

    PRIMARY KEY (lane)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

CREATE TABLE sa_schema (
    id                    TINYINT UNSIGNED NOT NULL DEFAULT 1,
        -- there is one row
    version               INT UNSIGNED NOT NULL,
        -- the newest migration; a binary made for a later one refuses to start
    oldest_binary_version INT UNSIGNED NOT NULL,
        -- binaries made for an earlier one refuse to start; those between run side by side through an upgrade
    updated_at            DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),

    PRIMARY KEY (id),
    CONSTRAINT schema_one_row CHECK (id = 1)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4;

INSERT INTO sa_schema (id, version, oldest_binary_version) VALUES (1, 3, 3);
