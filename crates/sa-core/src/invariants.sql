-- What must hold of the rows whatever happened. Each query answers the ids that break it, so it must answer none.
-- Asked of the databases that repository tests and proofs leave behind, and by `sa-cli check --invariants` of a live one.
-- A query begins with a comment that names it and ends with a semicolon at the end of a line. What only a log of calls,
-- clients or followers can tell is left to the proofs.

-- I01 a state is one of six
SELECT id FROM sa_job
  WHERE state NOT IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'superseded') OR state LIKE '% ';

-- I02 a queued job has no claim, times, end or response
SELECT id FROM sa_job
  WHERE state = 'queued'
    AND COALESCE(worker_claim, claimed_at, started_at, running_heartbeat_at, finished_at, response_id) IS NOT NULL;

-- I03 a running job has claim and times, no end and no response
SELECT id FROM sa_job
  WHERE state = 'running'
    AND (worker_claim IS NULL OR claimed_at IS NULL OR started_at IS NULL OR running_heartbeat_at IS NULL
         OR finished_at IS NOT NULL OR response_id IS NOT NULL);

-- I04 an ended job has its times in order
SELECT id FROM sa_job
  WHERE state NOT IN ('queued', 'running')
    AND (finished_at IS NULL OR finished_at < started_at OR started_at < claimed_at OR claimed_at < created_at
         OR finished_at < created_at);

-- I05 a succeeded job has its settled response, a failed or cancelled one at most one partial
SELECT j.id
   FROM sa_job j
   LEFT JOIN sa_entity e ON e.id = j.response_id AND e.job_id = j.id AND e.parent_id = j.prompt_id
        AND e.kind = 'response' AND e.state_class IN ('settled', 'truncated')
  WHERE (j.state = 'succeeded' OR j.response_id IS NOT NULL) AND e.id IS NULL
 UNION ALL
 SELECT j.id
   FROM sa_job j JOIN sa_entity e ON e.parent_id = j.prompt_id AND e.kind = 'response' AND e.job_id = j.id
  WHERE j.response_id IS NULL
  GROUP BY j.id
 HAVING SUM(e.state_class <> 'partial') > 0 OR COUNT(*) > 1;

-- I06 a failed job has a known error kind, a succeeded one none
SELECT id FROM sa_job
  WHERE (state = 'failed' AND COALESCE(error_kind, '') NOT IN ('timeout', 'rate_limit', 'provider_5xx',
         'provider_4xx', 'parse', 'auth', 'worker_crash', 'stuck', 'unknown', 'migration', 'quota'))
     OR (state = 'succeeded' AND error_kind IS NOT NULL);

-- I07 attempts stay within their bounds
SELECT id FROM sa_job WHERE NOT (attempt BETWEEN 1 AND max_attempts AND max_attempts <= 20);

-- I08 no response without its job, no second settled one
SELECT e.id FROM sa_entity e LEFT JOIN sa_job j ON j.id = e.job_id WHERE e.kind = 'response' AND j.id IS NULL
 UNION ALL
 SELECT job_id FROM sa_entity
  WHERE kind = 'response' AND state_class <> 'partial'
  GROUP BY job_id
 HAVING COUNT(*) > 1;

-- I09 at most one live job per prompt
SELECT prompt_id FROM sa_job WHERE state IN ('queued', 'running') GROUP BY prompt_id HAVING COUNT(*) > 1;

-- I10 superseded means exactly one later successor of the same prompt and viewer
SELECT j.id
   FROM sa_job j LEFT JOIN sa_job s ON s.supersedes = j.id
  GROUP BY j.id, j.state
 HAVING COUNT(s.id) <> (j.state = 'superseded')
 UNION ALL
 SELECT s.id
   FROM sa_job s LEFT JOIN sa_job j ON j.id = s.supersedes
  WHERE s.supersedes IS NOT NULL
    AND (j.id IS NULL OR s.prompt_id <> j.prompt_id OR s.org_id <> j.org_id OR s.created_by <> j.created_by
         OR s.created_at <= j.created_at OR s.revision <= j.revision);

-- I11 events hang together and end in the row's state; only rows of plain SQL begin without one
SELECT job_id FROM (
     SELECT job_id, from_state, to_state, LAG(to_state) OVER w AS previous, ROW_NUMBER() OVER w AS n
       FROM sa_job_event
     WINDOW w AS (PARTITION BY job_id ORDER BY seq)) e
  WHERE NOT IF(n = 1, COALESCE(from_state, 'queued') = 'queued', from_state <=> previous)
 UNION ALL
 SELECT j.id
   FROM sa_job j
   LEFT JOIN (SELECT job_id, MAX(seq) AS seq FROM sa_job_event GROUP BY job_id) m ON m.job_id = j.id
   LEFT JOIN sa_job_event e ON e.seq = m.seq
  WHERE COALESCE(e.to_state, 'queued') <> j.state;

-- I12 only the nine edges, the start, and notes
SELECT job_id FROM sa_job_event
  WHERE NOT from_state <=> to_state
    AND CONCAT(COALESCE(from_state, ''), '>', to_state) NOT IN ('>queued', 'queued>running', 'queued>cancelled',
        'running>succeeded', 'running>queued', 'running>failed', 'running>cancelled', 'succeeded>superseded',
        'failed>superseded', 'cancelled>superseded');

-- I13 an attempt is spent exactly by a requeue that is no release
SELECT job_id FROM (
     SELECT job_id, from_state, to_state, reason, attempt, LAG(attempt) OVER w AS previous
       FROM sa_job_event
     WINDOW w AS (PARTITION BY job_id ORDER BY seq)) e
  WHERE previous IS NOT NULL
    AND attempt <> previous + (from_state = 'running' AND to_state = 'queued' AND reason NOT IN ('release', 'gate'));

-- I14 a claim is used once per job
SELECT job_id FROM sa_job_event WHERE reason = 'claim' GROUP BY job_id, claim HAVING COUNT(*) > 1 OR claim IS NULL;

-- I15 whoever leaves running by a worker's act holds the claim that entered it
SELECT job_id FROM (
     SELECT job_id, from_state, reason, claim, LAG(claim) OVER w AS entered
       FROM sa_job_event
      WHERE NOT from_state <=> to_state
     WINDOW w AS (PARTITION BY job_id ORDER BY seq)) e
  WHERE from_state = 'running' AND reason IN ('success', 'failure', 'transient', 'release', 'gate')
    AND NOT claim <=> entered;

-- I16 runs are bounded by attempts and releases
SELECT j.id
   FROM sa_job j JOIN sa_job_event e ON e.job_id = j.id
  GROUP BY j.id, j.max_attempts, j.releases
 HAVING SUM(e.reason = 'claim') > j.max_attempts + j.releases + SUM(e.reason = 'gate');

-- I18 after a cancel there is at most one partial note, and a successor
SELECT c.job_id
   FROM sa_job_event c JOIN sa_job_event e ON e.job_id = c.job_id AND e.seq > c.seq
  WHERE c.reason = 'cancel'
  GROUP BY c.job_id
 HAVING SUM(e.reason = 'partial') > 1 OR SUM(e.reason NOT IN ('partial', 'supersede', 'promote', 'verdict')) > 0;

-- I24 a success has a paid call, and its response an audit row
SELECT j.id FROM sa_job j
  WHERE j.response_id IS NOT NULL
    AND (NOT EXISTS (SELECT 1 FROM sa_ledger l WHERE l.job_id = j.id AND l.purpose IN ('answer', 'fallback')
                        AND l.outcome = 'succeeded')
         OR NOT EXISTS (SELECT 1 FROM sa_audit a WHERE a.subject_id = j.response_id));
