//! How entities hang together.

use crate::text_enum::text_enum;

text_enum! {
    /// What an edge says.
    EdgeKind {
        /// From a prompt to its response.
        FlowsTo = "flows-to",
        /// From a response to the one that replaced it.
        SupersededBy = "superseded-by",
        /// Somebody marked the response as worth keeping.
        Promoted = "promoted",
        /// Somebody judged the response.
        Verdict = "verdict",
    }
}
