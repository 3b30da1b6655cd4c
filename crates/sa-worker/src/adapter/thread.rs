//! The thread as messages, in the form every protocol shares.

use serde_json::{Value, json};

use super::Request;

/// Who says a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Who asks.
    User,
    /// Who answered.
    Model,
}

/// The thread, oldest first, ending with the prompt. Two prompts in a row (one had no answer) become one message: many
/// chat templates refuse a conversation whose roles do not alternate.
pub(super) fn messages(request: &Request) -> Vec<(Role, String)> {
    let mut messages = Vec::new();
    let mut open = String::new();
    for turn in &request.turns {
        open.push_str(&turn.prompt);
        match &turn.response {
            Some(response) => {
                messages.push((Role::User, std::mem::take(&mut open)));
                messages.push((Role::Model, response.clone()));
            }
            None => open.push_str("\n\n"),
        }
    }
    open.push_str(&request.text);
    messages.push((Role::User, open));
    messages
}

/// The thread as most protocols write it: `role` is `user` or `assistant`, `content` the text.
pub(super) fn chat_messages(request: &Request) -> Vec<Value> {
    let message = |(role, text)| match role {
        Role::User => json!({ "role": "user", "content": text }),
        Role::Model => json!({ "role": "assistant", "content": text }),
    };
    messages(request).into_iter().map(message).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sa_core::repo::Turn;

    #[test]
    fn unanswered_prompts_join_the_next_so_that_roles_alternate() {
        let turn =
            |prompt: &str, response: Option<&str>| Turn { prompt: prompt.into(), response: response.map(Into::into) };
        let request = Request {
            turns: vec![turn("a", Some("b")), turn("c", None)],
            text: "d".into(),
            model: "m".into(),
            max_output_tokens: None,
            idempotency_key: "k".into(),
        };
        let expected = json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c\n\nd"},
        ]);
        assert_eq!(Value::Array(chat_messages(&request)), expected);
    }
}
