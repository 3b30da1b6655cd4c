//! SIGTERM and SIGINT: the first asks, the second forces.

use std::{future::Future, time::Duration};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::{Exit, Problem};

/// How long a role that was forced may still take: time to give back what it holds, no more.
const FORCED_LIMIT: Duration = Duration::from_secs(10);

/// Whether this process was asked to stop. Clones share the answer; once given, it stays.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    requested: CancellationToken,
    forced: CancellationToken,
}

impl Shutdown {
    /// A shutdown nobody has asked for, and no signal reaches: for tests of a role.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn on_signals() -> anyhow::Result<Self> {
        let shutdown = Self::new();
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        let seen = shutdown.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
                seen.request();
            }
        });
        Ok(shutdown)
    }

    /// What a signal does: the first call asks, the second forces.
    pub fn request(&self) {
        if self.requested.is_cancelled() {
            self.forced.cancel();
        }
        self.requested.cancel();
    }

    /// Ends when the process is asked to stop: start nothing new, finish what runs.
    pub async fn requested(&self) {
        self.requested.cancelled().await;
    }

    /// The token behind [`Shutdown::requested`], to hand on or to derive child tokens from.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.requested.clone()
    }

    /// Ends when the process is asked a second time: give back what is held and leave, within ten seconds.
    pub async fn forced(&self) {
        self.forced.cancelled().await;
    }

    /// Runs `role`, but not for long once it is forced.
    pub(crate) async fn bounded(&self, role: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
        let overdue = async {
            self.forced().await;
            tokio::time::sleep(FORCED_LIMIT).await;
        };
        tokio::select! {
            result = role => result,
            () = overdue => anyhow::bail!("did not stop within {} s of the second signal", FORCED_LIMIT.as_secs()),
        }
    }
}

/// The end of a start that was called off by a signal: all is done that was asked for.
pub(crate) fn called_off() -> anyhow::Error {
    Problem::new(Exit::Done, "asked to stop", "it had not started yet", "").into()
}
