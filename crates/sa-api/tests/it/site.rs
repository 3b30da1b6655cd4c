//! A running API of a test's own.

use std::{
    net::{SocketAddr, TcpListener},
    time::Duration,
};

use reqwest::{Client, Method, RequestBuilder, StatusCode, header::HeaderMap};
use sa_api::Api;
use sa_boot::Shutdown;
use sa_core::{
    entity::{Answer, StateClass},
    id::{OrgId, UserId, WorkerId},
    job::{Lane, Priority},
    provider::Catalog,
    repo::{self, Claim, Claimer, Db, Serves, token},
    viewer::{Role, Viewer},
};
use sa_harness::Database;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// Two providers: enough to name one wrongly.
pub(crate) const PROVIDERS: &str = r#"
    [[provider]]
    name = "one"
    kind = "echo"
    models = ["small", "shared"]

    [[provider]]
    name = "two"
    kind = "echo"
    models = ["large", "shared"]
"#;

pub(crate) struct Site {
    pub(crate) database: Database,
    pub(crate) db: Db,
    pub(crate) address: SocketAddr,
    /// A viewer's token: organisation 1, user 7.
    pub(crate) token: String,
    client: Client,
    pub(crate) shutdown: Shutdown,
    pub(crate) server: JoinHandle<std::io::Result<()>>,
}

/// A response read to its end.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Site {
    pub(crate) async fn open() -> Self {
        Self::open_with(|api| api).await
    }

    pub(crate) async fn open_with(change: impl FnOnce(Api) -> Api) -> Self {
        let database = Database::fresh().await.unwrap();
        let url = database.url().to_owned();
        Self::open_on(database, &url, change).await
    }

    pub(crate) async fn open_on(database: Database, url: &str, change: impl FnOnce(Api) -> Api) -> Self {
        let db = Db::connect_within(url, 8, Duration::from_millis(500)).await.unwrap();
        let catalog = Catalog::load(Some(PROVIDERS), |_| None).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = Shutdown::new();
        let api = change(Api::new(db.clone(), catalog));
        let server = tokio::spawn(api.serve(listener, &shutdown).unwrap());
        let client = Client::builder().timeout(Duration::from_secs(30)).no_proxy().build().unwrap();
        let token = token_for(&db, 1, 7, Role::Viewer).await;
        Self { database, db, address, token, client, shutdown, server }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("http://{}{path}", self.address))
    }

    pub(crate) fn post(&self, path: &str) -> RequestBuilder {
        self.post_as(&self.token, path)
    }

    pub(crate) fn get(&self, path: &str) -> RequestBuilder {
        self.get_as(&self.token, path)
    }

    pub(crate) fn post_as(&self, token: &str, path: &str) -> RequestBuilder {
        self.request(Method::POST, &format!("/sa-core/v1{path}")).bearer_auth(token)
    }

    pub(crate) fn get_as(&self, token: &str, path: &str) -> RequestBuilder {
        self.request(Method::GET, &format!("/sa-core/v1{path}")).bearer_auth(token)
    }

    pub(crate) async fn token(&self, org: u64, user: u64, role: Role) -> String {
        token_for(&self.db, org, user, role).await
    }

    /// Submits a prompt and gives its job's id.
    pub(crate) async fn submit(&self, text: &str) -> String {
        let seen = see(self.post("/prompt").json(&json!({"prompt_text": text}))).await;
        assert_eq!(seen.status, 202, "{}", seen.text);
        seen.json()["job_id"].as_str().unwrap().to_owned()
    }

    /// Claims the one job that waits, as a worker would.
    pub(crate) async fn claim(&self) -> Claim {
        let lanes = vec![Lane::new("one"), Lane::new("two")];
        let serves = Serves::only(lanes);
        let mut claimer = Claimer::new(WorkerId::new(), serves, Priority::LOWEST);
        let mut claims = claimer.claim(&self.db, 1).await.unwrap();
        assert_eq!(claims.len(), 1, "one job waits");
        claims.remove(0)
    }

    /// Runs the one job that waits to this answer.
    pub(crate) async fn answer(&self, text: &str) {
        let answer = Answer {
            text: text.to_owned(),
            provider: "one".to_owned(),
            model: "small".to_owned(),
            state_class: StateClass::Settled,
            source_refs: vec![],
        };
        let finish = self.claim().await.succeed(answer, vec![]);
        let outcome = repo::finalize(&self.db, vec![finish]).await.remove(0);
        assert!(matches!(outcome, Ok(repo::Outcome::Written)));
    }

    /// How many jobs and entities there are in all.
    pub(crate) async fn rows(&self) -> (i64, i64) {
        sqlx::query_as("SELECT (SELECT COUNT(*) FROM sa_job), (SELECT COUNT(*) FROM sa_entity)")
            .fetch_one(self.database.pool())
            .await
            .unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.shutdown.request();
    }
}

async fn token_for(db: &Db, org: u64, user: u64, role: Role) -> String {
    let viewer = Viewer { org: OrgId(org), user: UserId(user) };
    token::create(db, viewer, role).await.unwrap().secret
}

pub(crate) async fn see(request: RequestBuilder) -> Seen {
    let response = request.send().await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    Seen { status, headers, text: response.text().await.unwrap() }
}

impl Seen {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {:?}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// Checks that this is a whole problem of this status and type, and gives its body.
    pub(crate) fn problem(&self, status: u16, slug: &str) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(self.header("cache-control"), Some("no-store"));
        let body = self.json();
        assert_eq!(body["type"], format!("urn:asterion:problem:{slug}"), "{body}");
        assert_eq!(body["status"], status);
        assert_eq!(body["instance"].as_str(), self.header("x-request-id"));
        assert!(body["title"].is_string() && body["detail"].is_string(), "{body}");
        body
    }

    /// Checks that this is a refusal of fields, and gives their names.
    pub(crate) fn refused_fields(&self) -> Vec<String> {
        let body = self.problem(422, "validation");
        let errors = body["errors"].as_array().unwrap();
        assert!(errors.iter().all(|error| error["message"].is_string()), "{body}");
        errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
    }

    /// The body without what differs between any two requests.
    pub(crate) fn without_instance(&self) -> String {
        let mut body = self.json();
        body.as_object_mut().unwrap().remove("instance");
        format!("{} {body}", self.status)
    }
}
