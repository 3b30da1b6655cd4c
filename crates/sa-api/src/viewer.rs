//! Who asks: from the token of a request to the viewer whose rows it may see.

use std::{future::Future, pin::Pin};

use actix_web::{
    FromRequest, HttpRequest, dev,
    http::header::{self, HeaderName},
    web::Data,
};
use sa_core::{
    id::UserId,
    repo::token,
    viewer::{Actor, Role, Scope, Viewer},
};

use crate::{Api, error::Problem};

/// The user a gateway acts for.
const ACTS_FOR: HeaderName = HeaderName::from_static("x-sa-user");
/// A token is far shorter; what is longer is not even hashed.
const LONGEST_TOKEN: usize = 256;

/// Whose rows a request may see and change, and what is written down about who did it.
///
/// As an extractor it is the door of every route but the health ones: it answers 401 or 403 before a body is read.
#[derive(Clone, Debug)]
pub(crate) struct Asker {
    /// Whose rows.
    pub(crate) viewer: Viewer,
    /// Who, in events and audit rows.
    pub(crate) actor: Actor,
}

impl Asker {
    /// The scope of every statement of this request. An operator's wider sight is for the operators' own routes.
    pub(crate) fn scope(&self) -> Scope {
        Scope::Viewer(self.viewer)
    }
}

impl FromRequest for Asker {
    type Error = Problem;
    type Future = Pin<Box<dyn Future<Output = Result<Self, Problem>>>>;

    fn from_request(request: &HttpRequest, _: &mut dev::Payload) -> Self::Future {
        let token = bearer(request).map(str::to_owned);
        let acts_for = user_acted_for(request);
        let api = request.app_data::<Data<Api>>().cloned();
        Box::pin(async move {
            let api = api.ok_or_else(|| Problem::fault("the application has no Api"))?;
            let token = token.ok_or_else(Problem::no_token)?;
            let known = api.database.run(|db| async move { token::verify(&db, &token).await }).await??;
            asker(&known.ok_or_else(Problem::no_token)?, acts_for?)
        })
    }
}

fn asker(caller: &token::Caller, acts_for: Option<UserId>) -> Result<Asker, Problem> {
    let own = Asker { viewer: caller.viewer, actor: Actor::user(caller.viewer.user) };
    match (caller.role, acts_for) {
        (Role::Viewer | Role::Operator | Role::Gateway, None) => Ok(own),
        (Role::Gateway, Some(user)) => {
            Ok(Asker { viewer: Viewer { org: caller.viewer.org, user }, actor: Actor::gateway(user) })
        }
        (Role::Viewer | Role::Operator, Some(_)) => Err(Problem::forbidden(
            "Only a token of role gateway may act for another user. Leave X-SA-User out, or use such a token.",
        )),
    }
}

/// The token of `Authorization: Bearer`; the scheme's name is of any case. Of two headers neither counts: a proxy in
/// front may have looked at the other one.
fn bearer(request: &HttpRequest) -> Option<&str> {
    let mut headers = request.headers().get_all(header::AUTHORIZATION);
    let (Some(header), None) = (headers.next(), headers.next()) else { return None };
    let (scheme, token) = header.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && (1..=LONGEST_TOKEN).contains(&token.len())).then_some(token)
}

fn user_acted_for(request: &HttpRequest) -> Result<Option<UserId>, Problem> {
    let mut values = request.headers().get_all(ACTS_FOR);
    let Some(value) = values.next() else { return Ok(None) };
    let user = value.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    match (user.and_then(|digits| digits.parse().ok()), values.next()) {
        (Some(user), None) => Ok(Some(user)),
        (None | Some(_), _) => Err(Problem::field("X-SA-User", "must be one user's number, given once")),
    }
}
