//! What a Chat Completions document says, whole or in chunks.

use sa_core::ledger::Usage;
use serde_json::Value;

use super::{
    AdapterError, Received, Reply,
    answer::{self, Stop},
    count,
    protocol::{Framing, Progress, Protocol, error_member},
};

/// All that was told beside text, tokens and names.
#[derive(Debug, Default)]
pub(super) struct Completion {
    choice: bool,
    finish: Option<String>,
    refusal: String,
    tool: bool,
    filtered: bool,
}

impl Protocol for Completion {
    const FRAMING: Framing = Framing::Events;
    const ENDS_WITH_DONE: bool = true;

    fn event(&mut self, document: &Value, received: &Received) -> Result<Progress, AdapterError> {
        self.whole(document, received)?;
        Ok(if self.finish.is_some() { Progress::Stopped } else { Progress::Open })
    }

    fn whole(&mut self, document: &Value, received: &Received) -> Result<(), AdapterError> {
        if let Some(id) = document["id"].as_str() {
            received.name_request(id);
        }
        if let Some(model) = document["model"].as_str() {
            received.name_model(model);
        }
        received.set_usage(usage(&document["usage"]));
        error_member(document)?;
        self.filtered |= is_filtered(document);
        let choices = document["choices"].as_array().map_or(&[][..], Vec::as_slice);
        // We ask for one choice; a server that sends more must not have them mixed.
        for choice in choices.iter().filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0) {
            self.absorb_choice(choice, received);
        }
        Ok(())
    }

    fn settle(self, received: &Received) -> Result<Reply, AdapterError> {
        let blank = received.text().trim().is_empty();
        let stop = match self.finish.as_deref().unwrap_or_default() {
            "content_filter" | "content-filter" | "safety" => Stop::Filtered(String::new()),
            reason @ ("error" | "abort" | "aborted" | "insufficient_system_resource") => {
                Stop::GaveUp(format!("finish_reason {reason}"))
            }
            "tool_calls" | "function_call" => Stop::Tool,
            "length" | "max_tokens" | "model_length" => Stop::Budget,
            _ if !self.refusal.is_empty() => Stop::Refused(self.refusal),
            _ if self.filtered && blank => Stop::Filtered(String::new()),
            _ if self.tool && blank => Stop::Tool,
            _ if blank && !self.choice => return Err(answer::unreadable("the answer has no choices")),
            _ => Stop::Said,
        };
        answer::settle(stop, received)
    }
}

impl Completion {
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
}

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
    Usage {
        tokens_in: count(&usage["prompt_tokens"]),
        tokens_cached: count(&usage["prompt_tokens_details"]["cached_tokens"]),
        tokens_out: count(&usage["completion_tokens"]),
        tokens_reasoning: count(&usage["completion_tokens_details"]["reasoning_tokens"]),
    }
}

#[cfg(test)]
mod tests;
