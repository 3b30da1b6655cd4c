//! A network that fails on purpose, between a client and the database.

mod connection;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, Result};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::{apart::Background, server::free_port};

/// A TCP proxy in front of a database server; it forwards everything until it is told to do harm.
///
/// It reads the client's packets to find a `COMMIT`, so that fault needs a connection without TLS, as those to the
/// servers of this harness are. It runs on a thread of its own until it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _background: Background,
}

/// What the connections, the listener and the test all see.
#[derive(Debug)]
struct Shared {
    faults: watch::Sender<Faults>,
    /// What the listener has made of `faults.refusing`.
    listening: watch::Sender<bool>,
    connections: Mutex<Vec<JoinHandle<()>>>,
    commit: Mutex<Option<CommitFault>>,
    commits_cut: AtomicUsize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    latency: Duration,
    refusing: bool,
    held: Held,
}

/// Which bytes wait, with all sockets open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Held {
    #[default]
    None,
    FromServer,
    Both,
}

#[derive(Clone, Copy, Debug)]
enum CommitFault {
    /// The server never sees it.
    Before,
    /// The server has done it, the client never hears of it.
    Acknowledgement,
}

impl Proxy {
    /// Starts forwarding to `upstream`, such as [`crate::Server::address`].
    ///
    /// # Errors
    /// When no port or thread can be had.
    pub async fn start(upstream: SocketAddr) -> Result<Self> {
        // Not an ephemeral port: nobody may take it while this refuses connections.
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()?));
        let shared = Arc::new(Shared {
            faults: watch::Sender::default(),
            listening: watch::Sender::new(false),
            connections: Mutex::default(),
            commit: Mutex::default(),
            commits_cut: AtomicUsize::new(0),
        });
        let background = Background::start(listen(address, upstream, Arc::clone(&shared)))?;
        let proxy = Self { address, shared, _background: background };
        proxy.wait_for_listener(true).await?;
        Ok(proxy)
    }

    /// Where clients connect; see [`crate::Database::url_by_way_of`].
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Delays every piece of bytes, in each direction, by this much.
    pub fn latency(&self, latency: Duration) {
        self.shared.faults.send_modify(|faults| faults.latency = latency);
    }

    /// Drops all connections; new ones are still accepted. None forwards a byte any more when this returns.
    pub async fn cut(&self) {
        let connections = std::mem::take(&mut *self.shared.connections());
        for connection in connections {
            connection.abort();
            // An aborted task answers with an error, which is what was asked for.
            let _ = connection.await;
        }
    }

    /// Refuses new connections, as a host without the server does; those that are open go on.
    ///
    /// # Errors
    /// When the listener is gone.
    pub async fn refuse(&self) -> Result<()> {
        self.shared.faults.send_modify(|faults| faults.refusing = true);
        self.wait_for_listener(false).await
    }

    /// Accepts new connections again.
    ///
    /// # Errors
    /// When the listener is gone, since somebody else has taken the port.
    pub async fn accept(&self) -> Result<()> {
        self.shared.faults.send_modify(|faults| faults.refusing = false);
        self.wait_for_listener(true).await
    }

    /// Forwards nothing, in either direction, and keeps every socket open; what arrives meanwhile waits.
    pub fn half_open(&self) {
        self.shared.faults.send_modify(|faults| faults.held = Held::Both);
    }

    /// Forwards to the server and keeps back what it answers.
    pub fn hold_server_bytes(&self) {
        self.shared.faults.send_modify(|faults| faults.held = Held::FromServer);
    }

    /// Ends [`Proxy::half_open`] and [`Proxy::hold_server_bytes`]: what waited goes on its way.
    pub fn forward(&self) {
        self.shared.faults.send_modify(|faults| faults.held = Held::None);
    }

    /// The next `COMMIT` on any connection reaches the server and is done there; then the connection is cut before the
    /// client hears of it. Happens once.
    pub fn cut_ack_of_next_commit(&self) {
        *self.shared.commit() = Some(CommitFault::Acknowledgement);
    }

    /// The next `COMMIT` on any connection is not forwarded: the connection is cut, so the server rolls back. Happens once.
    pub fn cut_before_next_commit(&self) {
        *self.shared.commit() = Some(CommitFault::Before);
    }

    /// How many commits were met by one of the two faults above.
    #[must_use]
    pub fn commits_cut(&self) -> usize {
        self.shared.commits_cut.load(Ordering::SeqCst)
    }

    async fn wait_for_listener(&self, state: bool) -> Result<()> {
        let mut listening = self.shared.listening.subscribe();
        let wait = listening.wait_for(|listening| *listening == state);
        tokio::time::timeout(Duration::from_secs(10), wait).await.context("the proxy's listener is gone")??;
        Ok(())
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self) -> MutexGuard<'_, Option<CommitFault>> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn listen(address: SocketAddr, upstream: SocketAddr, shared: Arc<Shared>) {
    let mut faults = shared.faults.subscribe();
    // Binding anew is how a port that refuses becomes one that accepts; a listener that drops what it accepts would
    // show clients a reset instead.
    while let Ok(listener) = TcpListener::bind(address).await {
        shared.listening.send_replace(true);
        tokio::select! {
            () = accept(&listener, upstream, &shared) => return,
            _ = faults.wait_for(|faults| faults.refusing) => {}
        }
        drop(listener);
        shared.listening.send_replace(false);
        if faults.wait_for(|faults| !faults.refusing).await.is_err() {
            return;
        }
    }
}

async fn accept(listener: &TcpListener, upstream: SocketAddr, shared: &Arc<Shared>) {
    while let Ok((client, _peer)) = listener.accept().await {
        let shared_too = Arc::clone(shared);
        let connection = tokio::spawn(async move {
            // A server that is down closes the client's connection as well.
            if let Ok(server) = TcpStream::connect(upstream).await {
                connection::run(client, server, &shared_too).await;
            }
        });
        let mut connections = shared.connections();
        connections.retain(|connection| !connection.is_finished());
        connections.push(connection);
    }
}
