//! What a router model is asked, and what its answer means.

use sa_core::provider::{Catalog, Provider};

/// How much of the prompt the router reads, in bytes: enough to see what it is about.
const LONGEST_EXCERPT: usize = 4 * 1024;

/// Asks which of the configured models should answer this prompt.
pub(crate) fn question(catalog: &Catalog, prompt: &str) -> String {
    let mut question = String::from(
        "Choose the model that should answer the prompt below. Reply with the name of one of these models and nothing \
         else.\n\nModels:\n",
    );
    for model in catalog.models() {
        question.push_str(&format!("- {model}\n"));
    }
    question.push_str("\nPrompt:\n");
    question.push_str(&prompt[..prompt.floor_char_boundary(LONGEST_EXCERPT)]);
    question
}

/// The model that the reply names, with its provider: the reply is its name, or holds it and no other.
pub(crate) fn chosen<'a>(catalog: &'a Catalog, reply: &str) -> Option<(&'a Provider, &'a str)> {
    let named = |name: &str| {
        let provider = catalog.offering(name)?;
        provider.models.iter().find(|model| *model == name).map(|model| (provider, model.as_str()))
    };
    let bare = reply.trim_matches(|c: char| !c.is_alphanumeric());
    if let Some(model) = catalog.models().find(|model| model.eq_ignore_ascii_case(bare)) {
        return named(model);
    }
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    let words: Vec<_> = reply
        .split(|c| !inside(c))
        .map(|word| word.trim_matches(['.', ':', '/']))
        .filter(|word| !word.is_empty())
        .collect();
    let mut found: Vec<_> =
        catalog.models().filter(|model| words.iter().any(|word| model.eq_ignore_ascii_case(word))).collect();
    found.dedup();
    match found[..] {
        [only] => named(only),
        [] | [_, _, ..] => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let file = "
            [[provider]]
            name = \"a\"
            kind = \"echo\"
            models = [\"small\", \"org/large-2.5:free\"]
            [[provider]]
            name = \"b\"
            kind = \"echo\"
            models = [\"large\", \"small\"]";
        Catalog::load(Some(file), |_| None).unwrap()
    }

    #[test]
    fn a_reply_that_names_one_model_chooses_it() {
        let catalog = catalog();
        for (reply, provider, model) in [
            ("small", "a", "small"),
            (" `Large`.\n", "b", "large"),
            ("I would take **large** here.", "b", "large"),
            ("org/large-2.5:free", "a", "org/large-2.5:free"),
            ("The best is org/large-2.5:free.", "a", "org/large-2.5:free"),
        ] {
            let (chosen, name) = chosen(&catalog, reply).unwrap_or_else(|| panic!("{reply:?} names a model"));
            assert_eq!((chosen.name.as_str(), name), (provider, model), "{reply:?}");
        }
    }

    #[test]
    fn a_reply_that_names_none_or_several_chooses_nothing() {
        for reply in ["", "…", "gpt-9", "small or large", "largest", "I cannot help with that."] {
            assert_eq!(chosen(&catalog(), reply).map(|(_, model)| model), None, "{reply:?}");
        }
    }

    #[test]
    fn the_question_lists_the_models_and_cuts_the_prompt_at_a_character() {
        let question = question(&catalog(), &"é".repeat(5_000));
        assert!(question.contains("- small\n") && question.contains("- org/large-2.5:free\n"));
        assert_eq!(question.matches('é').count(), LONGEST_EXCERPT / 2);
    }
}
