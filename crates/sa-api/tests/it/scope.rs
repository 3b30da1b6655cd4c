//! CB-107: another viewer's id is the same as no id, on every route, in every byte.

use reqwest::RequestBuilder;
use sa_core::viewer::Role;
use serde_json::json;

use crate::site::{Site, see};

const ABSENT: &str = "01890000-0000-7000-8000-000000000000";

type Call = fn(&Site, &str, &str) -> RequestBuilder;

/// Every route that takes an id.
const ROUTES: [(&str, Call); 4] = [
    ("job", |site, token, id| site.get_as(token, &format!("/jobs/{id}"))),
    ("cancel", |site, token, id| site.post_as(token, &format!("/jobs/{id}/cancel"))),
    ("retry", |site, token, id| site.post_as(token, &format!("/jobs/{id}/retry"))),
    ("retry with options", |site, token, id| {
        site.post_as(token, &format!("/jobs/{id}/retry")).json(&json!({"options": {"priority": 1}}))
    }),
];

#[tokio::test(flavor = "multi_thread")]
async fn foreign_id_is_answered_like_an_absent_one() {
    let site = Site::open().await;
    let ended = site.submit("ended").await;
    site.answer("done").await;
    let waiting = site.submit("waiting").await;
    let before = see(site.get("/mission/recent")).await.json()["entities"].clone();
    let strangers = [
        ("same organisation", site.token(1, 8, Role::Viewer).await),
        ("same user number elsewhere", site.token(2, 7, Role::Viewer).await),
        ("operator", site.token(1, 9, Role::Operator).await),
        ("gateway as itself", site.token(1, 10, Role::Gateway).await),
    ];
    for (who, token) in &strangers {
        for (route, call) in ROUTES {
            let absent = see(call(&site, token, ABSENT)).await;
            absent.problem(404, "not_found");
            for foreign in [&ended, &waiting, &"nonsense".to_owned(), &"%00".to_owned()] {
                let seen = see(call(&site, token, foreign)).await;
                assert_eq!(seen.without_instance(), absent.without_instance(), "{who} on {route} of {foreign}");
            }
        }
        let recent = see(site.get_as(token, "/mission/recent")).await.json();
        assert_eq!(recent["entities"], json!([]), "{who}");
    }
    let after = see(site.get("/mission/recent")).await.json()["entities"].clone();
    assert_eq!(before, after, "nothing changed");
}
