//! Takes secrets out of what a provider says.

const REDACTED: &str = "[redacted]";

/// What a secret looks like: its mark, and how much of the mark may be shown.
struct Mark {
    /// In lower case.
    start: &'static str,
    /// Whether the mark itself is kept: `key=` explains, `sk-` is already part of the secret.
    shown: bool,
    /// Shorter runs are words, such as `sk-learn`.
    at_least: usize,
}

const MARKS: [Mark; 8] = [
    Mark { start: "bearer ", shown: true, at_least: 8 },
    Mark { start: "sk-", shown: false, at_least: 8 },
    Mark { start: "gsk_", shown: false, at_least: 8 },
    Mark { start: "xai-", shown: false, at_least: 8 },
    Mark { start: "aiza", shown: false, at_least: 20 },
    Mark { start: "key=", shown: true, at_least: 1 },
    Mark { start: "token=", shown: true, at_least: 1 },
    Mark { start: "key: ", shown: true, at_least: 16 },
];

/// The text with everything that looks like a key replaced: `Bearer …`, `sk-…`, `…key=…`, and their like.
pub(super) fn scrub(mut text: String) -> String {
    for mark in &MARKS {
        text = without(&text, mark);
    }
    text
}

/// The text without one secret that is known word for word.
pub(super) fn scrub_exactly(text: &str, secret: &str) -> String {
    if secret.is_empty() { text.to_owned() } else { text.replace(secret, REDACTED) }
}

fn without(text: &str, mark: &Mark) -> String {
    // ASCII lower case keeps every byte in its place, so positions in one are positions in the other.
    let lower = text.to_ascii_lowercase();
    let mut clean = String::with_capacity(text.len());
    let mut from = 0;
    while let Some(found) = lower[from..].find(mark.start).map(|at| at + from) {
        let secret = found + mark.start.len();
        let end = secret + text[secret..].find(|c: char| !is_key(c)).unwrap_or(text.len() - secret);
        // A shown mark may end a longer word (api_key=); a hidden one inside a word is none (task-oriented).
        let inside_word = !mark.shown && text[..found].chars().next_back().is_some_and(char::is_alphanumeric);
        if inside_word || end - secret < mark.at_least {
            clean.push_str(&text[from..secret]);
            from = secret;
            continue;
        }
        clean.push_str(&text[from..if mark.shown { secret } else { found }]);
        clean.push_str(REDACTED);
        from = end;
    }
    clean.push_str(&text[from..]);
    clean
}

fn is_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*' | '+' | '/' | '%' | '~')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_key_is_replaced_and_words_stay() {
        let cases = [
            ("Incorrect API key provided: sk-proj-abcDEF123456.", "Incorrect API key provided: [redacted]"),
            ("got Authorization: Bearer eyJhbGciOi.J9.x_y", "got Authorization: Bearer [redacted]"),
            ("GET /v1?api_key=s3cret&model=m failed", "GET /v1?api_key=[redacted]&model=m failed"),
            ("https://h/x?KEY=AIzaSyA and more", "https://h/x?KEY=[redacted] and more"),
            ("a task-oriented model, see sk-learn", "a task-oriented model, see sk-learn"),
            ("the bearer of bad news 👨‍👩‍👧 𝒳", "the bearer of bad news 👨‍👩‍👧 𝒳"),
            ("sk-aaaaaaaaaa sk-bbbbbbbbbb", "[redacted] [redacted]"),
        ];
        for (text, clean) in cases {
            assert_eq!(scrub(text.to_owned()), clean);
        }
    }

    #[test]
    fn known_secret_is_replaced_whatever_it_looks_like() {
        assert_eq!(scrub_exactly("no hunter2 here", "hunter2"), "no [redacted] here");
        assert_eq!(scrub_exactly("unchanged", ""), "unchanged");
    }
}
