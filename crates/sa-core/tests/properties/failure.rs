//! Messages of failures: they can be stored and shown, whatever a provider said.

use proptest::prelude::*;
use sa_core::error_kind::{ErrorKind, Failure};

fn messages() -> impl Strategy<Value = String> {
    let long =
        ("[a-zé\u{1F600}\u{7}\u{1b}\u{85}\u{9b}]{1,40}", 1..1_000_usize).prop_map(|(part, times)| part.repeat(times));
    prop_oneof![any::<String>(), long]
}

proptest! {
    #[test]
    fn a_message_is_the_longest_beginning_that_can_be_stored_and_shown(said in messages()) {
        let failure = Failure::new(ErrorKind::Unknown, said.clone());
        let message = failure.message();
        prop_assert!(message.len() <= Failure::MAX_MESSAGE);
        prop_assert!(!message.chars().any(char::is_control));
        let shown: String = said.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        prop_assert!(shown.starts_with(message));
        // One character more would not have fitted.
        let next = shown[message.len()..].chars().next().map_or(usize::MAX, char::len_utf8);
        prop_assert!(message.len().saturating_add(next) > Failure::MAX_MESSAGE);
    }

    #[test]
    fn a_message_that_was_stored_is_stored_as_it_is(said in messages()) {
        let once = Failure::new(ErrorKind::Timeout, said);
        prop_assert_eq!(Failure::new(ErrorKind::Timeout, once.message()), once);
    }
}
