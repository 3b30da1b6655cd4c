//! Reads an answer's bytes within its limits of time and size.

use std::{future::Future, time::Duration};

use futures_util::{Stream, stream};
use reqwest::Response;
use sa_core::{error_kind::ErrorKind, provider::Timeouts};
use tokio::time::{Instant, timeout_at};

use super::{AdapterError, classify};

/// No answer of a language model is longer; what is longer is no answer.
const LARGEST: usize = 8 * 1024 * 1024;

/// The limits of a call that has begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    limits: Timeouts,
    deadline: Instant,
}

impl Clock {
    /// The call begins now.
    pub(super) fn start(limits: Timeouts) -> Self {
        Self { limits, deadline: Instant::now() + limits.total }
    }

    /// Waits for the head of the answer.
    pub(super) async fn first_byte<T>(&self, head: impl Future<Output = T>) -> Result<T, AdapterError> {
        self.within(self.limits.first_byte, "no answer began within", "first_byte_timeout", head).await
    }

    async fn piece<T>(&self, piece: impl Future<Output = T>) -> Result<T, AdapterError> {
        self.within(self.limits.idle, "the answer stopped coming for", "idle_timeout", piece).await
    }

    async fn within<T>(
        &self,
        limit: Duration,
        what: &str,
        setting: &str,
        future: impl Future<Output = T>,
    ) -> Result<T, AdapterError> {
        let soonest = (Instant::now() + limit).min(self.deadline);
        timeout_at(soonest, future).await.map_err(|_| {
            let show = humantime::format_duration;
            let message = if soonest == self.deadline {
                format!("the answer was not whole after {} (total_timeout)", show(self.limits.total))
            } else {
                format!("{what} {} ({setting})", show(limit))
            };
            AdapterError::cut_off(ErrorKind::Timeout, message)
        })
    }
}

/// The body of an answer, piece by piece.
pub(super) struct Body {
    response: Response,
    clock: Clock,
    /// Read by [`Body::first_byte`] and not yet handed out.
    head: Vec<u8>,
    read: usize,
}

impl Body {
    pub(super) fn new(response: Response, clock: Clock) -> Self {
        Self { response, clock, head: Vec::new(), read: 0 }
    }

    /// The first byte that is not white space, without taking it: it tells JSON from an event stream, where the
    /// content type may lie. Nothing for an empty body.
    pub(super) async fn first_byte(&mut self) -> Result<Option<u8>, AdapterError> {
        loop {
            if let Some(byte) = self.head.iter().find(|byte| !byte.is_ascii_whitespace()) {
                return Ok(Some(*byte));
            }
            let Some(piece) = self.piece().await? else { return Ok(None) };
            self.head.extend(piece);
        }
    }

    /// The next piece; nothing at the end.
    async fn next(&mut self) -> Result<Option<Vec<u8>>, AdapterError> {
        if self.head.is_empty() { self.piece().await } else { Ok(Some(std::mem::take(&mut self.head))) }
    }

    async fn piece(&mut self) -> Result<Option<Vec<u8>>, AdapterError> {
        let piece = self.clock.piece(self.response.chunk()).await?.map_err(classify::transport)?;
        let Some(piece) = piece else { return Ok(None) };
        self.read += piece.len();
        if self.read > LARGEST {
            let message = format!("the answer is longer than {} MiB", LARGEST / 1024 / 1024);
            return Err(AdapterError::cut_off(ErrorKind::Parse, message));
        }
        Ok(Some(piece.into()))
    }

    /// The whole body as text; what is not UTF-8 becomes U+FFFD.
    pub(super) async fn text(mut self) -> Result<String, AdapterError> {
        let mut bytes = Vec::new();
        while let Some(piece) = self.next().await? {
            bytes.extend(piece);
        }
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The body as pieces of text; what is not UTF-8 becomes U+FFFD, and a character cut in two is put together again.
    pub(super) fn pieces(self) -> impl Stream<Item = Result<String, AdapterError>> {
        stream::try_unfold((self, Decoder::default()), |(mut body, mut decoder)| async move {
            let Some(piece) = body.next().await? else { return Ok(None) };
            let text = decoder.decode(&piece);
            Ok(Some((text, (body, decoder))))
        })
    }
}

/// Decodes UTF-8 that comes in pieces, without ever failing.
#[derive(Default)]
struct Decoder {
    /// The beginning of a character whose end is still to come: at most three bytes.
    open: Vec<u8>,
}

impl Decoder {
    fn decode(&mut self, piece: &[u8]) -> String {
        self.open.extend_from_slice(piece);
        let bytes = std::mem::take(&mut self.open);
        let mut rest = bytes.as_slice();
        let mut text = String::with_capacity(rest.len());
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    return text;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    let Some(invalid) = error.error_len() else {
                        self.open = after.to_vec();
                        return text;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &after[invalid..];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_cut_in_two_are_whole_again_and_bad_bytes_are_replaced() {
        let text = "a👨‍👩‍👧 𝒳é";
        for size in 1..text.len() {
            let mut decoder = Decoder::default();
            let whole: String = text.as_bytes().chunks(size).map(|piece| decoder.decode(piece)).collect();
            assert_eq!(whole, text, "in pieces of {size}");
        }
        let mut decoder = Decoder::default();
        assert_eq!(decoder.decode(b"ok \xff\xfe \xf0\x9f"), "ok \u{fffd}\u{fffd} ");
        assert_eq!(decoder.decode(b"x"), "\u{fffd}x");
    }
}
