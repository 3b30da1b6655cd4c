//! Who asks, and who acts.

use std::fmt;

use crate::id::{OrgId, UserId, WorkerId};
use crate::text_enum::text_enum;

/// Who asks: every read and every act is scoped by the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Viewer {
    /// The organisation.
    pub org: OrgId,
    /// The user within it.
    pub user: UserId,
}

/// How far a call may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One viewer's own rows; another's are the same as absent.
    Viewer(Viewer),
    /// All rows: an operator at the command line.
    Everywhere,
}

impl Scope {
    /// Whether a row of this viewer may be seen.
    #[must_use]
    pub fn admits(self, owner: Viewer) -> bool {
        match self {
            Self::Viewer(viewer) => viewer == owner,
            Self::Everywhere => true,
        }
    }
}

text_enum! {
    /// What a token may do.
    Role {
        /// Its own viewer's prompts and jobs.
        Viewer = "viewer",
        /// Those, and the operators' routes across organisations.
        Operator = "operator",
        /// May act for any user of its one organisation, by name in each call.
        Gateway = "gateway",
    }
}

/// Who did something, as events and audit rows name them: ASCII, at most 96 bytes.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::Type)]
#[sqlx(transparent)]
pub struct Actor(String);

impl Actor {
    /// A user of the product.
    #[must_use]
    pub fn user(user: UserId) -> Self {
        Self(format!("user:{user}"))
    }

    /// A worker process.
    #[must_use]
    pub fn worker(worker: WorkerId) -> Self {
        Self(format!("worker:{worker}"))
    }

    /// The reaper on this host.
    #[must_use]
    pub fn reaper(host: &str) -> Self {
        Self::named("reaper", host)
    }

    /// A person at the command line.
    #[must_use]
    pub fn operator(name: &str) -> Self {
        Self::named("operator", name)
    }

    /// A gateway token acting for a user.
    #[must_use]
    pub fn gateway(user: UserId) -> Self {
        Self(format!("gateway:{user}"))
    }

    fn named(role: &str, name: &str) -> Self {
        let name: String = name.chars().filter(char::is_ascii_graphic).take(80).collect();
        Self(format!("{role}:{name}"))
    }

    /// The text that stands in `actor`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
