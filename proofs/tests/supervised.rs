//! `proofs/run supervised`: what the worker tells systemd, heard on a socket in systemd's place.

use std::{
    os::unix::net::UnixDatagram,
    sync::{Arc, Mutex},
    time::Duration,
};

use sa_harness::{Binary, Gate, Reply, Rule, wait_until};
use tempfile::TempDir;

use crate::stage::{LIMIT, Stage};

/// How long the watchdog of these proofs waits.
const WATCHDOG: Duration = Duration::from_secs(2);

/// The service manager's end of the socket: what it has heard, line by line.
struct Manager {
    folder: TempDir,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Manager {
    fn listen() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(folder.path().join("notify")).unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let hears = Arc::clone(&heard);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(bytes) = socket.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..bytes]).into_owned();
                hears.lock().unwrap().extend(text.lines().map(str::to_owned));
            }
        });
        Self { folder, heard }
    }

    /// A worker that is started as a unit with `Type=notify` and `WatchdogSec=` is.
    fn start(&self, worker: Binary) -> Binary {
        worker
            .env("NOTIFY_SOCKET", self.folder.path().join("notify"))
            .env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string())
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().unwrap().clone()
    }

    /// How often it has heard this, or something that begins so.
    fn count(&self, line: &str) -> usize {
        self.heard().iter().filter(|heard| heard.starts_with(line)).count()
    }

    async fn wait_for(&self, line: &str, times: usize) {
        let what = format!("{line} to be heard {times} times");
        let waited = wait_until(&what, LIMIT, async || self.count(line) >= times).await;
        waited.unwrap_or_else(|error| panic!("{error}; heard were {:?}", self.heard()));
    }

    /// Waits until it is fed some more.
    async fn is_fed(&self) {
        self.wait_for("WATCHDOG=1", self.count("WATCHDOG=1") + 3).await;
    }

    /// What was heard, each line once, in the order of first hearing; numbers of jobs left out.
    fn order(&self) -> Vec<String> {
        let mut order: Vec<String> = Vec::new();
        for line in self.heard() {
            let line = line.split(|c: char| c.is_ascii_digit()).next().unwrap().to_owned();
            if !order.contains(&line) {
                order.push(line);
            }
        }
        order
    }
}

/// A whole life: ready once, fed while idle and while all places are taken by a slow provider, stopping once, and given more
/// time and fed as long as the grace lasts.
#[tokio::test]
async fn a_life_is_told_in_order_and_fed_to_its_end() {
    let (stage, manager) = (Stage::set().await, Manager::listen());
    let gate = Gate::closed();
    stage.provider.script(Rule::always().reply(Reply::wire("llama-chat-stream").until(&gate)));
    let worker = manager.start(stage.worker().args(["--batch-size", "1", "--grace", "10m"]));
    let mut worker = worker.spawn().unwrap();
    manager.wait_for("READY=1", 1).await;
    manager.is_fed().await;
    let job = stage.submit("hello", &[]).await;
    stage.provider.wait_for_calls(1, LIMIT).await.unwrap();
    manager.wait_for("STATUS=1 of 1 jobs in flight.", 1).await;
    manager.is_fed().await;
    assert_eq!(manager.count("EXTEND_TIMEOUT_USEC="), 0, "nothing takes long");

    worker.sigterm().unwrap();
    manager.wait_for("STOPPING=1", 1).await;
    manager.wait_for("EXTEND_TIMEOUT_USEC=60000000", 3).await;
    manager.is_fed().await;
    gate.open();
    assert!(worker.wait_exit(LIMIT).await.unwrap().success());
    assert_eq!(stage.state(&job).await, "succeeded");
    assert_eq!((manager.count("READY=1"), manager.count("STOPPING=1")), (1, 1));
    let told = manager.order();
    let told: Vec<_> = told.iter().map(String::as_str).filter(|line| *line != "STATUS=").collect();
    let stopping = ["STOPPING=", "STATUS=Stopping: ", "EXTEND_TIMEOUT_USEC="];
    assert_eq!(told, [&["READY=", "WATCHDOG="][..], &stopping].concat());
}

/// A database that is away is no hanging: before it was ever there the start is given more time and is not called ready;
/// later the watchdog is fed on and on, whether it refuses or does not answer at all.
#[tokio::test]
async fn a_worker_whose_database_is_away_is_not_ready_and_is_fed() {
    let (stage, manager) = (Stage::set().await, Manager::listen());
    let (proxy, url) = stage.proxy().await;
    proxy.refuse().await.unwrap();
    let mut worker = manager.start(stage.worker().env("DATABASE_URL", &url)).spawn().unwrap();
    manager.wait_for("EXTEND_TIMEOUT_USEC=60000000", 2).await;
    manager.wait_for("STATUS=Waiting for the database.", 1).await;
    assert_eq!(manager.count("READY=1"), 0);
    proxy.accept().await.unwrap();
    manager.wait_for("READY=1", 1).await;

    proxy.refuse().await.unwrap();
    proxy.cut().await;
    manager.wait_for("STATUS=The database does not answer", 1).await;
    manager.is_fed().await;
    proxy.accept().await.unwrap();
    worker.wait_for_output("Beats do not arrive", LIMIT).await.unwrap();
    let job = stage.submit("hello", &[]).await;
    stage.wait_for_state(&job, "succeeded").await;

    proxy.half_open();
    manager.is_fed().await;
    manager.is_fed().await;
    proxy.cut().await;
    proxy.forward();
    worker.sigterm().unwrap();
    assert!(worker.wait_exit(LIMIT).await.unwrap().success());
    assert_eq!((manager.count("READY=1"), manager.count("STOPPING=1")), (1, 1));
}

/// A frozen process feeds nobody; let go, it does again. Without a watchdog there is nothing to feed.
#[tokio::test]
async fn a_frozen_worker_is_not_fed_and_no_watchdog_asks_for_nothing() {
    let (stage, manager) = (Stage::set().await, Manager::listen());
    let worker = manager.start(stage.worker()).spawn().unwrap();
    manager.is_fed().await;
    worker.sigstop().unwrap();
    let fed = manager.count("WATCHDOG=1");
    let other = Manager::listen();
    let unwatched = other.start(stage.worker()).env("WATCHDOG_PID", "1").spawn().unwrap();
    other.wait_for("READY=1", 1).await;
    let job = stage.submit("hello", &[]).await;
    stage.wait_for_state(&job, "succeeded").await;
    assert_eq!(manager.count("WATCHDOG=1"), fed);
    worker.sigcont().unwrap();
    manager.is_fed().await;
    assert_eq!(other.count("WATCHDOG=1"), 0, "it was meant for another process");
    drop(unwatched);
}
