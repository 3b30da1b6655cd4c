//! What the service manager is told, by systemd's notify protocol: one datagram a message, in lines of `NAME=value`.
//!
//! Without `NOTIFY_SOCKET` there is nobody to tell, and nothing is sent. What cannot be sent is lost: a manager that does
//! not listen must not stop a worker.

use std::{
    env, io,
    os::{
        linux::net::SocketAddrExt,
        unix::net::{SocketAddr, UnixDatagram},
    },
    time::{Duration, Instant},
};

use tokio::time::timeout;

/// How long a turn of the poll loop may wait for anything, where no watchdog asks for shorter ones.
const LONGEST_TURN: Duration = Duration::from_secs(5);
/// How much more time is asked for while a start or an end takes long; it is asked for again long before that is over.
const EXTENSION: Duration = Duration::from_secs(60);
/// How often the status may change.
const STATUS_EVERY: Duration = Duration::from_secs(1);

/// The service manager, if one listens.
#[derive(Debug)]
pub(crate) struct Supervisor {
    socket: Option<UnixDatagram>,
    /// How often its watchdog wants to hear of a turn at the latest.
    watchdog: Option<Duration>,
    phase: Phase,
    turn_told: Option<Instant>,
    status: String,
    status_told: Option<Instant>,
}

/// How far the service is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Starting,
    Ready,
    Stopping,
}

impl Supervisor {
    /// Whoever the environment names.
    pub(crate) fn of_environment() -> Self {
        let text = |name| env::var(name).ok().filter(|value| !value.is_empty());
        let socket = text("NOTIFY_SOCKET").and_then(|address| match connect(&address) {
            Ok(socket) => Some(socket),
            Err(why) => {
                tracing::warn!(address, %why, "The service manager cannot be told anything.");
                None
            }
        });
        let for_us = text("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let watchdog = text("WATCHDOG_USEC").filter(|_| for_us).and_then(|us| us.parse().ok());
        Self::at(socket, watchdog.filter(|&us| us > 0).map(Duration::from_micros))
    }

    fn at(socket: Option<UnixDatagram>, watchdog: Option<Duration>) -> Self {
        Self { socket, watchdog, phase: Phase::Starting, turn_told: None, status: String::new(), status_told: None }
    }

    /// Nobody.
    pub(crate) fn nobody() -> Self {
        Self::at(None, None)
    }

    /// A manager at this address whose watchdog waits so long.
    #[cfg(test)]
    pub(crate) fn listening(address: &str, watchdog: Duration) -> Self {
        Self::at(Some(connect(address).expect("somebody listens")), Some(watchdog))
    }

    /// How long a turn of the poll loop may wait for anything, so that its end is told in time.
    pub(crate) fn longest_turn(&self) -> Duration {
        self.watchdog.map_or(LONGEST_TURN, |watchdog| LONGEST_TURN.min(watchdog / 4))
    }

    /// The service can do its work: its database has the right schema, and its first beat has arrived.
    pub(crate) fn ready(&mut self) {
        if self.phase == Phase::Starting {
            self.phase = Phase::Ready;
            self.send("READY=1\n");
        }
    }

    /// The service takes no more work.
    pub(crate) fn stopping(&mut self, status: &str) {
        self.phase = Phase::Stopping;
        self.send(&format!("STOPPING=1\nSTATUS={status}\n{}", extension()));
    }

    /// A turn of the poll loop is complete. This alone feeds the watchdog: a loop that hangs is not fed by anything else.
    pub(crate) fn turn(&mut self, status: &str) {
        self.tell_status(status);
        let every = self.longest_turn();
        if self.turn_told.is_some_and(|told| told.elapsed() < every) {
            return;
        }
        self.turn_told = Some(Instant::now());
        let watchdog = if self.watchdog.is_some() { "WATCHDOG=1\n" } else { "" };
        match self.phase {
            Phase::Ready => self.send(watchdog),
            Phase::Starting | Phase::Stopping => self.send(&format!("{watchdog}{}", extension())),
        }
    }

    /// Waits for this, and counts each look at it as a turn: for a start or an end that takes long.
    pub(crate) async fn beside<T>(&mut self, what: impl Future<Output = T>, status: &str) -> T {
        tokio::pin!(what);
        loop {
            match timeout(self.longest_turn(), &mut what).await {
                Ok(done) => return done,
                Err(_) => self.turn(status),
            }
        }
    }

    fn tell_status(&mut self, status: &str) {
        let recent = self.status_told.is_some_and(|told| told.elapsed() < STATUS_EVERY);
        if !recent && self.status != status {
            status.clone_into(&mut self.status);
            self.status_told = Some(Instant::now());
            self.send(&format!("STATUS={status}\n"));
        }
    }

    fn send(&self, lines: &str) {
        if let Some(socket) = self.socket.as_ref().filter(|_| !lines.is_empty())
            && let Err(why) = socket.send(lines.as_bytes())
        {
            tracing::debug!(%why, "The service manager was not told.");
        }
    }
}

/// systemd gives this much time from now on, unless its own limits give more.
fn extension() -> String {
    format!("EXTEND_TIMEOUT_USEC={}\n", EXTENSION.as_micros())
}

/// A path, or with an `@` in front a name that no file bears.
fn connect(address: &str) -> io::Result<UnixDatagram> {
    let to = match address.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(address)?,
    };
    let socket = UnixDatagram::unbound()?;
    socket.connect_addr(&to)?;
    // A manager that reads nothing must not make the worker wait.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sa_harness::wait_until;

    fn heard(socket: &UnixDatagram) -> Vec<String> {
        let mut buffer = [0; 1024];
        socket.set_nonblocking(true).unwrap();
        std::iter::from_fn(|| socket.recv(&mut buffer).ok().map(|n| String::from_utf8_lossy(&buffer[..n]).into_owned()))
            .collect()
    }

    #[tokio::test]
    async fn a_whole_life_is_told_in_order() {
        let name = format!("sa-supervisor-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let mut supervisor = Supervisor::listening(&format!("@{name}"), Duration::from_millis(4));
        let mut told = Vec::new();
        // Waits until it is told of so many more turns.
        let mut turns = async |supervisor: &mut Supervisor, count: usize, status: &str| {
            let want = told.len() + count;
            let some = wait_until("some turns", Duration::from_secs(10), async || {
                told.extend(heard(&manager));
                told.len() >= want
            });
            supervisor.beside(some, status).await.unwrap();
        };

        turns(&mut supervisor, 3, "Waiting.").await;
        supervisor.ready();
        supervisor.ready();
        turns(&mut supervisor, 3, "Working.").await;
        supervisor.stopping("Ending.");
        turns(&mut supervisor, 3, "Ending.").await;

        told.dedup();
        let more_time = "EXTEND_TIMEOUT_USEC=60000000\n";
        let slow_turn = format!("WATCHDOG=1\n{more_time}");
        let stopping = format!("STOPPING=1\nSTATUS=Ending.\n{more_time}");
        // The status has changed twice within a second, so it was told once.
        let expected = ["STATUS=Waiting.\n", &slow_turn, "READY=1\n", "WATCHDOG=1\n", &stopping, &slow_turn];
        assert_eq!(told, expected);
    }

    #[test]
    fn turns_are_as_short_as_the_watchdog_asks_and_never_longer_than_five_seconds() {
        let of = |watchdog| Supervisor::at(None, watchdog).longest_turn();
        assert_eq!(of(None), Duration::from_secs(5));
        assert_eq!(of(Some(Duration::from_secs(60))), Duration::from_secs(5));
        assert_eq!(of(Some(Duration::from_secs(4))), Duration::from_secs(1));
    }

    #[test]
    fn nobody_is_told_nothing_and_nothing_breaks() {
        let mut supervisor = Supervisor::nobody();
        supervisor.turn("Waiting.");
        supervisor.ready();
        supervisor.stopping("Ending.");
        assert!(connect("/nowhere/at/all").is_err());
    }
}
