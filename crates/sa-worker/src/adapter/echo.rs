//! Answers with the prompt's own text: to try the way of a job without a model.

use std::future;

use super::{Adapter, Call, Ending, Received, Reply, Request};

/// The adapter of kind `echo`.
#[derive(Debug)]
pub struct Echo;

impl Adapter for Echo {
    fn call<'a>(&'a self, request: &'a Request, received: &'a Received) -> Call<'a> {
        received.add_text(&request.text);
        let reply = Reply { text: request.text.clone(), ending: Ending::Finished };
        Box::pin(future::ready(Ok(reply)))
    }
}
