//! What every response has in common, and the refusals that belong to no route.

use reqwest::Method;

use crate::site::{Site, see};

#[tokio::test(flavor = "multi_thread")]
async fn unknown_route_is_a_problem() {
    let site = Site::open().await;
    for path in [
        "/",
        "/sa-core",
        "/sa-core/v1",
        "/sa-core/v1/",
        "/sa-core/v1/prompts",
        "/sa-core/v2/prompt",
        "/%00",
        "/sa-core/v1/prompt/",
        "/sa-core/v1/jobs",
        "/sa-core/v1/jobs/",
        "/favicon.ico",
        "//healthz",
    ] {
        see(site.request(Method::GET, path)).await.problem(404, "no_such_route");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_method_is_told_the_right_ones() {
    let site = Site::open().await;
    let matrix = [
        (Method::GET, "/sa-core/v1/prompt", "POST"),
        (Method::PUT, "/sa-core/v1/prompt", "POST"),
        (Method::POST, "/sa-core/v1/mission/recent", "GET, HEAD"),
        (Method::DELETE, "/sa-core/v1/jobs/01890000-0000-7000-8000-000000000000", "GET, HEAD"),
        (Method::GET, "/sa-core/v1/jobs/x/cancel", "POST"),
        (Method::PATCH, "/sa-core/v1/jobs/x/retry", "POST"),
        (Method::POST, "/healthz", "GET, HEAD"),
        (Method::OPTIONS, "/readyz", "GET, HEAD"),
    ];
    for (method, path, allow) in matrix {
        let seen = see(site.request(method.clone(), path)).await;
        seen.problem(405, "method_not_allowed");
        assert_eq!(seen.header("allow"), Some(allow), "{method} {path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn request_id_is_echoed_or_minted() {
    let site = Site::open().await;
    let with = |id: &str| site.request(Method::GET, "/healthz").header("x-request-id", id);
    assert_eq!(see(with("a-b_C.9")).await.header("x-request-id"), Some("a-b_C.9"));
    let refused = see(site.request(Method::GET, "/nowhere").header("x-request-id", "mine")).await;
    assert_eq!(refused.problem(404, "no_such_route")["instance"], "mine");
    for id in ["", "a b", "<script>", &"x".repeat(65)] {
        let seen = see(with(id)).await;
        assert_eq!(seen.header("x-request-id").unwrap().len(), 36, "{id:?} is replaced");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn links_carry_the_base_path_and_it_may_be_kept_or_stripped() {
    let site = Site::open_with(|api| api.behind("/asterion")).await;
    for path in ["/sa-core/v1/prompt", "/asterion/sa-core/v1/prompt"] {
        let request = site.request(Method::POST, path).bearer_auth(&site.token);
        let seen = see(request.json(&serde_json::json!({"prompt_text": "x"}))).await;
        let location = seen.header("location").unwrap().to_owned();
        assert!(location.starts_with("/asterion/sa-core/v1/jobs/"), "{location}");
        let seen = see(site.request(Method::GET, &location).bearer_auth(&site.token)).await;
        assert_eq!(seen.status, 200);
    }
    see(site.request(Method::GET, "/asterion/nowhere")).await.problem(404, "no_such_route");
}
