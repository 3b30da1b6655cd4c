//! Clients that never stop: each submits a prompt, follows it to its answer, and submits the next.

use std::{
    mem::take,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::Client;
use sa_harness::wait_until;
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{interval, timeout},
};

use crate::stage::{Api, LIMIT};

const CLIENTS: usize = 6;
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Prompts under way, until [`Flow::end`].
pub struct Flow {
    shared: Arc<Shared>,
    clients: JoinSet<()>,
}

/// What the clients have in common.
struct Shared {
    /// The API that they ask; it may change in the middle of a job.
    base: Mutex<String>,
    token: String,
    over: AtomicBool,
    /// Jobs whose answer was seen.
    answered: Mutex<Vec<String>>,
}

impl Flow {
    pub fn through(api: &Api) -> Self {
        let shared = Arc::new(Shared {
            base: Mutex::new(api.base.clone()),
            token: api.token.clone(),
            over: AtomicBool::new(false),
            answered: Mutex::default(),
        });
        let clients = (1..=CLIENTS).map(|client| Arc::clone(&shared).run(client)).collect();
        Self { shared, clients }
    }

    /// From now on the clients ask another API, also about what they were following.
    pub fn turn_to(&self, api: &Api) {
        self.shared.base.lock().unwrap().clone_from(&api.base);
    }

    /// Waits until so many further answers were seen.
    pub async fn goes_on_for(&self, answers: usize) {
        let enough = self.shared.answers() + answers;
        wait_until(&format!("{answers} answers"), LIMIT, async || self.shared.answers() >= enough).await.unwrap();
    }

    /// Lets each client see its last answer. Returns the jobs of all prompts that were accepted.
    pub async fn end(self) -> Vec<String> {
        self.shared.over.store(true, Ordering::SeqCst);
        self.clients.join_all().await;
        take(&mut *self.shared.answered.lock().unwrap())
    }
}

impl Shared {
    fn answers(&self) -> usize {
        self.answered.lock().unwrap().len()
    }

    fn url(&self, path: &str) -> String {
        format!("{}/sa-core/v1/{path}", self.base.lock().unwrap())
    }

    async fn run(self: Arc<Self>, client: usize) {
        let http = Client::builder().timeout(LIMIT).build().unwrap();
        let mut n = 0;
        while !self.over.load(Ordering::SeqCst) {
            n += 1;
            let job = self.submit(&http, &format!("prompt {n} of client {client}")).await;
            let answered = timeout(LIMIT, self.follow(&http, &job)).await;
            answered.unwrap_or_else(|_| panic!("job {job} was accepted and not answered within {LIMIT:?}"));
            self.answered.lock().unwrap().push(job);
        }
    }

    async fn submit(&self, http: &Client, text: &str) -> String {
        let request = http.post(self.url("prompt")).bearer_auth(&self.token).json(&json!({ "prompt_text": text }));
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 202, "{text}");
        let ids: Value = response.json().await.unwrap();
        ids["job_id"].as_str().unwrap().to_owned()
    }

    async fn follow(&self, http: &Client, job: &str) {
        let mut looks = interval(LOOK_EVERY);
        while !self.is_answered(http, job).await {
            looks.tick().await;
        }
    }

    async fn is_answered(&self, http: &Client, job: &str) -> bool {
        let response = http.get(self.url(&format!("jobs/{job}"))).bearer_auth(&self.token).send().await.unwrap();
        assert_eq!(response.status(), 200, "{job}");
        let seen: Value = response.json().await.unwrap();
        match seen["state"].as_str().unwrap() {
            "succeeded" => {
                assert_ne!(seen["response"]["text"].as_str().unwrap_or_default(), "", "{seen}");
                true
            }
            state => {
                assert!(["queued", "running"].contains(&state), "{seen}");
                false
            }
        }
    }
}
