//! `GET /mission/recent`: what happened to the viewer's prompts since the last look.

use actix_web::{
    HttpRequest, HttpResponse,
    http::header::{self, EntityTag, Header, IfNoneMatch},
    web::Data,
};
use sa_core::{
    repo::{self, Recent},
    timestamp,
};
use serde::Serialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use crate::{Api, error::Problem, fields::Refusals, query::Parameters, viewer::Asker};

/// Prompts on a page where the caller does not say.
const USUAL: u32 = 50;
/// Most prompts a page may be asked to have.
const MOST: u32 = 200;

#[derive(Serialize)]
struct Page<'a> {
    #[serde(serialize_with = "timestamp::serialize")]
    as_of: OffsetDateTime,
    last_event_id: u64,
    has_more: bool,
    entities: &'a RawValue,
}

#[derive(Debug, PartialEq)]
struct Wanted {
    since: Option<OffsetDateTime>,
    limit: u32,
}

/// 200 with a page, or 304 when the caller has that page already.
pub(crate) async fn get(asker: Asker, api: Data<Api>, request: HttpRequest) -> Result<HttpResponse, Problem> {
    let Wanted { since, limit } = read(Parameters::of(&request)?)?;
    let viewer = asker.viewer;
    let recent = api.database.run(move |db| async move { repo::recent(&db, viewer, since, limit).await }).await??;
    let Recent { as_of, last_event_id, has_more, entities } = recent;
    let entities = serde_json::value::to_raw_value(&entities).map_err(Problem::fault)?;
    let tag = tag_of(&entities, has_more);
    let mut response = if has_already(&request, &tag) { HttpResponse::NotModified() } else { HttpResponse::Ok() };
    response
        .insert_header((header::ETAG, tag.to_string()))
        // Stored by the browser alone, and asked about each time.
        .insert_header((header::CACHE_CONTROL, "private, no-cache"));
    if has_already(&request, &tag) {
        return Ok(response.finish());
    }
    Ok(response.json(Page { as_of, last_event_id, has_more, entities: &entities }))
}

fn read(mut parameters: Parameters) -> Result<Wanted, Problem> {
    let mut refusals = Refusals::default();
    let since = parameters.take("since", &mut refusals).and_then(|text| {
        let since = since_of(&text);
        if since.is_none() {
            refusals.add("since", "must be an RFC 3339 time: the as_of of the last page");
        }
        since
    });
    let limit = parameters.take("limit", &mut refusals).map_or(Some(USUAL), |text| limit_of(&text));
    if limit.is_none() {
        refusals.add("limit", format!("must be a number from 1 to {MOST}"));
    }
    parameters.refuse_the_rest(&mut refusals);
    refusals.none()?;
    Ok(Wanted { since, limit: limit.unwrap_or(USUAL) })
}

/// The plus of `+00:00` arrives as a space from clients that do not encode it.
fn since_of(text: &str) -> Option<OffsetDateTime> {
    timestamp::parse(&text.replace(' ', "+")).map(|since| since.max(OffsetDateTime::UNIX_EPOCH))
}

/// Digits only: a sign is no part of a count.
fn limit_of(text: &str) -> Option<u32> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
        .filter(|n| (1..=MOST).contains(n))
}

/// Covers entities and `has_more` only: `as_of` moves with the clock, so it would change the tag of an unchanged page.
/// Weak, because a proxy may compress the page.
fn tag_of(entities: &RawValue, has_more: bool) -> EntityTag {
    let mut hash = Sha256::new();
    hash.update([u8::from(has_more)]);
    hash.update(entities.get());
    let tag: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    EntityTag::new_weak(tag)
}

fn has_already(request: &HttpRequest, tag: &EntityTag) -> bool {
    match IfNoneMatch::parse(request) {
        Ok(IfNoneMatch::Any) => true,
        Ok(IfNoneMatch::Items(tags)) => tags.iter().any(|known| known.weak_eq(tag)),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_may_have_lost_its_plus() {
        assert_eq!(since_of("2026-12-01T10:00:00 02:00"), since_of("2026-12-01T08:00:00Z"));
        assert_eq!(since_of("1066-10-14T09:00:00Z"), Some(OffsetDateTime::UNIX_EPOCH));
        for refused in ["", "yesterday", "2026-12-01", "2026-12-01T10:00:00", "1764576000", "2026-13-01T00:00:00Z"] {
            assert_eq!(since_of(refused), None, "{refused}");
        }
    }

    #[test]
    fn limit_is_a_plain_number_in_range() {
        assert_eq!((limit_of("1"), limit_of("200")), (Some(1), Some(200)));
        for refused in ["", "0", "201", "-1", "+5", "1.0", "ten", "99999999999999999999"] {
            assert_eq!(limit_of(refused), None, "{refused}");
        }
    }

    #[test]
    fn tag_follows_the_content_and_the_cut() {
        let page = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(tag_of(&page("[1]"), false), tag_of(&page("[1]"), false));
        assert_ne!(tag_of(&page("[1]"), false), tag_of(&page("[1]"), true));
        assert_ne!(tag_of(&page("[1]"), false), tag_of(&page("[2]"), false));
    }
}
