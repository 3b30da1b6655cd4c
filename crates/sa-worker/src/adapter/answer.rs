//! Whether what came is an answer: how the model stopped, in the words of no protocol.

use sa_core::error_kind::ErrorKind;

use super::{AdapterError, Ending, Received, Reply};

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It had said all. Servers have their own words for it, so what no protocol names is this too.
    Said,
    /// The token budget, or the model's own context, was used up.
    Budget,
    /// The provider's content filter; in the provider's words, where it gives a reason.
    Filtered(String),
    /// The model said no; in its own words, where it gives any.
    Refused(String),
    /// It asked for a tool.
    Tool,
    /// The server stopped it; in the server's words.
    GaveUp(String),
}

const TOOL: &str = "the model asked for a tool, and none was offered";

/// The answer, if the text that came and the way it stopped make one.
///
/// # Errors
/// `provider_4xx` for what was filtered or refused, `provider_5xx` for what the server gave up, `parse` for what has no
/// text of its own.
pub(super) fn settle(stop: Stop, received: &Received) -> Result<Reply, AdapterError> {
    let parse = |message: &str| Err(unreadable(message));
    let refused = |message: String| Err(AdapterError::new(ErrorKind::Provider4xx, message));
    let text = received.text();
    let blank = text.trim().is_empty();
    match stop {
        Stop::Said if blank => parse("the answer has no text"),
        Stop::Said => Ok(Reply { text, ending: Ending::Finished }),
        Stop::Budget if blank => {
            parse("the token budget was used up before any text came (reasoning counts): raise the token budget")
        }
        Stop::Budget => Ok(Reply { text, ending: Ending::Truncated }),
        Stop::Filtered(reason) => {
            let stopped = if blank { "the prompt" } else { "the answer" };
            refused(with_reason(&format!("filtered: the provider's content filter stopped {stopped}"), &reason))
        }
        Stop::Refused(reason) => refused(with_reason("refused: the model does not answer this", &reason)),
        Stop::Tool => parse(TOOL),
        Stop::GaveUp(reason) => {
            let message = with_reason("the provider gave up in mid-answer", &reason);
            Err(AdapterError::new(ErrorKind::Provider5xx, message))
        }
    }
}

/// What came is no answer, and asking again would bring no other.
pub(super) fn unreadable(message: &str) -> AdapterError {
    AdapterError::new(ErrorKind::Parse, message)
}

fn with_reason(message: &str, reason: &str) -> String {
    if reason.is_empty() { message.to_owned() } else { format!("{message} ({reason})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(text: &str, stop: Stop) -> Result<Reply, (ErrorKind, String)> {
        let received = Received::new();
        received.add_text(text);
        settle(stop, &received).map_err(|error| (error.kind, error.message))
    }

    #[test]
    fn text_and_the_way_it_stopped_make_an_answer_or_none() {
        let reply = |text: &str, ending| Ok(Reply { text: text.into(), ending });
        assert_eq!(settled(" hi\n", Stop::Said), reply(" hi\n", Ending::Finished));
        assert_eq!(settled("cut", Stop::Budget), reply("cut", Ending::Truncated));
        let cases = [
            (" \n", Stop::Said, ErrorKind::Parse, "the answer has no text"),
            ("", Stop::Budget, ErrorKind::Parse, "raise the token budget"),
            ("half", Stop::Filtered("SAFETY".into()), ErrorKind::Provider4xx, "stopped the answer (SAFETY)"),
            ("", Stop::Filtered(String::new()), ErrorKind::Provider4xx, "stopped the prompt"),
            ("half", Stop::Refused("no".into()), ErrorKind::Provider4xx, "refused"),
            ("half", Stop::Tool, ErrorKind::Parse, TOOL),
            ("half", Stop::GaveUp("error".into()), ErrorKind::Provider5xx, "(error)"),
        ];
        for (text, stop, kind, said) in cases {
            let (found, message) = settled(text, stop).unwrap_err();
            assert!(found == kind && message.contains(said), "{found}: {message}");
        }
    }
}
