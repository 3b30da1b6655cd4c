//! What the small types say of themselves, word for word: it stands in SQL, in JSON, in logs and on the command line.

use sa_core::error_kind::{ErrorKind, Failure};
use sa_core::id::{EntityId, OrgId, PromptId, ResponseId, UserId, WorkerId};
use sa_core::job::{ExecutionOptions, Lane, MaxAttempts, Priority};
use sa_core::timestamp;
use sa_core::viewer::{Actor, Scope, Viewer};
use serde::Serialize;
use serde_json::json;
use time::OffsetDateTime;

/// The specification's table, typed in a second time and by hand.
#[test]
fn a_repetition_may_cure_these_kinds_and_no_others() {
    use ErrorKind::{Provider5xx, RateLimit, Timeout, Unknown, WorkerCrash};
    for &kind in ErrorKind::ALL {
        let curable = [Timeout, RateLimit, Provider5xx, WorkerCrash, Unknown].contains(&kind);
        assert_eq!(kind.retryable(), curable, "{kind}");
    }
}

#[test]
fn a_failure_says_its_kind_and_message() {
    let failure = Failure::new(ErrorKind::Parse, "it could not be read");
    assert_eq!((failure.kind(), failure.message()), (ErrorKind::Parse, "it could not be read"));
    assert_eq!(Failure::MAX_MESSAGE, 8192);
}

#[test]
fn an_actor_is_a_role_and_a_name_of_plain_characters() {
    let worker = WorkerId::new();
    let said = [
        (Actor::user(UserId(42)), "user:42".to_owned()),
        (Actor::gateway(UserId(42)), "gateway:42".to_owned()),
        (Actor::worker(worker), format!("worker:{worker}")),
        (Actor::reaper("a host\u{e9}"), "reaper:ahost".to_owned()),
        (Actor::operator(&"n".repeat(200)), format!("operator:{}", "n".repeat(80))),
    ];
    for (actor, text) in said {
        assert_eq!((actor.as_str(), actor.to_string()), (text.as_str(), text.clone()));
    }
}

#[test]
fn a_viewer_is_both_numbers() {
    let of = |org, user| Viewer { org: OrgId(org), user: UserId(user) };
    let scope = Scope::Viewer(of(7, 42));
    let admitted = [of(7, 42), of(7, 43), of(8, 42), of(42, 7)].map(|owner| scope.admits(owner));
    assert_eq!(admitted, [true, false, false, false]);
    assert!(Scope::Everywhere.admits(of(1, 1)));
}

#[test]
fn lanes_priorities_and_attempts_say_what_they_were_made_of() {
    let lane = Lane::new("big");
    assert_eq!((lane.as_str(), lane.to_string().as_str(), lane.is_unresolved()), ("big", "big", false));
    assert!(Lane::default().is_unresolved());
    let priority = Priority::new(73).unwrap();
    assert_eq!((priority.get(), priority.to_string().as_str()), (73, "73"));
    assert_eq!(
        [0, 1, 13, 20, 21].map(|n| MaxAttempts::new(n).map(MaxAttempts::get)),
        [None, Some(1), Some(13), Some(20), None]
    );
    assert_eq!([100, 101].map(|n| Priority::new(n).is_some()), [true, false]);
}

#[test]
fn a_depth_is_the_callers_or_ten_and_never_above_fifty() {
    let depth = |depth| ExecutionOptions { depth, ..Default::default() }.depth();
    assert_eq!([None, Some(0), Some(7), Some(50), Some(51)].map(depth), [10, 0, 7, 50, 50]);
}

#[test]
fn prompts_and_responses_are_entities_under_their_own_ids() {
    let (prompt, response) = (PromptId::new(), ResponseId::from_uuid(uuid::Uuid::now_v7()));
    assert_eq!(EntityId::from(prompt).as_uuid(), prompt.as_uuid());
    assert_eq!(EntityId::from(response).as_uuid(), response.as_uuid());
}

#[derive(Serialize)]
struct Times {
    #[serde(serialize_with = "timestamp::serialize")]
    always: OffsetDateTime,
    #[serde(serialize_with = "timestamp::serialize_option")]
    sometimes: Option<OffsetDateTime>,
}

#[test]
fn times_are_texts_in_json() {
    let at = timestamp::parse("2026-12-01T08:22:28Z").unwrap();
    let text = "2026-12-01T08:22:28.000000Z";
    let both = serde_json::to_value(Times { always: at, sometimes: Some(at) }).unwrap();
    assert_eq!(both, json!({ "always": text, "sometimes": text }));
    let one = serde_json::to_value(Times { always: at, sometimes: None }).unwrap();
    assert_eq!(one, json!({ "always": text, "sometimes": null }));
}
