//! What the protocols share: documents come in, whole or in a stream, and at their end there is an answer or none.

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use sa_core::error_kind::ErrorKind;
use serde_json::Value;

use super::{AdapterError, Received, Reply, body::Body, classify, stream};

/// One protocol's reading of its documents. Text, tokens and names go straight to [`Received`]; the rest it remembers.
///
/// Documents are read member by member, because compatible servers differ in all that is not the text.
pub(super) trait Protocol: Default {
    /// How a stream is cut into documents.
    const FRAMING: Framing;
    /// Whether `[DONE]` ends an answer by itself. Where it does not, it says nothing: gateways add it to any stream.
    const ENDS_WITH_DONE: bool = false;

    /// Takes in one document of a stream.
    ///
    /// # Errors
    /// The error inside it, if it holds one.
    fn event(&mut self, document: &Value, received: &Received) -> Result<Progress, AdapterError>;

    /// Takes in an answer that came as one document.
    ///
    /// # Errors
    /// The error inside it, if it holds one.
    fn whole(&mut self, document: &Value, received: &Received) -> Result<(), AdapterError>;

    /// The answer, if there is one.
    ///
    /// # Errors
    /// `provider_4xx` for what was filtered or refused, `provider_5xx` for what the server gave up, `parse` for what has no
    /// text of its own.
    fn settle(self, received: &Received) -> Result<Reply, AdapterError>;
}

/// How a stream is cut into documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON document a line.
    Lines,
}

/// How far a streamed answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// More is to come.
    Open,
    /// The model has stopped; token counts and the end mark may follow.
    Stopped,
    /// That was the end mark.
    Over,
}

/// What a success says, in whichever of the two forms it comes: servers that cannot stream answer whole though asked to
/// stream, and gateways label either form as the other.
pub(super) async fn read<P: Protocol>(
    mut body: Body,
    headers: &HeaderMap,
    received: &Received,
) -> Result<P, AdapterError> {
    if P::FRAMING == Framing::Lines {
        return stream::lines(body.pieces(), received).await;
    }
    let labelled = headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"text/event-stream"));
    let streamed = match body.first_byte().await? {
        Some(b'{' | b'[') => false,
        // `data:`, `event:`, `id:`, `retry:`, or a comment.
        Some(b'd' | b'e' | b'i' | b'r' | b':') => true,
        Some(_) | None => labelled,
    };
    if streamed {
        return stream::events(body.pieces(), received).await;
    }
    let text = body.text().await?;
    let document: Value = serde_json::from_str(&text).map_err(|error| not_json(&error))?;
    if is_error(&document) {
        return Err(classify::inner(&document));
    }
    let mut protocol = P::default();
    protocol.whole(&document, received)?;
    Ok(protocol)
}

/// Whether a document says of itself that it is an error and no answer. Errors that come as a member are each protocol's.
pub(super) fn is_error(document: &Value) -> bool {
    document["type"] == "error" || document["object"] == "error"
}

/// The error that a document holds beside or in place of an answer.
pub(super) fn error_member(document: &Value) -> Result<(), AdapterError> {
    match document.get("error") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(classify::inner(document)),
    }
}

/// A document that only lacks its end was cut on the way, and another try may bring it whole.
fn not_json(error: &serde_json::Error) -> AdapterError {
    if error.is_eof() {
        return AdapterError::cut_off(ErrorKind::Provider5xx, "the answer ended in the middle of its JSON");
    }
    AdapterError::cut_off(ErrorKind::Parse, format!("the answer is not JSON: {error}"))
}
