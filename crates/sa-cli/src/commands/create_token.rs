//! `sa-cli create-token`: access for a viewer, an operator or a gateway.

use anyhow::Result;
use sa_boot::Exit;
use sa_core::{
    id::{OrgId, UserId},
    repo::token,
    viewer::{Role, Viewer},
};
use serde::Serialize;

use crate::{Context, output::note};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The organisation it is for.
    #[arg(long, value_name = "N")]
    org: OrgId,
    /// The user within it.
    #[arg(long, value_name = "N")]
    user: UserId,
    /// What it may do: viewer, operator or gateway.
    #[arg(long, default_value_t = Role::Viewer)]
    role: Role,
}

#[derive(Serialize)]
struct Made<'a> {
    token_id: String,
    token: &'a str,
    role: Role,
    org_id: OrgId,
    user_id: UserId,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Exit> {
    let db = context.database().await?;
    let made = token::create(&db, Viewer { org: args.org, user: args.user }, args.role).await?;
    db.close().await;
    let value = Made {
        token_id: made.id.to_string(),
        token: &made.secret,
        role: args.role,
        org_id: args.org,
        user_id: args.user,
    };
    note(format_args!("token {} for user {} of organisation {}; it is shown this once", made.id, args.user, args.org));
    context.out.one(&value, &value.token_id, |_| made.secret.clone())?;
    Ok(Exit::Done)
}
