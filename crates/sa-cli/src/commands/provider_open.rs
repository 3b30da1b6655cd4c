//! `sa-cli provider-open`: opens a provider's lane that a gate holds closed.

use anyhow::Result;
use sa_boot::Exit;
use sa_core::{
    error_kind::ErrorKind,
    job::Lane,
    repo::gate::{self, Gate},
};
use serde::Serialize;

use crate::{Context, output::harmless};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The provider, by its configured name; its lane has the same.
    #[arg(value_name = "NAME")]
    name: String,
}

#[derive(Serialize)]
struct Opened<'a> {
    lane: &'a str,
    was_closed: bool,
    reason: Option<ErrorKind>,
    closures: u32,
}

/// Opening what is open already is no error: whoever calls this wants it open.
pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let db = context.database().await?;
    let lane = Lane::new(args.name);
    let before = gate::list(&db).await?.into_iter().find(|gate| gate.lane == lane);
    let was_closed = gate::open(&db, &lane).await?;
    let name = harmless(lane.as_str());
    let words = match &before {
        Some(Gate { reason: Some(reason), closures, .. }) if was_closed => {
            format!("{name} is open; it had closed {closures} times in a row, last for {reason}")
        }
        Some(_) | None if was_closed => format!("{name} is open"),
        Some(_) | None => format!("{name} was open already"),
    };
    let (reason, closures) = before.map_or((None, 0), |gate| (gate.reason, gate.closures));
    let mut results = context.out.stream();
    results.add(&Opened { lane: lane.as_str(), was_closed, reason, closures }, &name, &words)?;
    results.end()?;
    db.close().await;
    Ok(Exit::Done)
}
