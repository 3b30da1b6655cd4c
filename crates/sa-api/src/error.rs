//! Every refusal and failure as `application/problem+json` (RFC 9457).
//!
//! `type` is a URN, `urn:asterion:problem:` and a word that never changes: absolute as RFC 9457 advises, the same behind
//! any proxy, and nothing to fetch. Clients branch on `status` and `type`; `detail` is for people.

use std::{borrow::Cow, fmt, time::Duration};

use actix_web::{
    HttpResponse, ResponseError,
    http::{StatusCode, header},
};
use sa_core::{id::JobId, job::Lane, repo, state::State};
use serde::Serialize;

use crate::fields::FieldError;

const TYPE_PREFIX: &str = "urn:asterion:problem:";
/// How long a client waits before it asks again a server whose database is away.
const AWAY_RETRY_SECONDS: &str = "5";

/// Why a request was not done; [`crate::envelope`] renders it, because it knows the request's id.
#[derive(Debug)]
pub(crate) struct Problem(Box<Parts>);

#[derive(Debug)]
struct Parts {
    status: StatusCode,
    slug: &'static str,
    title: &'static str,
    detail: Cow<'static, str>,
    header: Option<(header::HeaderName, &'static str)>,
    errors: Vec<FieldError>,
    limit: Option<usize>,
    conflict: Option<Conflict>,
    cause: Option<String>,
}

/// The state that forbids the act, and where it stands.
#[derive(Clone, Copy, Debug)]
struct Conflict {
    asked: JobId,
    state: State,
    successor: Option<JobId>,
}

impl Problem {
    fn new(status: StatusCode, slug: &'static str, title: &'static str, detail: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Parts {
            status,
            slug,
            title,
            detail: detail.into(),
            header: None,
            errors: Vec::new(),
            limit: None,
            conflict: None,
            cause: None,
        }))
    }

    /// The body is no JSON text.
    pub(crate) fn not_json(reason: impl fmt::Display) -> Self {
        let detail = format!("The body is not JSON: {reason}. Nothing was written; send one JSON object in UTF-8.");
        Self::new(StatusCode::BAD_REQUEST, "not_json", "The body is not JSON", detail)
    }

    /// No token, or none that is known: which of the two is not told.
    pub(crate) fn no_token() -> Self {
        let detail = "The request carries no token that is valid here. Send Authorization: Bearer sa_… with a token \
                      made by sa-cli create-token.";
        let mut problem = Self::new(StatusCode::UNAUTHORIZED, "no_token", "No valid token", detail);
        problem.0.header = Some((header::WWW_AUTHENTICATE, "Bearer"));
        problem
    }

    /// The token's role does not allow it.
    pub(crate) fn forbidden(detail: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", "The token's role forbids this", detail)
    }

    /// The id in the path is absent or another viewer's: which of the two is not told.
    pub(crate) fn not_found() -> Self {
        let detail = "Nothing with this id is yours to see. Check the id, and whose token this is.";
        Self::new(StatusCode::NOT_FOUND, "not_found", "Not found", detail)
    }

    /// The body did not arrive in time.
    pub(crate) fn slow_body(limit: Duration) -> Self {
        let detail = format!("The body had not arrived whole after {limit:?}. Nothing was written; send it again.");
        Self::new(StatusCode::REQUEST_TIMEOUT, "slow_body", "The body came too slowly", detail)
    }

    /// Something is longer than allowed.
    pub(crate) fn too_large(what: &'static str, limit: usize) -> Self {
        let detail = format!("{what} is larger than {limit} bytes, which is the limit. Nothing was written.");
        let mut problem = Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", "Too large", detail);
        problem.0.limit = Some(limit);
        problem
    }

    /// The body is of a kind that is not read here.
    pub(crate) fn media_type(detail: &'static str) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", "Unsupported media type", detail)
    }

    /// Fields or parameters that cannot be accepted; `errors` is not empty.
    pub(crate) fn invalid(errors: Vec<FieldError>) -> Self {
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        let detail =
            format!("Not acceptable: {}. Nothing was written; errors says what would be right.", fields.join(", "));
        let mut problem =
            Self::new(StatusCode::UNPROCESSABLE_ENTITY, "validation", "A field cannot be accepted", detail);
        problem.0.errors = errors;
        problem
    }

    /// A single field that cannot be accepted.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::invalid(vec![FieldError { field: field.into(), message: message.into() }])
    }

    /// The database is away; `cause` goes to the log alone.
    pub(crate) fn unavailable(cause: impl fmt::Display) -> Self {
        let detail = "The database does not answer. If this request was to write something, it is not known whether \
                      it did: wait as Retry-After says, then look before you send it again.";
        Self::come_back("database_unavailable", "The database is away", detail, cause)
    }

    /// The database has not the schema of this program; `cause` goes to the log alone.
    pub(crate) fn wrong_schema(cause: impl fmt::Display) -> Self {
        let detail = "The database does not have the schema this program needs. An operator runs sa-cli migrate.";
        Self::come_back("wrong_schema", "The database has another schema", detail, cause)
    }

    fn come_back(slug: &'static str, title: &'static str, detail: &'static str, cause: impl fmt::Display) -> Self {
        let mut problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, slug, title, detail);
        problem.0.header = Some((header::RETRY_AFTER, AWAY_RETRY_SECONDS));
        problem.0.cause = Some(cause.to_string());
        problem
    }

    /// A defect of ours or of the data; `cause` goes to the log alone.
    pub(crate) fn fault(cause: impl fmt::Display) -> Self {
        let detail = "Something failed that should not. The log says more, under the request id in instance.";
        let mut problem = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal error", detail);
        problem.0.cause = Some(cause.to_string());
        problem
    }

    /// A refusal made by actix-web itself, or by a route that does not exist.
    pub(crate) fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::new(
                status,
                "no_such_route",
                "No such route",
                "There is no such path here. Paths begin with /sa-core/v1/; healthz and readyz stand at the root.",
            ),
            StatusCode::METHOD_NOT_ALLOWED => Self::new(
                status,
                "method_not_allowed",
                "Method not allowed",
                "This path does not know that method. The header Allow lists those it knows.",
            ),
            status if status.is_client_error() => Self::new(
                status,
                "bad_request",
                status.canonical_reason().unwrap_or("Bad request"),
                "The request is not HTTP as this server reads it. Check its line and headers.",
            ),
            status => Self::fault(format_args!("a response of status {status} without a cause")),
        }
    }

    /// What the repository refused, or failed, to do to the job the request names.
    pub(crate) fn of_job(asked: JobId, error: repo::Error) -> Self {
        match error {
            repo::Error::Conflict { id, found } => Self::conflict(asked, id, found),
            repo::Error::NotFound => Self::not_found(),
            repo::Error::Database(_) | repo::Error::Corrupt { .. } => error.into(),
        }
    }

    /// The job `asked` cannot, because of the state of the job `standing`: itself, or the one that superseded it.
    fn conflict(asked: JobId, standing: JobId, found: State) -> Self {
        let successor = (standing != asked).then_some(standing);
        let state = if successor.is_some() { State::Superseded } else { found };
        let (slug, title, detail): (_, _, Cow<'static, str>) = match state {
            State::Superseded => (
                "job_superseded",
                "The job was superseded",
                "A retry has taken this job's place. Ask for the job named in successor.".into(),
            ),
            State::Queued | State::Running => (
                "job_in_flight",
                "The job is in flight",
                format!(
                    "The job is already due or running, so a retry would run it twice. Wait for its end, or cancel it \
                     first; if it does not move, an operator looks with sa-cli job-details {asked}.",
                )
                .into(),
            ),
            State::Succeeded | State::Failed | State::Cancelled => (
                "job_ended",
                "The job has ended",
                "The job is in an end state, which does not change. A retry makes a new job.".into(),
            ),
        };
        let mut problem = Self::new(StatusCode::CONFLICT, slug, title, detail);
        problem.0.conflict = Some(Conflict { asked, state, successor });
        problem
    }

    /// The same, saying that the job waits for a lane that is closed.
    pub(crate) fn held_by(mut self, lane: &Lane) -> Self {
        self.0.detail = format!(
            "The job is due, but its provider {lane} is closed for now and no job of it is started. It starts when the \
             provider works again: wait for it, or cancel the job. An operator can open it: sa-cli provider-open {lane}.",
        )
        .into();
        self
    }

    /// What only the log may know.
    pub(crate) fn cause(&self) -> Option<&str> {
        self.0.cause.as_deref()
    }

    /// The response to the request of this id.
    pub(crate) fn render(&self, request_id: &str) -> HttpResponse {
        let parts = &self.0;
        let body = Body {
            r#type: [TYPE_PREFIX, parts.slug].concat(),
            title: parts.title,
            status: parts.status.as_u16(),
            detail: &parts.detail,
            instance: request_id,
            errors: &parts.errors,
            limit: parts.limit,
            state: parts.conflict.map(|conflict| conflict.state),
            job_id: parts.conflict.map(|conflict| conflict.asked),
            successor: parts.conflict.and_then(|conflict| conflict.successor),
        };
        let text = serde_json::to_string(&body).expect("a struct of texts and numbers is always JSON");
        let mut response = HttpResponse::build(parts.status);
        if let Some(header) = parts.header.clone() {
            response.insert_header(header);
        }
        response.insert_header((header::CONTENT_TYPE, "application/problem+json")).body(text)
    }
}

#[derive(Serialize)]
struct Body<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    instance: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<State>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job_id: Option<JobId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<JobId>,
}

impl From<repo::Error> for Problem {
    /// For calls that name no job: there a conflict can only be a defect.
    fn from(error: repo::Error) -> Self {
        match error {
            repo::Error::Database(_) if error.is_unreachable() => Self::unavailable(error),
            repo::Error::Database(_) | repo::Error::Corrupt { .. } | repo::Error::Conflict { .. } => Self::fault(error),
            repo::Error::NotFound => Self::not_found(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.detail)
    }
}

impl ResponseError for Problem {
    fn status_code(&self) -> StatusCode {
        self.0.status
    }

    /// Only the status: [`crate::envelope`] puts [`Problem::render`] in its place.
    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.0.status)
    }
}
