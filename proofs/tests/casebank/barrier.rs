//! A place in the middle of a transaction where a process is held, so that it can be killed or cut off just there.

use sa_harness::{Proxy, wait_until};
use sqlx::{AssertSqlSafe, Executor, MySql, pool::PoolConnection};

use crate::stage::{LIMIT, Stage};

/// A trigger that says that it was reached, by a lock, and then waits for another. Both locks end with their sessions.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// A job is about to be inserted: what its transaction wrote before is written.
    JobInsert,
    /// A job is about to become `running`: the claim is not committed yet.
    Claim,
    /// A claim's events are about to be inserted: all its rows are locked and changed.
    ClaimEvent,
}

impl Place {
    fn trigger(self) -> &'static str {
        match self {
            Self::JobInsert => {
                "CREATE TRIGGER barrier BEFORE INSERT ON sa_job FOR EACH ROW BEGIN \
                 DO GET_LOCK(CONCAT(DATABASE(), '.reached'), 0); \
                 DO GET_LOCK(CONCAT(DATABASE(), '.barrier'), 25); END"
            }
            Self::Claim => {
                "CREATE TRIGGER barrier BEFORE UPDATE ON sa_job FOR EACH ROW IF NEW.state = 'running' THEN \
                 DO GET_LOCK(CONCAT(DATABASE(), '.reached'), 0); \
                 DO GET_LOCK(CONCAT(DATABASE(), '.barrier'), 25); END IF"
            }
            Self::ClaimEvent => {
                "CREATE TRIGGER barrier BEFORE INSERT ON sa_job_event FOR EACH ROW IF NEW.reason = 'claim' THEN \
                 DO GET_LOCK(CONCAT(DATABASE(), '.reached'), 0); \
                 DO GET_LOCK(CONCAT(DATABASE(), '.barrier'), 25); END IF"
            }
        }
    }
}

/// Holds every transaction that comes to a place, until it is let go.
pub struct Barrier<'a> {
    stage: &'a Stage,
    holder: PoolConnection<MySql>,
}

impl<'a> Barrier<'a> {
    pub async fn at(stage: &'a Stage, place: Place) -> Self {
        let mut holder = stage.pool().acquire().await.unwrap();
        // A session that was held at an earlier barrier gives its locks up one after the other.
        let take = sqlx::query_scalar::<_, i64>("SELECT GET_LOCK(CONCAT(DATABASE(), '.barrier'), 25)");
        assert_eq!(take.fetch_one(&mut *holder).await.unwrap(), 1, "the barrier is ours");
        stage.pool().execute(place.trigger()).await.unwrap();
        Self { stage, holder }
    }

    /// Waits until a transaction is held here.
    pub async fn reached(&self) {
        wait_until("a transaction at the barrier", LIMIT, async || self.is_reached().await).await.unwrap();
    }

    pub async fn let_go(&mut self) {
        self.holder.execute("DO RELEASE_LOCK(CONCAT(DATABASE(), '.barrier'))").await.unwrap();
    }

    /// Lets the transaction go on to its COMMIT, which the server does and nobody hears of; nor can anybody ask again
    /// before the proxy accepts connections.
    pub async fn let_go_unheard(&mut self, proxy: &Proxy) {
        proxy.cut_ack_of_next_commit();
        proxy.refuse().await.unwrap();
        self.end_all_other_sessions().await;
        self.let_go().await;
        wait_until("the commit", LIMIT, async || proxy.commits_cut() == 1).await.unwrap();
    }

    /// Waits for the end of the session that was held, whose client is gone, and takes the barrier away.
    pub async fn remove(self) {
        wait_until("the end of the session", LIMIT, async || !self.is_reached().await).await.unwrap();
        self.stage.pool().execute("DROP TRIGGER barrier").await.unwrap();
    }

    /// A process may have another connection, over which it could still ask; our own pool makes new ones.
    async fn end_all_other_sessions(&self) {
        let others = "SELECT CAST(id AS CHAR) FROM information_schema.processlist WHERE db = DATABASE() AND id NOT IN \
                      (CONNECTION_ID(), IS_USED_LOCK(CONCAT(DATABASE(), '.reached')), \
                       IS_USED_LOCK(CONCAT(DATABASE(), '.barrier')))";
        let others: Vec<String> = sqlx::query_scalar(others).fetch_all(self.stage.pool()).await.unwrap();
        for id in &others {
            // One that has just ended by itself is as good.
            let _ = self.stage.pool().execute(AssertSqlSafe(format!("KILL {id}"))).await;
        }
        let left = "SELECT COUNT(*) FROM information_schema.processlist WHERE FIND_IN_SET(id, ?)";
        let others = others.join(",");
        let gone = async || {
            let left = sqlx::query_scalar::<_, i64>(left).bind(&others).fetch_one(self.stage.pool());
            left.await.map(|left| left == 0)
        };
        wait_until("the end of all other sessions", LIMIT, gone).await.unwrap();
    }

    async fn is_reached(&self) -> bool {
        self.stage.count("SELECT COALESCE(IS_USED_LOCK(CONCAT(DATABASE(), '.reached')), 0) > 0").await == 1
    }
}
