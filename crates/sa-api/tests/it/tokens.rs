//! Who is let in, and as whom.

use sa_core::viewer::Role;
use serde_json::json;

use crate::site::{Site, see};

#[tokio::test(flavor = "multi_thread")]
async fn without_a_valid_token_every_answer_is_the_same() {
    let site = Site::open().await;
    let path = "/sa-core/v1/mission/recent";
    let plain = see(site.request(reqwest::Method::GET, path)).await;
    plain.problem(401, "no_token");
    assert_eq!(plain.header("www-authenticate"), Some("Bearer"));
    let wrong = format!("Bearer {}x", site.token);
    let cut = format!("Bearer {}", &site.token[..site.token.len() - 1]);
    let long = format!("Bearer sa_{}", "x".repeat(5000));
    let basic = format!("Basic {}", site.token);
    for value in ["", "Bearer", "Bearer ", "Bearer sa_", &wrong, &cut, &long, &basic, &site.token] {
        let seen = see(site.request(reqwest::Method::GET, path).header("authorization", value)).await;
        assert_eq!(seen.without_instance(), plain.without_instance(), "{value}");
        assert_eq!(seen.header("www-authenticate"), Some("Bearer"));
    }
    let twice = see(site.get("/mission/recent").header("authorization", format!("Bearer {}", site.token))).await;
    twice.problem(401, "no_token");
    let lower = site.request(reqwest::Method::GET, path).header("authorization", format!("bearer {}", site.token));
    assert_eq!(see(lower).await.status, 200);
    // Told before anything of the request is looked at.
    let unread = site.request(reqwest::Method::POST, "/sa-core/v1/prompt").body("no json");
    see(unread).await.problem(401, "no_token");
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_acts_for_users_of_its_organisation() {
    let site = Site::open().await;
    let gateway = site.token(1, 99, Role::Gateway).await;
    let body = json!({"prompt_text": "for seven"});
    let seen = see(site.post_as(&gateway, "/prompt").header("x-sa-user", "7").json(&body)).await;
    assert_eq!(seen.status, 202, "{}", seen.text);
    let own = see(site.get("/mission/recent")).await.json();
    assert_eq!(own["entities"][0]["prompt_text"], "for seven", "user 7 sees it with a token of their own");
    let actor: String =
        sqlx::query_scalar("SELECT actor FROM sa_job_event").fetch_one(site.database.pool()).await.unwrap();
    assert_eq!(actor, "gateway:7");
    let as_itself = see(site.get_as(&gateway, "/mission/recent")).await.json();
    assert_eq!(as_itself["entities"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_gateway_may_name_a_user() {
    let site = Site::open().await;
    for role in [Role::Viewer, Role::Operator] {
        let token = site.token(1, 20, role).await;
        for user in ["7", "20"] {
            let seen = see(site.get_as(&token, "/mission/recent").header("x-sa-user", user)).await;
            seen.problem(403, "forbidden");
        }
    }
    let gateway = site.token(1, 99, Role::Gateway).await;
    for user in ["", "seven", "-7", "+7", "7.0", "99999999999999999999", "7, 8"] {
        let seen = see(site.get_as(&gateway, "/mission/recent").header("x-sa-user", user)).await;
        assert_eq!(seen.refused_fields(), ["X-SA-User"], "{user:?}");
    }
    let twice = site.get_as(&gateway, "/mission/recent").header("x-sa-user", "7").header("x-sa-user", "8");
    assert_eq!(see(twice).await.refused_fields(), ["X-SA-User"]);
}
