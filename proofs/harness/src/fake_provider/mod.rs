//! A provider that replays what real servers said, and misbehaves as it is told.

mod answer;
mod calls;
mod connection;
mod reply;
mod rule;

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use tokio::net::TcpListener;

use crate::{apart::Background, wait::wait_until};

pub use calls::{Call, Outcome};
pub use reply::{Gate, Reply};
pub use rule::Rule;

/// An HTTP server on a port of its own, for the worker's adapters.
///
/// What it answers comes from `proofs/wire/`, recorded from real servers: a wrong belief about the wire cannot hide
/// in both ends. Calls that no rule speaks for get a recorded success: a stream where the request asks for one.
/// It runs on a thread of its own until it is dropped, so a test that blocks cannot stall it.
#[derive(Debug)]
pub struct FakeProvider {
    address: SocketAddr,
    shared: Arc<Shared>,
    _background: Background,
}

/// What the connections and the test both see.
#[derive(Debug, Default)]
struct Shared {
    rules: Mutex<Vec<Rule>>,
    calls: Mutex<Vec<Call>>,
}

impl FakeProvider {
    /// Starts it with the default rule only.
    ///
    /// # Errors
    /// When no port or thread can be had.
    pub async fn start() -> Result<Self> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let for_connections = Arc::clone(&shared);
        let background = Background::start(async move {
            let listener = TcpListener::from_std(listener).expect("a non-blocking listener fits any runtime");
            while let Ok((stream, _peer)) = listener.accept().await {
                tokio::spawn(connection::serve(stream, Arc::clone(&for_connections)));
            }
        })?;
        Ok(Self { address, shared, _background: background })
    }

    /// The base URL, ending in `/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds a rule; of several that fit a call, the one added first answers.
    pub fn script(&self, rule: Rule) {
        self.shared.rules().push(rule);
    }

    /// All calls so far, in the order their requests were complete.
    #[must_use]
    pub fn calls(&self) -> Vec<Call> {
        self.shared.calls().clone()
    }

    /// The calls whose body contains `text`.
    #[must_use]
    pub fn calls_with(&self, text: &str) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.body.contains(text)).collect()
    }

    /// Waits until at least `count` calls have arrived, and returns all of them; they may still be running.
    ///
    /// # Errors
    /// When the limit passes first.
    pub async fn wait_for_calls(&self, count: usize, limit: Duration) -> Result<Vec<Call>> {
        let what = format!("call {count} to the fake provider");
        wait_until(&what, limit, async || Some(self.calls()).filter(|calls| calls.len() >= count)).await
    }

    /// Waits until the client of call `number` (counted from 1) has gone away.
    ///
    /// # Errors
    /// When the limit passes first.
    pub async fn wait_for_client_gone(&self, number: usize, limit: Duration) -> Result<()> {
        let what = format!("the client of call {number} to go away");
        let gone = async || self.calls().get(number - 1).is_some_and(Call::client_gone);
        wait_until(&what, limit, gone).await
    }
}

impl Shared {
    fn rules(&self) -> MutexGuard<'_, Vec<Rule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn calls(&self) -> MutexGuard<'_, Vec<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
