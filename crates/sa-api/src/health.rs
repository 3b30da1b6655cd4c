//! `/healthz` and `/readyz`: for load balancers and service managers. No token, and nothing that is worth one.

use actix_web::{HttpResponse, web::Data};
use sa_core::repo::{
    pulse,
    schema::{self, SchemaError},
};
use serde::Serialize;

use crate::{Api, error::Problem};

#[derive(Serialize)]
struct Alive {
    status: &'static str,
}

#[derive(Serialize)]
struct Ready {
    database: &'static str,
    /// The schema that this program needs; the database has it, or it would not be ready.
    schema_needed: u32,
    /// How long ago the liveliest worker gave a sign of life; null when none ever did.
    pulse_age_seconds: Option<u64>,
}

/// 200 while the process can answer at all; the database is not asked.
pub(crate) async fn alive() -> HttpResponse {
    HttpResponse::Ok().json(Alive { status: "ok" })
}

/// 200 while requests can be served, else 503. That workers are silent is told, but no reason to take no prompts.
pub(crate) async fn ready(api: Data<Api>) -> Result<HttpResponse, Problem> {
    let looked = api.database.run(|db| async move {
        if let Err(error) = schema::check(&db).await {
            return Ok(Err(error));
        }
        pulse::newest_worker_age(&db).await.map(Ok)
    });
    let age = looked.await??.map_err(|error| match error {
        SchemaError::Database(error) => Problem::from(error),
        SchemaError::Absent | SchemaError::Behind { .. } | SchemaError::Ahead { .. } => Problem::wrong_schema(error),
    })?;
    let pulse_age_seconds = age.map(|age| age.as_secs());
    Ok(HttpResponse::Ok().json(Ready { database: "ok", schema_needed: schema::VERSION, pulse_age_seconds }))
}
