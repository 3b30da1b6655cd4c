//! `proofs/run specification`: what the specification itself spells out, in SQL and on command lines, works as it stands there.

mod commands;
mod text;

use sqlx::{AssertSqlSafe, MySqlPool, QueryBuilder};

use crate::stage::Stage;

/// Conditions that the specification writes in backticks, and that are SQL. Placeholders are bound.
const CONDITIONS: [&str; 17] = [
    "WHERE state='running' AND worker_claim=<my_worker_id>",
    "attempt < max_attempts",
    "attempt=1",
    "created_at <= now()",
    "error_kind='migration'",
    "error_kind='stuck'",
    "error_kind='timeout'",
    "max_attempts = 3",
    "state='failed'",
    "state='queued'",
    "state='running'",
    "state='running' AND running_heartbeat_at < now() - INTERVAL 5 MINUTE",
    "state='succeeded'",
    "supersedes=<old_id>",
    "supersedes=<old_job_id>",
    "worker_claim=<uuid>",
    "worker_claim=<worker_id>",
];

/// What looks alike and is a manner of speaking: no server would take it.
const SHORTHAND: [&str; 11] = [
    "claimed_at=now",
    "created_at += backoff",
    "created_at = now() + backoff",
    "org_id + created_by",
    "running_heartbeat_at < now() - 5 minutes",
    "running_heartbeat_at < now() - 5min",
    "started_at > now() - 15 minutes",
    "started_at > now() - 15min",
    "state=queued",
    "state=running",
    "state=succeeded",
];

/// The rows of a query whose one `?`, if it has one, is this value.
async fn ids(pool: &MySqlPool, query: String, value: &str) -> Vec<String> {
    let bound = query.contains('?');
    let query = sqlx::query_scalar(AssertSqlSafe(query));
    if bound { query.bind(value).fetch_all(pool) } else { query.fetch_all(pool) }.await.unwrap()
}

/// A prompt's history, `SELECT * … ORDER BY created_at`: the old job first, then the one that superseded it.
#[tokio::test]
async fn each_select_runs_as_written() {
    let stage = Stage::set().await;
    let submitted = stage.submit_ids("hello", &[]).await;
    let (prompt, job) = (submitted["prompt_id"].as_str().unwrap(), submitted["job_id"].as_str().unwrap());
    stage.work_once().await;
    assert_eq!(stage.cli(&["retry-job", job]).await.code, Some(0));

    let selects: Vec<_> = text::spans().into_iter().filter(|span| span.starts_with("SELECT ")).collect();
    assert_eq!(selects, ["SELECT * FROM sa_job WHERE prompt_id = X ORDER BY created_at"]);
    let select = selects[0].replace(" X ", " ? ");
    let rows = sqlx::query(AssertSqlSafe(select.clone())).bind(prompt).fetch_all(stage.pool()).await.unwrap();
    assert_eq!(rows.len(), 2);
    let history = ids(stage.pool(), select.replace('*', "id"), prompt).await;
    assert_eq!(history[0], job);
    assert_eq!(stage.job_text(&history[1], "supersedes").await.as_deref(), Some(job));
}

/// Each condition is asked as it stands there, and those of §3 and §8 find what they are about.
#[tokio::test]
async fn each_condition_runs_as_written() {
    let mut written: Vec<_> = text::spans().into_iter().filter(|span| text::is_about_a_column(span)).collect();
    written.retain(|span| !SHORTHAND.contains(&span.as_str()));
    assert_eq!(written, CONDITIONS);
    let stage = Stage::set().await;
    stage.database.not_judged("it claims by plain SQL, which leaves no event");
    let (silent, queued) = (stage.submit("silent", &[]).await, stage.submit("queued", &[]).await);
    sqlx::query(
        "UPDATE sa_job SET state = 'running', worker_claim = 'w.1', claimed_at = UTC_TIMESTAMP(6),
                started_at = UTC_TIMESTAMP(6), running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 301 SECOND WHERE id = ?",
    )
    .bind(&silent)
    .execute(stage.pool())
    .await
    .unwrap();

    // `now()` has no microseconds, so it lies before what was created within this second.
    stage.sql("UPDATE sa_job SET created_at = created_at - INTERVAL 1 SECOND").await;

    let asked = async |condition: &str| {
        let condition = condition.trim_start_matches("WHERE ");
        let query = format!("SELECT id FROM sa_job WHERE {} ORDER BY created_at", text::bound(condition));
        ids(stage.pool(), query, "w.1").await
    };
    for condition in CONDITIONS {
        asked(condition).await;
    }
    let stuck = "state='running' AND running_heartbeat_at < now() - INTERVAL 5 MINUTE";
    for of_the_silent in [stuck, "state='running'", CONDITIONS[0], "worker_claim=<worker_id>"] {
        assert_eq!(asked(of_the_silent).await, [silent.as_str()], "{of_the_silent}");
    }
    assert_eq!(asked("state='queued'").await, [queued.as_str()]);
    assert_eq!(asked("created_at <= now()").await, [silent.as_str(), queued.as_str()]);
    stage
        .sql("UPDATE sa_job SET running_heartbeat_at = UTC_TIMESTAMP(6) - INTERVAL 299 SECOND WHERE state = 'running'")
        .await;
    assert_eq!(asked(stuck).await, Vec::<String>::new());
}

/// §5's own claim statement is not the one we run (contract §3.9), but rows and columns are such that it works.
#[tokio::test]
async fn the_claim_of_the_specification_runs_as_written() {
    let stage = Stage::set().await;
    stage.database.not_judged("it claims by plain SQL, which leaves no event");
    let [late, soon, bulk] = [
        stage.submit("late", &["--priority", "50"]).await,
        stage.submit("soon", &["--priority", "10"]).await,
        stage.submit("bulk", &["--priority", "90"]).await,
    ];
    let [claim] = &text::sql_blocks("UPDATE ")[..] else { panic!("the specification has one UPDATE") };
    for (worker, ceiling, claimed) in
        [("w.1", 80_u8, vec![&soon, &late]), ("w.2", 80, vec![]), ("w.3", 100, vec![&bulk])]
    {
        let update = sqlx::query(AssertSqlSafe(text::bound(claim))).bind(worker).bind(ceiling).bind(5_u32);
        update.execute(stage.pool()).await.unwrap();
        let query =
            format!("SELECT id FROM sa_job WHERE {} ORDER BY priority", text::bound("worker_claim=<worker_id>"));
        assert_eq!(ids(stage.pool(), query, worker).await.iter().collect::<Vec<_>>(), claimed, "{worker}");
    }
}

/// §4: every column of the specification's table is there under its name, with its type and its NULL or NOT NULL.
#[tokio::test]
async fn each_column_of_the_specification_is_there() {
    let stage = Stage::set().await;
    let columns = text::columns();
    assert_eq!(columns.len(), 20);
    for column in columns {
        let (kind, nullable): (String, String) = sqlx::query_as(
            "SELECT CAST(COLUMN_TYPE AS CHAR), IS_NULLABLE FROM information_schema.COLUMNS
              WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'sa_job' AND COLUMN_NAME = ?",
        )
        .bind(&column.name)
        .fetch_one(stage.pool())
        .await
        .unwrap_or_else(|why| panic!("{}: {why}", column.name));
        // MariaDB tells a display width of whole numbers; contract §3.1 gives times their microseconds.
        let kind = kind.replace("(3)", "").replace("(5)", "").replace("(20)", "").replace("datetime(6)", "datetime");
        assert_eq!((kind.as_str(), nullable == "YES"), (column.kind.as_str(), column.nullable), "{}", column.name);
    }
}

/// A row given by the specification's columns only, all of them or just those without a default, is a good job.
#[tokio::test]
async fn a_job_of_the_specifications_columns_alone_runs() {
    let stage = Stage::set().await;
    let all = text::columns();
    let least: Vec<_> = all.iter().filter(|column| !column.nullable && !column.has_default).cloned().collect();
    assert_eq!(
        least.iter().map(|column| column.name.as_str()).collect::<Vec<_>>(),
        ["id", "prompt_id", "execution_options", "org_id", "created_by"]
    );
    for (n, columns) in [(1, all), (2, least)] {
        let (job, prompt) = (format!("00000000-0000-7000-8001-{n:012}"), format!("00000000-0000-7000-8000-{n:012}"));
        sqlx::query(
            "INSERT INTO sa_entity (id, kind, org_id, created_by, correlation_id, truth_class, state_class, content)
             VALUES (?, 'prompt', 1, 1, ?, 'authored', 'settled', 'hello')",
        )
        .bind(&prompt)
        .bind(&prompt)
        .execute(stage.pool())
        .await
        .unwrap();
        insert(stage.pool(), &columns, &job, &prompt).await;
        stage.work_once().await;
        assert_eq!(stage.walk(&job).await, "running → succeeded", "begins with its claim: nobody told of its enqueue");
        assert_eq!(stage.job_text(&job, "lane").await.as_deref(), Some(""));
    }
    let seen = stage.api().await.get("/sa-core/v1/mission/recent").await;
    let answered = seen["entities"].as_array().unwrap().iter().filter(|item| item["response"]["text"].is_string());
    assert_eq!(answered.count(), 2);
}

async fn insert(pool: &MySqlPool, columns: &[text::Column], job: &str, prompt: &str) {
    let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    let mut query = QueryBuilder::new(format!("INSERT INTO sa_job ({}) VALUES (", names.join(", ")));
    let mut values = query.separated(", ");
    for column in columns {
        match column.name.as_str() {
            "id" => values.push_bind(job),
            "prompt_id" => values.push_bind(prompt),
            "state" => values.push_bind("queued"),
            "priority" => values.push_bind(50),
            "attempt" => values.push_bind(1),
            "max_attempts" => values.push_bind(3),
            "execution_options" => values.push_bind("{\"depth\": 3}"),
            "org_id" | "created_by" => values.push_bind(1),
            "created_at" | "updated_at" => values.push("NOW()"),
            nullable => {
                assert!(column.nullable, "{nullable} needs a value");
                values.push("NULL")
            }
        };
    }
    query.push(")").build().execute(pool).await.unwrap();
}
