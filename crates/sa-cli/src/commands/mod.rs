//! One command a file.

pub(crate) mod cancel_job;
pub(crate) mod check;
pub(crate) mod create_token;
pub(crate) mod job_details;
pub(crate) mod list_jobs;
pub(crate) mod migrate;
pub(crate) mod provider_open;
pub(crate) mod retry_job;
pub(crate) mod run_prompt;
pub(crate) mod submit_prompt;
