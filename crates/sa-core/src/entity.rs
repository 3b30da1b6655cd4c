//! What people and models wrote, as values.

use crate::id::EntityId;
use crate::text_enum::text_enum;

text_enum! {
    /// What an entity is.
    EntityKind {
        /// Written by a person.
        Prompt = "prompt",
        /// Written by a model.
        Response = "response",
    }
}

text_enum! {
    /// How whole a text is.
    StateClass {
        /// Whole.
        Settled = "settled",
        /// Ended by the token budget.
        Truncated = "truncated",
        /// Received before its run was cancelled; never an answer.
        Partial = "partial",
    }
}

/// A provider's answer, ready to become a response entity.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The text, byte for byte.
    pub text: String,
    /// The provider's configured name.
    pub provider: String,
    /// The model that answered.
    pub model: String,
    /// Whether it is whole.
    pub state_class: StateClass,
    /// The entities that were sent as context.
    pub source_refs: Vec<EntityId>,
}
