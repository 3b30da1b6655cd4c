use super::*;
use std::{
    os::unix::net::UnixDatagram,
    path::Path,
    sync::{Arc, mpsc},
    thread,
};

use clap::Parser;
use sa_boot::Beats;
use sa_core::{id::WorkerId, job::Priority, repo::Db};
use sa_harness::{Database, wait_until};
use tokio::sync::oneshot;

use crate::{Options, Providers};

const LIMIT: Duration = Duration::from_secs(30);
const ORDER: Order = Order { ceiling: Priority::LOWEST, fair_every: 0 };
const TERMS: Terms = Terms { batch_size: 1, idle_sleep: SHORTEST_PAUSE, grace: Duration::ZERO };

async fn station(url: &str, beats: Beats) -> Station {
    let (boot, _) = Options::try_parse_from(["sa-worker", "run-worker"]).unwrap().settings().unwrap();
    let db = Db::connect(url, 2).await.unwrap();
    let providers = Arc::new(Providers::load(None, &|_| None).unwrap());
    Station { boot, db, providers, worker: WorkerId::new(), beats }
}

#[tokio::test]
async fn service_whose_beats_have_ended_ends_with_an_error() {
    let database = Database::fresh().await.unwrap();
    // No clock can count twice this, so the thread that beats panics.
    let station = station(database.url(), Beats { every: Duration::MAX, stale: Duration::MAX }).await;

    let shutdown = Shutdown::new();
    let service = run(station, ORDER, TERMS, Supervisor::nobody(), &shutdown);
    let ended = timeout(LIMIT, service).await.expect("it ends");

    assert!(ended.unwrap_err().to_string().contains("beats have ended"));
}

/// Makes a thread wait, and so the poll loop on it hang: what says that it does, and what ends it.
type Hang = (oneshot::Sender<()>, mpsc::Receiver<()>);

/// A service on one thread of its own, and the service manager that it tells of its turns.
struct Watched {
    service: thread::JoinHandle<anyhow::Result<Exit>>,
    manager: UnixDatagram,
    fed: usize,
    shutdown: Shutdown,
    hang: oneshot::Sender<Hang>,
}

impl Watched {
    fn start(url: &str, address: &Path) -> Self {
        let manager = UnixDatagram::bind(address).unwrap();
        manager.set_nonblocking(true).unwrap();
        let supervisor = Supervisor::listening(address.to_str().unwrap(), Duration::from_millis(200));
        let (hang, told_to_hang) = oneshot::channel::<Hang>();
        let shutdown = Shutdown::new();
        let (url, asked) = (url.to_owned(), shutdown.clone());
        let service = async move {
            tokio::spawn(async move {
                if let Ok((hangs, until)) = told_to_hang.await {
                    hangs.send(()).unwrap();
                    until.recv().unwrap();
                }
            });
            // The beats find no database, so this is one whose database is away: each turn waits for it in vain.
            let beats = Beats { every: Duration::from_secs(30), stale: Duration::from_secs(225) };
            run(station(&url, beats).await, ORDER, TERMS, supervisor, &asked).await
        };
        let service = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(service)
        });
        Self { service, manager, fed: 0, shutdown, hang }
    }

    /// How often it was fed so far.
    fn fed(&mut self) -> usize {
        let mut buffer = [0; 1024];
        while let Ok(bytes) = self.manager.recv(&mut buffer) {
            self.fed += usize::from(buffer[..bytes].starts_with(b"WATCHDOG=1"));
        }
        self.fed
    }

    /// Waits until it is fed some more.
    async fn is_fed(&mut self, times: usize) {
        let want = self.fed() + times;
        wait_until("the watchdog to be fed", LIMIT, async || self.fed() >= want).await.unwrap();
    }
}

/// A poll loop hangs: its watchdog is not fed, while that of its twin is. Its database is away all the while, which is no
/// reason: as soon as its turns come to an end again, it is fed.
#[tokio::test]
async fn poll_loop_that_hangs_is_not_fed_and_one_whose_database_is_away_is() {
    let database = Database::fresh().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let [mut hanging, mut twin] =
        ["hanging", "twin"].map(|name| Watched::start(database.url(), &folder.path().join(name)));
    hanging.is_fed(3).await;
    let ((hangs, it_hangs), (let_go, until)) = (oneshot::channel(), mpsc::channel());
    let (no_more, _) = oneshot::channel();
    std::mem::replace(&mut hanging.hang, no_more).send((hangs, until)).unwrap();
    it_hangs.await.unwrap();

    let fed_before = hanging.fed();
    twin.is_fed(20).await;
    assert_eq!(hanging.fed(), fed_before);

    let_go.send(()).unwrap();
    hanging.is_fed(3).await;
    for Watched { service, shutdown, .. } in [hanging, twin] {
        shutdown.request();
        assert_eq!(service.join().unwrap().unwrap(), Exit::Done);
    }
}
