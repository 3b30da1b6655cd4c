use sa_core::id::{JobId, OrgId};
use sa_core::job::{Lane, Priority};
use sa_core::repo::NewPrompt;
use sa_core::repo::inspect::{Found, JobFilter, find, history, job, list};
use sa_core::state::State;
use sa_core::viewer::{Scope, Viewer};

use crate::arrange::{STRANGER, VIEWER, answered, assert_not_found, database, failed, prompt, row, submit, urgent};

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
    assert_eq!(ids(JobFilter { priority: Priority::new(9), ..all.clone() }).await, [theirs.job_id]);
    let page = list(&db, &all, Some(lost.job_id), 1).await.unwrap();
    assert_eq!(page[0].id, done.job_id);
}

#[tokio::test]
async fn an_id_is_found_by_its_beginning() {
    let (_database, db) = database().await;
    let mut one = submit(&db, prompt("p")).await.job_id;
    let mut two = submit(&db, prompt("q")).await.job_id;
    // What ids have in common is the time: the first characters change every 65 seconds, also between the two.
    if one.to_string()[..8] != two.to_string()[..8] {
        (one, two) = (two, submit(&db, prompt("q")).await.job_id);
    }
    let id = one.to_string();
    assert_eq!(find(&db, Scope::Everywhere, &id).await.unwrap(), Found::One(one));
    assert_eq!(find(&db, Scope::Everywhere, &id[..7]).await.unwrap(), Found::None, "too short");
    assert_eq!(find(&db, Scope::Everywhere, "________").await.unwrap(), Found::None);
    assert_eq!(find(&db, Scope::Viewer(STRANGER), &id).await.unwrap(), Found::None);
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

/// Each filter by itself, where only it keeps the other job off the list.
#[tokio::test]
async fn each_filter_leaves_out_what_it_does_not_admit() {
    let (database, db) = database().await;
    let theirs = Viewer { org: OrgId(8), user: VIEWER.user };
    let one = submit(&db, NewPrompt { viewer: theirs, lane: Lane::new("one"), ..urgent("p", 9) }).await;
    let two = submit(&db, prompt("q")).await;
    sqlx::query("UPDATE sa_job SET created_at = created_at + INTERVAL 1 DAY, error_kind = 'timeout' WHERE id = ?")
        .bind(one.job_id)
        .execute(database.pool())
        .await
        .unwrap();
    let all = JobFilter::all(Scope::Everywhere);
    let since = row(&db, one.job_id).await.created_at;
    let filters = [
        JobFilter { org: Some(theirs.org), ..all.clone() },
        JobFilter { since: Some(since), ..all.clone() },
        JobFilter { prompt: Some(one.prompt_id), ..all.clone() },
        JobFilter { error_kind: Some("timeout".into()), ..all.clone() },
        JobFilter { lane: Some("one".into()), ..all.clone() },
        JobFilter { priority: Priority::new(9), ..all.clone() },
        JobFilter::all(Scope::Viewer(theirs)),
    ];
    for filter in filters {
        let found: Vec<_> = list(&db, &filter, None, 10).await.unwrap().iter().map(|job| job.id).collect();
        assert_eq!(found, [one.job_id], "{filter:?}");
    }
    let older: Vec<_> = list(&db, &all, Some(two.job_id), 10).await.unwrap().iter().map(|job| job.id).collect();
    assert_eq!(older, [one.job_id]);
}

/// A viewer is organisation and user together: one of the two alone opens nothing.
#[tokio::test]
async fn half_a_viewer_sees_nothing() {
    let (_database, db) = database().await;
    let ids = submit(&db, prompt("p")).await;
    let id = ids.job_id.to_string();
    for stranger in [STRANGER, Viewer { org: OrgId(8), user: VIEWER.user }] {
        let scope = Scope::Viewer(stranger);
        assert_not_found(job(&db, scope, ids.job_id).await);
        assert_not_found(history(&db, scope, ids.prompt_id).await);
        assert_eq!(find(&db, scope, &id).await.unwrap(), Found::None);
        assert!(list(&db, &JobFilter::all(scope), None, 10).await.unwrap().is_empty());
    }
}

/// Three prompts with all that belongs to them, so that wherever a scan began it would find another one's first.
#[tokio::test]
async fn one_prompts_history_holds_nothing_of_anothers() {
    let (_database, db) = database().await;
    let mut all = Vec::new();
    for text in ["p", "q", "r"] {
        all.push(answered(&db, text, text).await);
    }
    for (ids, text) in all.iter().zip(["p", "q", "r"]) {
        let history = history(&db, Scope::Everywhere, ids.prompt_id).await.unwrap();
        assert_eq!(history.prompt.unwrap().content, text);
        assert_eq!(history.jobs.iter().map(|job| job.id).collect::<Vec<_>>(), [ids.job_id]);
        assert!(history.events.len() == 3 && history.events.iter().all(|event| event.job_id == ids.job_id));
        assert!(history.ledger.len() == 1 && history.ledger[0].job_id == ids.job_id);
        assert_eq!(history.responses.iter().map(|response| response.content.as_str()).collect::<Vec<_>>(), [text]);
        assert_eq!(job(&db, Scope::Everywhere, ids.job_id).await.unwrap().prompt_id, ids.prompt_id);
        let found = find(&db, Scope::Everywhere, &ids.job_id.to_string()).await.unwrap();
        assert_eq!(found, Found::One(ids.job_id));
    }
}
