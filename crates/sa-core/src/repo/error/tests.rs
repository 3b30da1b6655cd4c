use sa_harness::SharedServer;
use sqlx::{Connection, Executor, MySqlConnection};

use super::*;

#[test]
fn a_connection_lost_at_commit_leaves_the_outcome_unknown_and_before_it_does_not() {
    let lost = || sqlx::Error::Io(std::io::Error::other("reset"));
    assert_eq!(DatabaseError::from(lost()).fate, Fate::Away);
    assert_eq!(DatabaseError::at_commit(lost()).fate, Fate::Unknown);
    assert_eq!(DatabaseError::at_commit(sqlx::Error::RowNotFound).fate, Fate::Unknown);
}

#[test]
fn numbers_fall_into_the_classes_that_decide_about_a_repetition() {
    let classes: [(Fate, &[u16]); 5] = [
        (Fate::RolledBack, &[1205, 1213, 1020, 3101]),
        (Fate::Away, &[1040, 1203, 1226, 1053, 1158, 1161, 1927, 2006, 2013, 4031, 1047, 1290, 1792, 1836, 3032]),
        (Fate::Data, &[1406, 1366, 1264, 1292, 1153, 3819, 4025]),
        (Fate::Duplicate, &[1062]),
        (Fate::Refused, &[1146, 1064, 1157, 1162]),
    ];
    for (fate, numbers) in classes {
        for &number in numbers {
            assert_eq!(fate_of(number), fate, "{number}");
        }
    }
}

#[test]
fn what_the_driver_meets_before_the_server_speaks_is_away_and_what_it_refuses_itself_is_not() {
    let io = || sqlx::Error::Io(std::io::Error::other("reset"));
    let lost = || sqlx::Error::Protocol("cut off".into());
    for (source, fate, breaks) in [
        (io(), Fate::Away, true),
        (lost(), Fate::Away, true),
        (sqlx::Error::WorkerCrashed, Fate::Away, true),
        (sqlx::Error::PoolTimedOut, Fate::Away, false),
        (sqlx::Error::PoolClosed, Fate::Away, false),
        (sqlx::Error::Tls("no".into()), Fate::Away, false),
        (sqlx::Error::RowNotFound, Fate::Refused, false),
    ] {
        let error = DatabaseError::from(source);
        assert_eq!((error.fate, error.breaks_connections(), error.number()), (fate, breaks, None), "{error}");
    }
}

#[test]
fn whoever_asks_may_ask_again_unless_the_answer_would_be_the_same() {
    for (fate, unreachable, busy) in [
        (Fate::RolledBack, true, true),
        (Fate::Away, true, false),
        (Fate::Unknown, true, false),
        (Fate::Data, false, false),
        (Fate::Duplicate, false, false),
        (Fate::Refused, false, false),
    ] {
        let error = DatabaseError { fate, source: sqlx::Error::RowNotFound };
        assert_eq!((error.is_unreachable(), error.fate(), error.again().fate()), (unreachable, fate, fate));
        let error = Error::from(error);
        assert_eq!((error.is_unreachable(), error.is_busy(), error.fate()), (unreachable, busy, fate));
    }
    for refused in [Error::NotFound, Error::Conflict { id: JobId::new(), found: State::Running }] {
        assert_eq!((refused.is_unreachable(), refused.is_busy(), refused.fate()), (false, false, Fate::Refused));
    }
    assert_eq!(Error::from(sqlx::Error::PoolTimedOut).fate(), Fate::Away);
}

#[test]
fn what_the_repository_finds_wrong_itself_is_repeated_only_where_that_helps() {
    assert_eq!(DatabaseError::undecided().fate, Fate::RolledBack);
    assert_eq!(DatabaseError::too_old().fate, Fate::RolledBack);
    assert_eq!(DatabaseError::guard_missed("a claim").fate, Fate::Refused);
}

/// The driver lets nobody make an error of the server's, so a server is asked for each.
#[tokio::test]
async fn the_servers_own_errors_are_judged_by_their_numbers() {
    let server = tokio::task::spawn_blocking(SharedServer::get).await.unwrap().unwrap();
    let mut session = MySqlConnection::connect(server.url()).await.unwrap();
    for (number, signal, fate, at_commit, breaks) in [
        (1213, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1213", Fate::RolledBack, Fate::RolledBack, false),
        (1290, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290", Fate::Away, Fate::Away, true),
        (1927, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1927", Fate::Away, Fate::Unknown, true),
        (1406, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1406", Fate::Data, Fate::Unknown, false),
        (1146, "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1146", Fate::Refused, Fate::Unknown, false),
    ] {
        let error = DatabaseError::from(session.execute(signal).await.unwrap_err());
        assert_eq!((error.number(), error.fate, error.breaks_connections()), (Some(number), fate, breaks));
        let error = DatabaseError::at_commit(session.execute(signal).await.unwrap_err());
        assert_eq!((error.number(), error.fate), (Some(number), at_commit));
    }
}
