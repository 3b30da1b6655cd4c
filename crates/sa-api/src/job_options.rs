//! The `options` of a prompt or of a retry: what a caller may choose, and nothing else.

use std::time::{Duration, SystemTime};

use sa_core::{
    job::{ExecutionOptions, Lane, MaxAttempts, Priority},
    provider::Catalog,
};
use time::OffsetDateTime;

use crate::{
    error::Problem,
    fields::{Fields, Refusals},
};

/// Largest `options`, in bytes as sent.
const LARGEST: usize = 64 * 1024;
/// Names of models and providers are shorter in every configuration.
const LONGEST_NAME: usize = 128;
/// How far ahead a prompt may be scheduled.
const FARTHEST: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// What a caller chose; nothing chosen means the default, or for a retry what the job had.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct JobOptions {
    /// Those that are stored as one.
    pub(crate) execution: ExecutionOptions,
    /// How soon.
    pub(crate) priority: Option<Priority>,
    /// How often.
    pub(crate) max_attempts: Option<MaxAttempts>,
    /// Not before.
    pub(crate) scheduled_for: Option<OffsetDateTime>,
}

impl JobOptions {
    /// Takes `options` out of a request. Never a URL, a header or a key: a caller chooses among what is configured.
    ///
    /// # Errors
    /// When it is too large (413), or no JSON after all (400); everything else is a refusal.
    pub(crate) fn take(body: &mut Fields<'_>, refusals: &mut Refusals) -> Result<Self, Problem> {
        let Some(mut fields) = body.object("options", LARGEST, refusals)? else { return Ok(Self::default()) };
        let execution = ExecutionOptions {
            model: name(&mut fields, "model", refusals)?,
            prefer_provider: name(&mut fields, "prefer_provider", refusals)?,
            depth: fields.integer("depth", 0..=ExecutionOptions::MAX_DEPTH, refusals),
            router_model: name(&mut fields, "router_model", refusals)?,
        };
        let priority = fields.integer("priority", 0..=Priority::LOWEST.get(), refusals).and_then(Priority::new);
        let max_attempts = fields.integer("max_attempts", 1..=20, refusals).and_then(MaxAttempts::new);
        // The past means now; what lies before 1970 is told as nothing, because not every calendar of SQL goes back so far.
        let scheduled_for = fields.time("scheduled_for", refusals)?.filter(|at| *at > OffsetDateTime::UNIX_EPOCH);
        if scheduled_for.is_some_and(too_far) {
            refusals.add("options.scheduled_for", "must lie within a year from now");
        }
        fields.refuse_the_rest(refusals);
        Ok(Self { execution, priority, max_attempts, scheduled_for })
    }
}

/// The lane of a job with these options, or a refusal of the one that names what is not configured.
pub(crate) fn lane(catalog: &Catalog, options: &ExecutionOptions, refusals: &mut Refusals) -> Lane {
    match catalog.lane_for(options) {
        // Nothing is configured here, so the worker that claims the job knows better.
        Ok(_) if catalog.is_only_echo() => Lane::default(),
        Ok(lane) => lane,
        Err(error) => {
            refusals.add(error.field, error.reason);
            Lane::default()
        }
    }
}

fn name(fields: &mut Fields<'_>, member: &str, refusals: &mut Refusals) -> Result<Option<String>, Problem> {
    let name = fields.text(member, refusals)?;
    if name.as_ref().is_none_or(|name| (1..=LONGEST_NAME).contains(&name.len())) {
        return Ok(name);
    }
    refusals.add(format!("options.{member}"), format!("must have 1 to {LONGEST_NAME} bytes"));
    Ok(None)
}

/// The host's clock is good enough for a bound of a year; it is never written into a row.
fn too_far(at: OffsetDateTime) -> bool {
    at > OffsetDateTime::from(SystemTime::now() + FARTHEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_is_left_to_the_worker_where_nothing_is_configured() {
        let mut refusals = Refusals::default();
        let bare = Catalog::load(None, |_| None).unwrap();
        assert!(lane(&bare, &ExecutionOptions::default(), &mut refusals).is_unresolved());
        let model = |name: &str| (name == "SA_OPENAI_MODEL").then(|| "gpt".to_owned());
        let configured = Catalog::load(None, model).unwrap();
        assert_eq!(lane(&configured, &ExecutionOptions::default(), &mut refusals).as_str(), "openai");
        assert!(refusals.none().is_ok());
    }

    #[test]
    fn a_year_ahead_is_near_enough() {
        let ahead = |days: u64| OffsetDateTime::from(SystemTime::now() + Duration::from_secs(days * 24 * 60 * 60));
        assert!(!too_far(ahead(365)) && too_far(ahead(367)));
    }
}
