//! How many rows the server read, by its own counters.

use sa_core::id::{OrgId, UserId, WorkerId};
use sa_core::job::{Lane, Priority};
use sa_core::repo::{self, Claim, Claimer, Db, Serves};
use sa_core::viewer::Viewer;
use sqlx::{Connection, MySqlConnection, Row};

use super::crowd::{LEVELS, RUNNING};
use crate::stage::{Stage, succeed};

/// Whose reads are counted.
#[derive(Clone, Copy, Debug)]
pub enum Scope {
    Session,
    Server,
}

/// The sum of the server's `Handler_read_…` counters, and what looking at them adds.
#[derive(Clone, Copy, Debug)]
pub struct RowsRead {
    sum: u64,
    of_a_look: u64,
}

impl RowsRead {
    pub async fn now(session: &mut MySqlConnection, scope: Scope) -> Self {
        let first = look(session, scope).await;
        let sum = look(session, scope).await;
        Self { sum, of_a_look: sum - first }
    }

    /// Rows read between two moments, without those that the looks themselves read.
    pub fn since(self, before: Self) -> u64 {
        (self.sum - before.sum).saturating_sub(2 * self.of_a_look)
    }
}

async fn look(session: &mut MySqlConnection, scope: Scope) -> u64 {
    let query = match scope {
        Scope::Session => "SHOW SESSION STATUS LIKE 'Handler\\_read%'",
        Scope::Server => "SHOW GLOBAL STATUS LIKE 'Handler\\_read%'",
    };
    let rows = sqlx::query(query).fetch_all(session).await.unwrap();
    rows.iter().map(|row| row.get_unchecked::<String, _>(1).parse::<u64>().unwrap()).sum()
}

/// The verbs that run all the time, whole: on real binaries, or as those call them. Each reads what its batch needs, a
/// claim also some rows for every lane and level, and none of them anything of the hundreds of thousands around.
pub async fn of_the_verbs(stage: &Stage) -> Vec<String> {
    let mut count = Count { session: MySqlConnection::connect(stage.database.url()).await.unwrap(), wrong: Vec::new() };
    let once = stage.worker().args(["--once", "--batch-size", "5"]);
    count.of("a worker's run of five jobs", HEADS + 5 * 60, succeed(once)).await;
    let answered = "SELECT COUNT(*) FROM sa_job_event WHERE reason = 'success' AND actor LIKE 'worker:%'";
    assert_eq!(stage.count(answered).await, 5, "the worker's five are counted");
    let cli = stage.binary("sa-cli").args(["submit-prompt", "hello"]);
    count.of("a submit", 20, succeed(cli)).await;
    let reaper = stage.binary("sa-reaper").arg("reclaim-stuck-jobs");
    count.of("a reaper with nothing stale", 2 * RUNNING + 20, succeed(reaper)).await;

    let db = Db::connect(stage.database.url(), 1).await.unwrap();
    let lanes: Vec<_> = ["fake", "one", "two", "three"].map(Lane::new).to_vec();
    let mut claimer = Claimer::new(WorkerId::new(), Serves::only(lanes), Priority::LOWEST);
    let claims = count.of("a claim of five", HEADS + 4 * 16 + 3 * 20, claimer.claim(&db, 5)).await.unwrap();
    let again = count.of("the next claim of five", 4 * 16 + 3 * 20, claimer.claim(&db, 5)).await.unwrap();
    assert_eq!((claims.len(), again.len()), (5, 5));
    let held: Vec<_> = claims.iter().chain(&again).map(Claim::held).collect();
    let lost = count.of("a beat of ten", 6 * 10 + 10, repo::beat(&db, &held)).await.unwrap();
    assert_eq!(lost, []);
    let finished = claims.into_iter().map(|claim| claim.release(Vec::new())).collect();
    let written = count.of("a finalize of five", 3 * 20, repo::finalize(&db, finished)).await;
    assert!(written.iter().all(Result::is_ok));
    let viewer = Viewer { org: OrgId(1), user: UserId(1) };
    let page = count.of("the newest page", 50 * 8 + 10, repo::recent(&db, viewer, None, 50)).await.unwrap();
    let since = Some(page.entities[0].updated_at);
    count.of("a page since", 50 * 8 + 10, repo::recent(&db, viewer, since, 50)).await.unwrap();
    db.close().await;
    count.wrong
}

/// The heads of all levels, due or not: two rows for each, on MySQL some more.
const HEADS: u64 = 3 * LEVELS;

struct Count {
    session: MySqlConnection,
    wrong: Vec<String>,
}

impl Count {
    /// Counts what the whole server reads meanwhile; nobody else is on it.
    async fn of<T>(&mut self, what: &str, most: u64, doing: impl Future<Output = T>) -> T {
        let before = RowsRead::now(&mut self.session, Scope::Server).await;
        let done = doing.await;
        let read = RowsRead::now(&mut self.session, Scope::Server).await.since(before);
        println!("{what}: {read} rows read, at most {most} allowed");
        if read > most {
            self.wrong.push(format!("{what}: {read} rows read, at most {most} allowed"));
        }
        done
    }
}
