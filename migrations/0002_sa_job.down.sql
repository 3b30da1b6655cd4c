DROP TABLE sa_ledger;
DROP TABLE sa_job_event;
DROP TABLE sa_job;
