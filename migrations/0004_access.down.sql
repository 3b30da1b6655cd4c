DROP TABLE sa_idempotency;
DROP TABLE sa_token;
UPDATE sa_schema SET version = 3, oldest_binary_version = 3, updated_at = UTC_TIMESTAMP(6) WHERE id = 1;
