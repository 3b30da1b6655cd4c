//! Puts a streamed answer together, however its protocol cuts it into documents.

use std::{
    pin::{Pin, pin},
    time::Duration,
};

use eventsource_stream::{EventStream, EventStreamError, Eventsource};
use futures_util::{Stream, StreamExt};
use sa_core::error_kind::ErrorKind;
use serde_json::Value;
use tokio::time::timeout;

use super::{
    AdapterError, Received, classify,
    protocol::{Progress, Protocol, is_error},
};

/// How long to wait, once the model has stopped, for its token counts and for the end mark.
const TRAILER: Duration = Duration::from_secs(5);
/// How long to wait, once the end mark has come, for the end of the body: only then the connection can be used again.
const CLOSING: Duration = Duration::from_millis(100);

/// The mark some protocols put at the end of the stream, and some gateways at the end of every one.
const DONE: &str = "[DONE]";

/// Reads the server-sent events of one answer to their end: the protocol's end mark, or the model's stop where no mark
/// follows.
///
/// # Errors
/// `provider_5xx` if the body ends before either, whatever text had come; the error inside the stream, if it holds one.
pub(super) async fn events<P, S>(pieces: S, received: &Received) -> Result<P, AdapterError>
where
    P: Protocol,
    S: Stream<Item = Result<String, AdapterError>>,
{
    let mut events = pin!(pieces.eventsource());
    let mut answer = Answer::<P>::default();
    while let Some((name, data)) = answer.unless_stopped(next_event(&mut events)).await? {
        if data.trim() == DONE {
            answer.done();
        } else {
            answer.absorb(name == "error", &data, received)?;
        }
        if answer.is_over() {
            let _ = timeout(CLOSING, events.next()).await;
            break;
        }
    }
    answer.end()
}

/// Reads the lines of one answer, each a JSON document, to their end as [`events`] does.
///
/// # Errors
/// As [`events`].
pub(super) async fn lines<P, S>(pieces: S, received: &Received) -> Result<P, AdapterError>
where
    P: Protocol,
    S: Stream<Item = Result<String, AdapterError>>,
{
    let mut pieces = pin!(pieces);
    let mut answer = Answer::<P>::default();
    let mut open = String::new();
    while let Some(piece) = answer.unless_stopped(next_piece(&mut pieces)).await? {
        // Only the new piece is searched, so that a long line costs its length and not its square.
        let mut rest = piece.as_str();
        while let Some((end, later)) = rest.split_once('\n') {
            open.push_str(end);
            answer.absorb_line(&open, received)?;
            open.clear();
            rest = later;
        }
        open.push_str(rest);
        if answer.is_over() {
            let _ = timeout(CLOSING, pieces.next()).await;
            return answer.end();
        }
    }
    // A server that answers whole need not end its line.
    if !answer.is_stopped() && !open.trim().is_empty() {
        answer.absorb_last_line(&open, received)?;
    }
    answer.end()
}

/// An answer on its way.
struct Answer<P> {
    protocol: P,
    progress: Progress,
}

impl<P: Protocol> Default for Answer<P> {
    fn default() -> Self {
        Self { protocol: P::default(), progress: Progress::Open }
    }
}

impl<P: Protocol> Answer<P> {
    fn is_stopped(&self) -> bool {
        self.progress != Progress::Open
    }

    fn is_over(&self) -> bool {
        self.progress == Progress::Over
    }

    /// A model that has stopped has answered: what becomes of the connection after that changes nothing.
    async fn unless_stopped<T>(
        &self,
        next: impl Future<Output = Result<Option<T>, AdapterError>>,
    ) -> Result<Option<T>, AdapterError> {
        if self.is_stopped() {
            return Ok(timeout(TRAILER, next).await.ok().and_then(Result::ok).flatten());
        }
        next.await
    }

    fn absorb(&mut self, named_error: bool, data: &str, received: &Received) -> Result<(), AdapterError> {
        let document: Value = serde_json::from_str(data).map_err(|error| not_json(&error))?;
        self.take(named_error, &document, received)
    }

    fn absorb_line(&mut self, line: &str, received: &Received) -> Result<(), AdapterError> {
        if line.trim().is_empty() { Ok(()) } else { self.absorb(false, line, received) }
    }

    /// The rest of a body that ended within a line: a whole document, or one that was cut.
    fn absorb_last_line(&mut self, line: &str, received: &Received) -> Result<(), AdapterError> {
        match serde_json::from_str(line) {
            Ok(document) => self.take(false, &document, received),
            Err(error) if error.is_eof() => Ok(()),
            Err(error) => Err(not_json(&error)),
        }
    }

    fn take(&mut self, named_error: bool, document: &Value, received: &Received) -> Result<(), AdapterError> {
        if named_error || is_error(document) {
            return Err(classify::inner(document));
        }
        self.progress = match (self.progress, self.protocol.event(document, received)?) {
            // Token counts come after the stop, in documents that say nothing of it.
            (Progress::Stopped, Progress::Open) => Progress::Stopped,
            (Progress::Open | Progress::Stopped | Progress::Over, now) => now,
        };
        Ok(())
    }

    fn done(&mut self) {
        if P::ENDS_WITH_DONE || self.is_stopped() {
            self.progress = Progress::Over;
        }
    }

    fn end(self) -> Result<P, AdapterError> {
        if self.is_stopped() {
            return Ok(self.protocol);
        }
        Err(AdapterError::cut_off(ErrorKind::Provider5xx, "the answer ended before its end mark"))
    }
}

/// The next event, as its name and its data.
async fn next_event<S>(events: &mut Pin<&mut EventStream<S>>) -> Result<Option<(String, String)>, AdapterError>
where
    S: Stream<Item = Result<String, AdapterError>>,
{
    match events.next().await {
        None => Ok(None),
        Some(Ok(event)) => Ok(Some((event.event, event.data))),
        Some(Err(EventStreamError::Transport(error))) => Err(error),
        Some(Err(EventStreamError::Utf8(_) | EventStreamError::Parser(_))) => {
            Err(AdapterError::cut_off(ErrorKind::Parse, "the answer is not an event stream"))
        }
    }
}

async fn next_piece<S>(pieces: &mut Pin<&mut S>) -> Result<Option<String>, AdapterError>
where
    S: Stream<Item = Result<String, AdapterError>>,
{
    pieces.next().await.transpose()
}

/// A part that only lacks its end was cut on the way, as the whole would be.
fn not_json(error: &serde_json::Error) -> AdapterError {
    if error.is_eof() {
        return AdapterError::cut_off(ErrorKind::Provider5xx, "a part of the answer ended in the middle of its JSON");
    }
    AdapterError::cut_off(ErrorKind::Parse, format!("a part of the answer is not JSON: {error}"))
}

#[cfg(test)]
mod tests;
