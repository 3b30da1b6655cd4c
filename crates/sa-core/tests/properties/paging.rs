//! Pages of `recent`: whoever follows them sees every prompt, in whatever bursts the rows changed.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::test_runner::TestError;
use sa_core::id::{JobId, OrgId, UserId};
use sa_core::repo::{self, Db};
use sa_core::viewer::Viewer;
use sa_harness::Database;
use time::{Duration, OffsetDateTime};

use crate::repository::{new_prompt, runner};

/// When each of some prompts changed, in microseconds after a moment, and how many are asked for at a time.
fn changes() -> impl Strategy<Value = (Vec<i64>, u32)> {
    (prop::collection::vec(0..6_i64, 1..25), 1..8_u32)
}

#[test]
fn whoever_follows_the_pages_sees_every_prompt() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (database, db) = runtime.block_on(async {
        let database = Database::fresh().await.unwrap().judged();
        let db = Db::connect(database.url(), 2).await.unwrap();
        (database, db)
    });
    let mut viewers = 0;
    let viewer = std::cell::RefCell::new(&mut viewers);
    let found = runner(24).run(&changes(), |(instants, limit)| {
        **viewer.borrow_mut() += 1;
        let viewer = Viewer { org: OrgId(1), user: UserId(**viewer.borrow()) };
        runtime.block_on(follow(&database, &db, viewer, &instants, limit)).map_err(TestCaseError::fail)
    });
    match found {
        Ok(()) => {}
        Err(TestError::Fail(why, least)) => panic!("{why}: {least:?}"),
        Err(TestError::Abort(why)) => panic!("{why}"),
    }
    runtime.block_on(db.close());
}

async fn follow(database: &Database, db: &Db, viewer: Viewer, instants: &[i64], limit: u32) -> Result<(), String> {
    let moment = OffsetDateTime::UNIX_EPOCH + Duration::days(20_000);
    let prompts = instants.iter().map(|_| new_prompt(viewer, "echo")).collect();
    let jobs: Vec<JobId> = repo::enqueue(db, prompts).await.into_iter().map(|ids| ids.unwrap().job_id).collect();
    for (job, us) in jobs.iter().zip(instants) {
        let at = moment + Duration::microseconds(*us);
        let change = sqlx::query("UPDATE sa_job SET updated_at = ? WHERE id = ?").bind(at).bind(*job);
        change.execute(database.pool()).await.unwrap();
    }
    let (mut since, mut seen) = (moment - Duration::SECOND, BTreeSet::new());
    loop {
        let page = repo::recent(db, viewer, Some(since), limit).await.unwrap();
        let at = |at: OffsetDateTime| instants.iter().filter(|us| moment + Duration::microseconds(**us) == at).count();
        let most = at(since) + limit as usize + page.entities.iter().map(|item| at(item.updated_at)).max().unwrap_or(0);
        if page.entities.len() > most {
            return Err(format!("{} on a page of {limit}", page.entities.len()));
        }
        if !page.entities.is_sorted_by_key(|item| (item.created_at, item.prompt_id)) {
            return Err("a page is out of order".to_owned());
        }
        seen.extend(page.entities.iter().map(|item| item.job.id));
        if !page.has_more {
            break;
        }
        if page.as_of <= since {
            return Err("a cut page leads nowhere".to_owned());
        }
        since = page.as_of;
    }
    if seen == jobs.iter().copied().collect() { Ok(()) } else { Err(format!("{} of {} seen", seen.len(), jobs.len())) }
}
