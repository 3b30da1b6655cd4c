//! What a Chat Completions document says, whole or in chunks, and whether that is an answer.

use sa_core::{error_kind::ErrorKind, ledger::Usage};
use serde_json::Value;

use super::{AdapterError, Ending, Received, Reply, classify};

/// All that was told beside text, tokens and names, which go straight to [`Received`].
///
/// Documents are read member by member, because compatible servers differ in all that is not the text.
#[derive(Debug, Default)]
pub(super) struct Completion {
    choice: bool,
    finish: Option<String>,
    refusal: String,
    tool: bool,
    filtered: bool,
}

impl Completion {
    /// Takes in one document: a whole answer, or one chunk of a streamed one.
    ///
    /// # Errors
    /// The error inside it, if it holds one.
    pub(super) fn absorb(&mut self, document: &Value, received: &Received) -> Result<(), AdapterError> {
        if let Some(id) = document["id"].as_str() {
            received.name_request(id);
        }
        if let Some(model) = document["model"].as_str() {
            received.name_model(model);
        }
        received.set_usage(usage(&document["usage"]));
        if document.get("error").is_some_and(|error| !error.is_null()) {
            return Err(classify::inner(document));
        }
        self.filtered |= is_filtered(document);
        let choices = document["choices"].as_array().map_or(&[][..], Vec::as_slice);
        // We ask for one choice; a server that sends more must not have them mixed.
        for choice in choices.iter().filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0) {
            self.absorb_choice(choice, received);
        }
        Ok(())
    }

    fn absorb_choice(&mut self, choice: &Value, received: &Received) {
        self.choice = true;
        let part = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        match &part["content"] {
            Value::String(text) => received.add_text(text),
            Value::Array(parts) => {
                for text in parts.iter().filter_map(|part| part["text"].as_str()) {
                    received.add_text(text);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
        }
        self.refusal.push_str(part["refusal"].as_str().unwrap_or_default());
        self.tool |=
            part["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty()) || part["function_call"].is_object();
        if let Some(finish) = choice["finish_reason"].as_str().filter(|finish| !finish.is_empty()) {
            self.finish = Some(finish.to_ascii_lowercase());
        }
    }

    /// Whether the model has said that it stopped.
    pub(super) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    /// The answer, if this is one.
    ///
    /// # Errors
    /// `provider_4xx` for what was filtered or refused, `provider_5xx` for what the server gave up, `parse` for what has no
    /// text of its own.
    pub(super) fn settle(self, received: &Received) -> Result<Reply, AdapterError> {
        let parse = |message: &str| Err(AdapterError::new(ErrorKind::Parse, message));
        let refused = |message: String| Err(AdapterError::new(ErrorKind::Provider4xx, message));
        let text = received.text();
        let blank = text.trim().is_empty();
        match self.finish.as_deref().unwrap_or_default() {
            "content_filter" | "content-filter" | "safety" => {
                return refused("filtered: the provider's content filter stopped the answer".into());
            }
            reason @ ("error" | "abort" | "aborted" | "insufficient_system_resource") => {
                let message = format!("the provider gave up in mid-answer (finish_reason {reason})");
                return Err(AdapterError::new(ErrorKind::Provider5xx, message));
            }
            "tool_calls" | "function_call" => return parse(TOOL),
            "length" | "max_tokens" | "model_length" if blank => {
                return parse(
                    "the token budget was used up before any text came (reasoning counts): raise the token budget",
                );
            }
            "length" | "max_tokens" | "model_length" => return Ok(Reply { text, ending: Ending::Truncated }),
            // Servers have their own words for a plain end (stop, eos, end_turn): text that came whole is an answer.
            _ => {}
        }
        if !self.refusal.is_empty() {
            return refused(format!("refused: {}", self.refusal));
        }
        if self.filtered && blank {
            return refused("filtered: the provider's content filter stopped the prompt".into());
        }
        match (blank, self.tool, self.choice) {
            (false, _, _) => Ok(Reply { text, ending: Ending::Finished }),
            (true, true, _) => parse(TOOL),
            (true, false, true) => parse("the answer has no text"),
            (true, false, false) => parse("the answer has no choices"),
        }
    }
}

const TOOL: &str = "the model asked for a tool, and none was offered";

/// Providers say in different members that they answered nothing because of the prompt.
fn is_filtered(document: &Value) -> bool {
    let azure = document["prompt_filter_results"].as_array().is_some_and(|results| {
        let categories = results.iter().filter_map(|result| result["content_filter_results"].as_object());
        categories.flat_map(|found| found.values()).any(|category| category["filtered"] == true)
    });
    let gemini = [&document["promptFeedback"]["blockReason"], &document["prompt_feedback"]["block_reason"]];
    azure || gemini.iter().any(|reason| reason.is_string())
}

fn usage(usage: &Value) -> Usage {
    let count = |value: &Value| value.as_u64().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    Usage {
        tokens_in: count(&usage["prompt_tokens"]),
        tokens_cached: count(&usage["prompt_tokens_details"]["cached_tokens"]),
        tokens_out: count(&usage["completion_tokens"]),
        tokens_reasoning: count(&usage["completion_tokens_details"]["reasoning_tokens"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settle(document: &Value) -> (Result<Reply, AdapterError>, Received) {
        let received = Received::new();
        let mut completion = Completion::default();
        let settled = completion.absorb(document, &received).and_then(|()| completion.settle(&received));
        (settled, received)
    }

    fn failure(document: &Value) -> (ErrorKind, String) {
        let error = settle(document).0.unwrap_err();
        (error.kind, error.message)
    }

    #[test]
    fn a_plain_end_is_an_answer_whatever_the_server_calls_it() {
        for finish in [json!("stop"), json!("eos"), json!("end_turn"), json!(null)] {
            let (reply, received) = settle(&json!({
                "id": "chatcmpl-1", "model": "m-2026",
                "choices": [{"index": 0, "message": {"role": "assistant", "content": " hi 👋\n"}, "finish_reason": finish}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
            }));
            assert_eq!(reply, Ok(Reply { text: " hi 👋\n".into(), ending: Ending::Finished }));
            assert_eq!(received.model().as_deref(), Some("m-2026"));
            assert_eq!(received.provider_request_id().as_deref(), Some("chatcmpl-1"));
            let usage =
                Usage { tokens_in: Some(3), tokens_cached: Some(1), tokens_out: Some(2), tokens_reasoning: None };
            assert_eq!(received.usage(), usage);
        }
    }

    #[test]
    fn cb_91_no_choices_is_filtered_or_unreadable_and_never_repeated() {
        let filtered = [
            json!({"choices": [], "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": {"hate": {"filtered": true}}}]}),
            json!({"choices": [], "promptFeedback": {"blockReason": "SAFETY"}}),
        ];
        for document in filtered {
            let (kind, message) = failure(&document);
            assert_eq!(kind, ErrorKind::Provider4xx);
            assert!(message.starts_with("filtered"), "{message}");
        }
        for document in [json!({"choices": []}), json!({}), json!([]), json!("text"), json!({"choices": null})] {
            assert_eq!(failure(&document), (ErrorKind::Parse, "the answer has no choices".into()));
        }
    }

    #[test]
    fn cb_93_budget_spent_on_reasoning_is_unreadable_with_a_hint_and_its_usage() {
        let (settled, received) = settle(&json!({
            "choices": [{"message": {"content": ""}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": 5, "completion_tokens": 512, "completion_tokens_details": {"reasoning_tokens": 512}},
        }));
        let error = settled.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Parse);
        assert!(error.message.contains("raise the token budget"));
        assert_eq!(received.usage().tokens_reasoning, Some(512));
    }

    #[test]
    fn cb_94_length_with_text_is_a_truncated_answer() {
        let text = "x".repeat(5 * 1024);
        let (reply, _) = settle(&json!({"choices": [{"message": {"content": text}, "finish_reason": "length"}]}));
        assert_eq!(reply, Ok(Reply { text, ending: Ending::Truncated }));
    }

    #[test]
    fn cb_103_tool_call_is_unreadable() {
        for choice in [
            json!({"message": {"content": null, "tool_calls": [{"id": "1"}]}, "finish_reason": "tool_calls"}),
            json!({"message": {"content": null, "tool_calls": [{"id": "1"}]}, "finish_reason": "stop"}),
        ] {
            assert_eq!(failure(&json!({"choices": [choice]})), (ErrorKind::Parse, TOOL.into()));
        }
    }

    #[test]
    fn filter_and_refusal_are_the_callers_and_keep_the_partial_text() {
        let (settled, received) =
            settle(&json!({"choices": [{"message": {"content": "half"}, "finish_reason": "content_filter"}]}));
        assert_eq!(settled.unwrap_err().kind, ErrorKind::Provider4xx);
        assert_eq!(received.text(), "half");
        let refusal =
            json!({"choices": [{"message": {"content": null, "refusal": "I cannot"}, "finish_reason": "stop"}]});
        assert_eq!(failure(&refusal), (ErrorKind::Provider4xx, "refused: I cannot".into()));
    }

    #[test]
    fn empty_text_and_a_server_that_gave_up_are_no_answers() {
        let with = |content: Value, finish: &str| json!({"choices": [{"message": {"content": content}, "finish_reason": finish}]});
        assert_eq!(failure(&with(json!(null), "stop")).0, ErrorKind::Parse);
        assert_eq!(failure(&with(json!(" \n"), "stop")).0, ErrorKind::Parse);
        assert_eq!(failure(&with(json!("half"), "error")).0, ErrorKind::Provider5xx);
        let parts = settle(&with(json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "stop")).0;
        assert_eq!(parts.unwrap().text, "ab");
    }
}
