//! `sa-api serve`: takes prompts, shows their answers, cancels and retries jobs. It runs none and calls nobody.
//!
//! | route | answer |
//! |---|---|
//! | `POST /sa-core/v1/prompt` | 202 `{prompt_id, job_id, state}`, `Location`, `Retry-After` |
//! | `GET /sa-core/v1/mission/recent?since=&limit=` | 200 `{as_of, last_event_id, has_more, entities}`, `ETag`; 304 |
//! | `GET /sa-core/v1/jobs/{id}` | 200, the job with its response |
//! | `POST /sa-core/v1/jobs/{id}/cancel` | 200 `{job_id, from, to}` |
//! | `POST /sa-core/v1/jobs/{id}/retry` | 202 `{prompt_id, job_id, supersedes, state}`; 200 `{job_id, scheduled_for}` |
//! | `GET /healthz`, `GET /readyz` | 200 while the process lives; 200 while it can serve |
//!
//! Each but the last line needs `Authorization: Bearer sa_…` and sees its token's viewer alone; a token of role gateway
//! may name the user it acts for in `X-SA-User`. Unknown fields, options and parameters are refused, and a name given
//! twice is too; `null` is the same as absent.
//!
//! Each refusal is a problem (RFC 9457): `{type, title, status, detail, instance}`, `instance` being the request's id as
//! in `X-Request-Id`. The last word of `type`, `urn:asterion:problem:WORD`, never changes its meaning:
//!
//! | status | word | more |
//! |---|---|---|
//! | 400 | `not_json`, `bad_request` | |
//! | 401 | `no_token` | `WWW-Authenticate: Bearer` |
//! | 403 | `forbidden` | |
//! | 404 | `not_found` (absent and foreign alike), `no_such_route` | |
//! | 405 | `method_not_allowed` | `Allow` |
//! | 408 | `slow_body` | |
//! | 409 | `job_in_flight`, `job_ended`, `job_superseded` | `job_id`, `state`, `successor` |
//! | 413 | `too_large` | `limit` in bytes |
//! | 415 | `media_type` | |
//! | 422 | `validation` | `errors: [{field, message}]` |
//! | 500 | `internal` | |
//! | 503 | `database_unavailable`, `wrong_schema` | `Retry-After` |
//!
//! A provider's key never comes here, nor does any code that could call one.

mod body;
mod database;
mod envelope;
mod error;
mod fields;
mod health;
mod job_options;
mod jobs;
mod options;
mod prompt;
mod query;
mod recent;
mod viewer;

use std::{future::Future, io, net::TcpListener, time::Duration};

use actix_web::{
    App, HttpServer,
    middleware::{Compress, from_fn},
    web::{self, Data, ServiceConfig},
};
use anyhow::Context;
use sa_boot::{Exit, Pool, Shutdown};
use sa_core::{id::JobId, provider::Catalog, repo::Db};

pub use options::Options;

use crate::{
    database::Database,
    options::{Command, ServeOptions},
};

const PREFIX: &str = "/sa-core/v1";
/// Connections to the database: a request holds one for a few milliseconds.
const POOL_SIZE: u32 = 16;
/// How long a request waits for one of them, the making of a new one included.
const POOL_PATIENCE: Duration = Duration::from_secs(2);
/// How long a body may take. Without it a client could hold a connection open for ever, a byte a minute.
const BODY_DEADLINE: Duration = Duration::from_secs(10);
/// Longer than the proxies in front keep theirs, so that they and not we close an idle connection.
const KEEP_ALIVE: Duration = Duration::from_secs(75);
/// How long requests may take to end when the process is asked to stop.
const STOP_LIMIT_SECONDS: u64 = 30;

/// What every request needs.
#[derive(Clone, Debug)]
pub struct Api {
    database: Database,
    catalog: Catalog,
    body_limit: usize,
    body_deadline: Duration,
    base_path: String,
    threads: usize,
}

impl Api {
    /// An API on this database that offers these providers, with the defaults of `sa-api serve`.
    ///
    /// Must be called on the runtime that shall do the database's work.
    #[must_use]
    pub fn new(db: Db, catalog: Catalog) -> Self {
        Self {
            database: Database::new(db),
            catalog,
            body_limit: 8 * 1024 * 1024,
            body_deadline: BODY_DEADLINE,
            base_path: String::new(),
            threads: 2,
        }
    }

    /// The same API behind a proxy that puts this path in front, such as `/asterion`.
    #[must_use]
    pub fn behind(self, base_path: impl Into<String>) -> Self {
        Self { base_path: base_path.into(), ..self }
    }

    /// The same API with another limit for bodies, in bytes.
    #[must_use]
    pub fn with_body_limit(self, bytes: usize) -> Self {
        Self { body_limit: bytes, ..self }
    }

    /// The same API with another limit for the time a body may take.
    #[must_use]
    pub fn with_body_deadline(self, limit: Duration) -> Self {
        Self { body_deadline: limit, ..self }
    }

    /// Answers the requests that come in on `listener`, until asked to stop and all that had begun are answered. The
    /// server runs while the future is awaited.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub fn serve(
        self,
        listener: TcpListener,
        shutdown: &Shutdown,
    ) -> io::Result<impl Future<Output = io::Result<()>> + use<>> {
        let threads = self.threads;
        let api = Data::new(self);
        let server = HttpServer::new(move || {
            let api = api.clone();
            App::new()
                .app_data(api.clone())
                .wrap(from_fn(envelope::envelope))
                .configure(move |app| routes(app, &api.base_path))
        });
        let server = server
            .workers(threads)
            .keep_alive(KEEP_ALIVE)
            .shutdown_timeout(STOP_LIMIT_SECONDS)
            .shutdown_signal(shutdown.token().cancelled_owned())
            .listen(listener)?;
        Ok(server.run())
    }

    /// Where a job is to be looked at, as the client sees us.
    fn job_location(&self, job: JobId) -> String {
        format!("{}{PREFIX}/jobs/{job}", self.base_path)
    }
}

/// Runs the command that was given.
///
/// # Errors
/// When a setting is wrong, the address is taken, or the schema is not ours.
pub async fn run(options: Options, shutdown: Shutdown) -> anyhow::Result<Exit> {
    match &options.command {
        Command::Serve(serve_options) => serve(&options, serve_options, &shutdown).await,
    }
}

async fn serve(options: &Options, serve: &ServeOptions, shutdown: &Shutdown) -> anyhow::Result<Exit> {
    let catalog = serve.catalog()?;
    if catalog.is_only_echo() {
        tracing::warn!(
            "No provider is configured, so workers decide; alone they answer with the prompt itself (echo)."
        );
    }
    // Callers are people, so they wait less for a connection than a worker does.
    let pool = Pool::of(POOL_SIZE).with_patience(POOL_PATIENCE);
    let db = options.boot_options().database_waiting(pool, shutdown).await?;
    // Not before the database is there: a client would connect, and wait in a queue that nobody serves.
    let listener = TcpListener::bind(serve.bind).with_context(|| format!("cannot listen on {}", serve.bind))?;
    let api = Api {
        body_limit: serve.body_limit,
        base_path: serve.base_path.clone(),
        threads: usize::from(serve.threads),
        ..Api::new(db.clone(), catalog)
    };
    tracing::info!(address = %listener.local_addr()?, "Requests are answered here.");
    api.serve(listener, shutdown)?.await?;
    db.close().await;
    Ok(Exit::Done)
}

/// All routes, twice where a proxy may or may not strip the path it adds.
fn routes(app: &mut ServiceConfig, base_path: &str) {
    if !base_path.is_empty() {
        app.service(web::scope(base_path).configure(routes_at_root));
    }
    routes_at_root(app);
}

fn routes_at_root(app: &mut ServiceConfig) {
    let v1 = web::scope(PREFIX)
        .service(web::resource("/prompt").route(web::post().to(prompt::post)))
        .service(
            web::resource("/mission/recent")
                .wrap(Compress::default())
                .route(web::get().to(recent::get))
                .route(web::head().to(recent::get)),
        )
        .service(web::resource("/jobs/{id}").route(web::get().to(jobs::get)).route(web::head().to(jobs::get)))
        .service(web::resource("/jobs/{id}/cancel").route(web::post().to(jobs::cancel)))
        .service(web::resource("/jobs/{id}/retry").route(web::post().to(jobs::retry)));
    app.service(v1)
        .service(web::resource("/healthz").route(web::get().to(health::alive)).route(web::head().to(health::alive)))
        .service(web::resource("/readyz").route(web::get().to(health::ready)).route(web::head().to(health::ready)));
}
