//! `sa-cli check --invariants`: whether the rows are what they must be, whatever happened.

use anyhow::Result;
use comfy_table::Cell;
use sa_boot::Exit;
use sa_core::repo::invariants::{self, Checked};

use crate::{Context, output::note};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Checks what must hold of every row. It reads whole tables: on a large schema choose a quiet hour.
    #[arg(long, required = true)]
    invariants: bool,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    debug_assert!(args.invariants, "clap demands the flag");
    let db = context.database().await?;
    let checked = invariants::check(&db).await?;
    db.close().await;
    let header = ["INVARIANT", "HOLDS", "BROKEN BY"];
    context.out.list(&checked, |checked| checked.name.clone(), |out| out.table(header, checked.iter().map(row)))?;
    let broken = checked.iter().filter(|checked| !checked.broken_by.is_empty()).count();
    if broken == 0 {
        return Ok(Exit::Done);
    }
    note(format_args!(
        "{broken} of {} invariants do not hold: rows were changed by other hands, or this is a fault of ours. \
         `sa-cli job-details ID` shows the history of each; please report it with that.",
        checked.len()
    ));
    Ok(Exit::Failed)
}

fn row(checked: &Checked) -> [Cell; 3] {
    let (holds, ids) = match checked.broken_by.as_slice() {
        [] => ("✓ yes", String::new()),
        [one] => ("✗ no", one.clone()),
        [first, rest @ ..] => ("✗ no", format!("{first} and {} more", rest.len())),
    };
    [Cell::new(&checked.name), Cell::new(holds), Cell::new(ids)]
}
