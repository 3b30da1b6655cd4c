use sa_core::id::JobId;
use sa_core::repo::NewPrompt;
use sa_core::repo::inspect::{Found, JobFilter, find, history, job, list};
use sa_core::state::State;
use sa_core::viewer::Scope;

use crate::arrange::{STRANGER, VIEWER, answered, assert_not_found, database, failed, prompt, submit, urgent};

#[tokio::test]
async fn a_list_is_newest_first_filtered_and_paged() {
    let (_database, db) = database().await;
    let done = answered(&db, "p", "a").await;
    let lost = failed(&db, "q").await;
    let theirs = submit(&db, NewPrompt { viewer: STRANGER, ..urgent("r", 9) }).await;
    let ids = |filter: JobFilter| {
        let db = db.clone();
        async move { list(&db, &filter, None, 10).await.unwrap().iter().map(|job| job.id).collect::<Vec<_>>() }
    };
    let all = JobFilter::all(Scope::Everywhere);
    assert_eq!(ids(all.clone()).await, [theirs.job_id, lost.job_id, done.job_id]);
    assert_eq!(ids(JobFilter::all(Scope::Viewer(STRANGER))).await, [theirs.job_id]);
    let ended = JobFilter { states: vec![State::Succeeded, State::Failed], ..all.clone() };
    assert_eq!(ids(ended).await, [lost.job_id, done.job_id]);
    assert_eq!(ids(JobFilter { error_kind: Some("auth".into()), ..all.clone() }).await, [lost.job_id]);
    assert_eq!(ids(JobFilter { user: Some(STRANGER.user), ..all.clone() }).await, [theirs.job_id]);
    assert_eq!(ids(JobFilter { prompt: Some(done.prompt_id), ..all.clone() }).await, [done.job_id]);
    assert_eq!(ids(JobFilter { lane: Some("nowhere".into()), ..all.clone() }).await, [] as [JobId; 0]);
    assert_eq!(ids(JobFilter { priority: sa_core::job::Priority::new(9), ..all.clone() }).await, [theirs.job_id]);
    let page = list(&db, &all, Some(lost.job_id), 1).await.unwrap();
    assert_eq!(page[0].id, done.job_id);
}

#[tokio::test]
async fn an_id_is_found_by_its_beginning() {
    let (_database, db) = database().await;
    let one = submit(&db, prompt("p")).await.job_id;
    let id = one.to_string();
    assert_eq!(find(&db, Scope::Everywhere, &id).await.unwrap(), Found::One(one));
    assert_eq!(find(&db, Scope::Everywhere, &id[..7]).await.unwrap(), Found::None, "too short");
    assert_eq!(find(&db, Scope::Everywhere, "________").await.unwrap(), Found::None);
    assert_eq!(find(&db, Scope::Viewer(STRANGER), &id).await.unwrap(), Found::None);
    let two = submit(&db, prompt("q")).await.job_id;
    assert_eq!(find(&db, Scope::Everywhere, &id[..8]).await.unwrap(), Found::Many(vec![one, two]));
    assert_eq!(find(&db, Scope::Everywhere, &id.to_uppercase()).await.unwrap(), Found::One(one));
}

#[tokio::test]
async fn a_history_holds_all_that_happened() {
    let (_database, db) = database().await;
    let ids = answered(&db, "p", "a").await;
    let all = history(&db, Scope::Viewer(VIEWER), ids.prompt_id).await.unwrap();
    assert_eq!((all.jobs.len(), all.events.len(), all.ledger.len(), all.responses.len()), (1, 3, 1, 1));
    assert_eq!(all.prompt.unwrap().content, "p");
    assert_not_found(history(&db, Scope::Viewer(STRANGER), ids.prompt_id).await);
    assert_not_found(job(&db, Scope::Viewer(STRANGER), ids.job_id).await);
}
