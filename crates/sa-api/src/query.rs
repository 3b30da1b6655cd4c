//! The query string of a request, parameter by parameter.

use actix_web::{HttpRequest, web::Query};

use crate::{error::Problem, fields::Refusals};

/// The parameters of one request, each of which is taken out once.
#[derive(Debug)]
pub(crate) struct Parameters(Vec<(String, String)>);

impl Parameters {
    /// Those of this request.
    ///
    /// # Errors
    /// When the query string cannot be decoded.
    pub(crate) fn of(request: &HttpRequest) -> Result<Self, Problem> {
        Query::from_query(request.query_string())
            .map(|Query(pairs)| Self(pairs))
            .map_err(|_| Problem::field("query", "must be name=value pairs joined by &"))
    }

    /// Takes out the value of this name.
    pub(crate) fn take(&mut self, name: &str, refusals: &mut Refusals) -> Option<String> {
        let index = self.0.iter().position(|(parameter, _)| parameter == name)?;
        let (_, value) = self.0.remove(index);
        if self.0.iter().any(|(parameter, _)| parameter == name) {
            self.0.retain(|(parameter, _)| parameter != name);
            refusals.add(name, "is given more than once");
        }
        Some(value)
    }

    /// Refuses whatever was not taken out: a misspelt `limit` must not pass for none.
    pub(crate) fn refuse_the_rest(self, refusals: &mut Refusals) {
        for (name, _) in self.0.iter().take(10) {
            refusals.add(name.chars().take(64).collect::<String>(), "is not a parameter of this request");
        }
    }
}
