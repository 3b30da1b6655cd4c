//! What a call gets: recorded bytes, and how they are spoilt.

use std::{fs, sync::Arc, time::Duration};

use tokio::sync::watch;

use crate::engine::repository_root;

/// Holds answers until the test opens it; clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Gate {
    /// A closed gate.
    #[must_use]
    pub fn closed() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Lets all answers that wait, and all later ones, go on.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    pub(super) async fn opened(&self) {
        // The sender lives as long as `self`, so this cannot fail.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// An answer, in bytes. Counts of bytes mean the body as it is on the wire, chunk framing included; 0 is "after the head".
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) bytes: Arc<[u8]>,
    pub(super) delay: Duration,
    pub(super) gate: Option<Gate>,
    pub(super) stop: Option<Stop>,
    pub(super) drip: Option<(usize, Duration)>,
}

/// Where within the answer something happens, and what.
#[derive(Clone, Debug)]
pub(super) struct Stop {
    pub(super) at: Place,
    pub(super) act: Act,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    BeforeHead,
    AfterBody(usize),
}

#[derive(Clone, Debug)]
pub(super) enum Act {
    Hang,
    Hold(Gate),
    Close,
    Reset,
}

impl Reply {
    /// A file of `proofs/wire/`, named without `.http`; errors are recorded there as well as successes.
    ///
    /// # Panics
    /// When there is no such recording: that is a typing error in the test.
    #[must_use]
    pub fn wire(name: &str) -> Self {
        let path = repository_root().join("proofs/wire").join(format!("{name}.http"));
        Self::bytes(fs::read(&path).unwrap_or_else(|error| panic!("no recording {}: {error}", path.display())))
    }

    /// Bytes made by hand, for what no well-meaning server sends.
    #[must_use]
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into().into(), delay: Duration::ZERO, gate: None, stop: None, drip: None }
    }

    /// An error or other small answer made by hand: status line such as `418 I'm a teapot`, further headers, body.
    #[must_use]
    pub fn by_hand(status: &str, headers: &[(&str, &str)], body: &str) -> Self {
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        Self::bytes(format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))
    }

    /// Waits before the head is sent.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sends nothing before the gate is open.
    #[must_use]
    pub fn until(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }

    /// Sends head and `n` bytes of the body, and the rest when the gate is open.
    #[must_use]
    pub fn until_after_bytes(self, n: usize, gate: &Gate) -> Self {
        self.stop_at(Place::AfterBody(n), Act::Hold(gate.clone()))
    }

    /// Takes the request and never says a word.
    #[must_use]
    pub fn hang_before_headers(self) -> Self {
        self.stop_at(Place::BeforeHead, Act::Hang)
    }

    /// Falls silent after `n` bytes of the body, with the connection open.
    #[must_use]
    pub fn hang_after_bytes(self, n: usize) -> Self {
        self.stop_at(Place::AfterBody(n), Act::Hang)
    }

    /// Closes the connection, in order, without any answer.
    #[must_use]
    pub fn cut_before_headers(self) -> Self {
        self.stop_at(Place::BeforeHead, Act::Close)
    }

    /// Closes the connection, in order, after `n` bytes of the body.
    #[must_use]
    pub fn cut_after_bytes(self, n: usize) -> Self {
        self.stop_at(Place::AfterBody(n), Act::Close)
    }

    /// Resets the connection (RST) after `n` bytes of the body; the client may lose bytes it has not read yet.
    #[must_use]
    pub fn reset_after_bytes(self, n: usize) -> Self {
        self.stop_at(Place::AfterBody(n), Act::Reset)
    }

    /// Sends `bytes` at a time with a pause of `every` after each.
    ///
    /// # Panics
    /// When `bytes` is 0.
    #[must_use]
    pub fn drip(mut self, bytes: usize, every: Duration) -> Self {
        assert!(bytes > 0, "nothing at a time never ends");
        self.drip = Some((bytes, every));
        self
    }

    fn stop_at(mut self, at: Place, act: Act) -> Self {
        self.stop = Some(Stop { at, act });
        self
    }
}
