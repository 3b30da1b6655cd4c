//! `proofs/run acknowledged`: what was acknowledged is there, whatever breaks, and what is unknown is found out.

mod burst;
mod commits;
mod locks;
mod read_only;

use std::{
    collections::HashSet,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use sa_harness::{Proxy, wait_until};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

use crate::stage::{Api, LIMIT, Stage, complaints, complaints_of};

/// What is not both or neither: a prompt without a job, a job without a prompt, a job whose enqueue left no event, a prompt
/// without its audit row.
const HALVES: &str = "SELECT (SELECT COUNT(*) FROM sa_entity p LEFT JOIN sa_job j ON j.prompt_id = p.id
                               WHERE p.kind = 'prompt' AND j.id IS NULL)
                           + (SELECT COUNT(*) FROM sa_job j LEFT JOIN sa_entity p ON p.id = j.prompt_id WHERE p.id IS NULL)
                           + (SELECT COUNT(*) FROM sa_job j LEFT JOIN sa_job_event e ON e.job_id = j.id WHERE e.seq IS NULL)
                           + (SELECT COUNT(*) FROM sa_entity p LEFT JOIN sa_audit a ON a.subject_id = p.id
                               WHERE p.kind = 'prompt' AND a.id IS NULL)";

const JOBS: &str = "SELECT COUNT(*) FROM sa_job";

const CLIENTS: usize = 16;
/// The storm lasts until so many POSTs were begun and so many were answered.
const POSTS: usize = 3_000;
const ANSWERS: usize = 600;

/// What the clients of a storm have seen.
struct Storm {
    address: SocketAddr,
    token: String,
    begun: AtomicUsize,
    resets: AtomicUsize,
    accepted: Mutex<Vec<String>>,
    over: Mutex<bool>,
}

/// P1 and case bank CB-22, invariant I20: clients reset their connections in the middle of thousands of POSTs, the database
/// is 2 ms away in each direction, and then the API is killed under all of them. Each 202 has its prompt, its job, its event
/// and its audit row, and no request has left a half of these.
#[tokio::test]
async fn cb_22_every_202_of_an_api_under_a_storm_of_resets_has_its_row() {
    let stage = Stage::set().await;
    let (proxy, url) = stage.proxy().await;
    proxy.latency(Duration::from_millis(2));
    let Api { mut process, base, token } = stage.api_of(stage.binary("sa-api").env("DATABASE_URL", url)).await;
    let storm = Arc::new(Storm::on(base.strip_prefix("http://").unwrap().parse().unwrap(), token));

    let kill = async {
        let enough = async || storm.begun() >= POSTS && storm.accepted().len() >= ANSWERS;
        wait_until("the storm to have raged", LIMIT * 2, enough).await.unwrap();
        *storm.over.lock().unwrap() = true;
        process.kill9().unwrap();
    };
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        clients.spawn(Arc::clone(&storm).client(client));
    }
    tokio::join!(kill, clients.join_all());

    let resets = storm.resets.load(Ordering::SeqCst);
    assert!(resets >= POSTS / 4, "many clients went away");
    let accepted = storm.accepted();
    let there: HashSet<String> =
        sqlx::query_scalar("SELECT id FROM sa_job").fetch_all(stage.pool()).await.unwrap().into_iter().collect();
    let lost: Vec<_> = accepted.iter().filter(|job| !there.contains(*job)).collect();
    assert!(lost.is_empty(), "{} of {} acknowledged jobs are gone, such as {}", lost.len(), accepted.len(), lost[0]);
    assert_eq!(stage.count(HALVES).await, 0);
    assert!(there.len() > accepted.len() + resets / 8, "resets fell into the middle of work, which went on to its end");
}

impl Storm {
    fn on(address: SocketAddr, token: String) -> Self {
        let (begun, resets) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { address, token, begun, resets, accepted: Mutex::default(), over: Mutex::new(false) }
    }

    fn begun(&self) -> usize {
        self.begun.load(Ordering::SeqCst)
    }

    fn accepted(&self) -> Vec<String> {
        self.accepted.lock().unwrap().clone()
    }

    /// One client: it resets three POSTs, each a little later in its life than the one before, and waits for the fourth.
    async fn client(self: Arc<Self>, number: usize) {
        for round in 0.. {
            let n = self.begun.fetch_add(1, Ordering::SeqCst);
            let patience = if round % 4 == 3 { LIMIT } else { Duration::from_millis((n * 7 + number) as u64 % 100) };
            match timeout(patience, self.post(n)).await {
                Ok(Some(job)) => self.accepted.lock().unwrap().push(job),
                Ok(None) => {
                    assert!(*self.over.lock().unwrap(), "a POST failed while the API was alive");
                    return;
                }
                // Dropping the stream has reset the connection.
                Err(_) => drop(self.resets.fetch_add(1, Ordering::SeqCst)),
            }
        }
    }

    /// The job of a 202; nothing if the server has gone. Whatever ends this ends the connection with a reset.
    async fn post(&self, n: usize) -> Option<String> {
        let mut stream = TcpStream::connect(self.address).await.ok()?;
        stream.set_zero_linger().unwrap();
        let body = format!("{{\"prompt_text\":\"prompt {n}\"}}");
        let head = format!(
            "POST /sa-core/v1/prompt HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.address,
            self.token,
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        assert!(head.starts_with("HTTP/1.1 202 "), "{answer}");
        let ids: Value = serde_json::from_str(body).ok()?;
        Some(ids["job_id"].as_str().unwrap().to_owned())
    }
}

/// What the network does to one COMMIT.
#[derive(Clone, Copy, Debug)]
enum Cut {
    /// The server has committed, and nobody hears of it.
    Acknowledgement,
    /// The server never sees the COMMIT, which to its client looks the same.
    Before,
}

const BOTH_CUTS: [Cut; 2] = [Cut::Acknowledgement, Cut::Before];

impl Cut {
    fn arm(self, proxy: &Proxy) {
        match self {
            Self::Acknowledgement => proxy.cut_ack_of_next_commit(),
            Self::Before => proxy.cut_before_next_commit(),
        }
    }
}
