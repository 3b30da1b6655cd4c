//! `sa-cli migrate`: the only place where the schema is changed.

use anyhow::Result;
use comfy_table::Cell;
use sa_boot::{Exit, Problem};
use serde::Serialize;

use crate::{
    Context, interruptible,
    migration::{Session, Step},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Show what is applied and what is pending, and change nothing.
    #[arg(long, conflicts_with = "down")]
    status: bool,
    /// Undo the newest migration, with all that its tables hold.
    #[arg(long)]
    down: bool,
    /// Do it, and do not ask.
    #[arg(long)]
    yes: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    applied: &'a [Step],
    undone: &'a [Step],
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let mut session = Session::open(&sa_boot::database_url()?).await?;
    if args.status {
        return status(session, context).await;
    }
    // Nothing has changed yet, so a wait may still be given up.
    interruptible(context, async { session.lock().await.map(|()| Exit::Done) }).await?;
    if args.down {
        down(&mut session, args, context).await?;
    } else {
        up(&mut session, context).await?;
    }
    session.close().await;
    Ok(Exit::Done)
}

async fn status(mut session: Session, context: &Context) -> Result<Exit> {
    let steps = session.status().await?;
    session.close().await;
    let rows = steps.iter().map(|step| [number(step), step.description.clone(), step.standing.as_str().to_owned()]);
    let rows = rows.map(|row| row.map(Cell::new));
    context.out.list(&steps, number, |out| out.table(["VERSION", "MIGRATION", "STATE"], rows))?;
    Ok(Exit::Done)
}

async fn up(session: &mut Session, context: &Context) -> Result<()> {
    let applied = session.up().await?;
    let report = Report { applied: &applied, undone: &[] };
    context.out.one(&report, applied.iter().map(number).collect::<Vec<_>>().join("\n"), |_| {
        let mut lines: Vec<_> =
            applied.iter().map(|step| format!("applied {} {}", number(step), step.description)).collect();
        lines.push(if applied.is_empty() {
            "the schema is up to date".to_owned()
        } else {
            "the schema is ready".to_owned()
        });
        lines.join("\n")
    })
}

async fn down(session: &mut Session, args: Args, context: &Context) -> Result<()> {
    if !args.yes {
        let Some(newest) = session.newest().await? else { return nothing(context) };
        let why = format!("undoing {} {} drops its tables with all they hold", number(&newest), newest.description);
        return Err(Problem::usage("1 migration would be undone", why, "say --yes as well if that is meant").into());
    }
    let Some(undone) = session.down().await? else { return nothing(context) };
    let words = format!("undone {} {}", number(&undone), undone.description);
    context.out.one(&Report { applied: &[], undone: std::slice::from_ref(&undone) }, number(&undone), |_| words)
}

fn nothing(context: &Context) -> Result<()> {
    context.out.one(&Report { applied: &[], undone: &[] }, "", |_| "there is no migration to undo".to_owned())
}

fn number(step: &Step) -> String {
    format!("{:04}", step.version)
}
