//! Where the next candidates are: one cursor for each priority level of each open lane, merged into one order.
//!
//! Nothing here locks. A level's rows are read ahead from where the last read stopped, so that rows that were taken, and the
//! marks that the engine keeps of them until it purges, are not walked again by every claim.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use serde::Serialize;
use sqlx::{Executor, Row};
use time::OffsetDateTime;

use crate::id::JobId;
use crate::job::{Lane, Priority};
use crate::repo::db::Tx;
use crate::repo::{Db, Error};

/// How old the picture of the levels may grow: what is new above a cursor waits at most this long.
pub(super) const FRESH_FOR: Duration = Duration::from_secs(1);
/// Fewest rows read ahead at a time.
const READ_AHEAD: usize = 16;

/// Heads of all levels in one loose index scan. Sent as text: prepared, MariaDB may turn to a full scan when it is run
/// again after writes.
const HEADS: &str = "-- repo::claim
    SELECT lane, priority, MIN(scheduled_for), MIN(scheduled_for) <= UTC_TIMESTAMP(6)
      FROM sa_job FORCE INDEX (idx_claim)
     WHERE state = 'queued'
     GROUP BY lane, state, priority";

/// A row that may be taken.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Candidate {
    pub(super) id: JobId,
    pub(super) lane: Lane,
    #[serde(skip)]
    priority: Priority,
    #[serde(skip)]
    scheduled_for: OffsetDateTime,
    #[serde(skip)]
    level: usize,
}

/// One priority level of one lane.
struct Level {
    lane: Lane,
    priority: Priority,
    /// When its first row was due: what was taken before it, and the engine has not cleared away, is not walked again.
    head: OffsetDateTime,
    /// Rows read ahead, in order.
    ahead: VecDeque<(OffsetDateTime, JobId)>,
    /// The last row read: the next read starts behind it.
    cursor: Option<(OffsetDateTime, JobId)>,
    /// No due row lies behind the cursor.
    ended: bool,
}

/// A place in the merged order. Without an id it is a lower bound: a level whose next row has not been read yet.
type Place = Reverse<(Priority, OffsetDateTime, Option<JobId>, usize)>;

/// All levels of the open lanes.
pub(super) struct Levels {
    ceiling: Priority,
    levels: Vec<Level>,
    places: BinaryHeap<Place>,
    built: Option<Instant>,
    lanes: Vec<Lane>,
}

impl Levels {
    pub(super) fn new(ceiling: Priority) -> Self {
        Self { ceiling, levels: Vec::new(), places: BinaryHeap::new(), built: None, lanes: Vec::new() }
    }

    /// Whether nothing is due in any open lane.
    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Makes the next [`Self::refresh`] look anew.
    pub(super) fn forget(&mut self) {
        self.built = None;
    }

    /// After a claim that came back short the picture is worn out.
    pub(super) fn note(&mut self, got: usize, wanted: usize) {
        if got < wanted {
            self.forget();
        }
    }

    /// Finds the levels anew if the picture is old or the open lanes are others.
    pub(super) async fn refresh(&mut self, db: &Db, open: &[Lane]) -> Result<(), Error> {
        if !self.is_empty() && self.built.is_some_and(|built| built.elapsed() < FRESH_FOR) && self.lanes == open {
            return Ok(());
        }
        let rows = db.retrying(|| async { Ok(db.pool().fetch_all(HEADS).await?) }).await?;
        self.levels.clear();
        self.places.clear();
        for row in rows {
            let (lane, priority, head, due): (Lane, Priority, OffsetDateTime, bool) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
            if due && priority <= self.ceiling && open.contains(&lane) {
                self.places.push(Reverse((priority, head, None, self.levels.len())));
                self.levels.push(Level { lane, priority, head, ahead: VecDeque::new(), cursor: None, ended: false });
            }
        }
        self.built = Some(Instant::now());
        self.lanes = open.to_vec();
        Ok(())
    }

    /// The next candidates in order, at most `count`.
    pub(super) async fn take(&mut self, tx: &mut Tx, count: usize) -> Result<Vec<Candidate>, Error> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let Some(place) = self.places.pop() else { break };
            taken.extend(self.step(tx, place, count).await?);
        }
        Ok(taken)
    }

    /// The next candidates by their time alone, whatever their priority, at most `count`. The oldest of all is the head of
    /// some level, so that no other row is looked at.
    pub(super) async fn take_oldest(&mut self, tx: &mut Tx, count: usize) -> Result<Vec<Candidate>, Error> {
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let oldest = self.places.iter().copied().min_by_key(|&Reverse((_, at, id, _))| (at, id));
            let Some(place) = oldest else { break };
            self.places.retain(|other| *other != place);
            taken.extend(self.step(tx, place, count).await?);
        }
        Ok(taken)
    }

    /// Goes past a place: it is a candidate, or its level has to be read first.
    async fn step(&mut self, tx: &mut Tx, place: Place, count: usize) -> Result<Option<Candidate>, Error> {
        let Reverse((priority, scheduled_for, id, n)) = place;
        let level = &mut self.levels[n];
        let candidate = id.map(|id| Candidate { id, lane: level.lane.clone(), priority, scheduled_for, level: n });
        // Rows that were put back made it two places for one level, and the other may have read on.
        if candidate.is_none() && level.ahead.is_empty() {
            level.read_ahead(tx, count.max(READ_AHEAD)).await?;
        }
        self.places.extend(level.next_place(n));
        Ok(candidate)
    }

    /// Gives back candidates that were not looked at.
    pub(super) fn put_back(&mut self, candidates: impl Iterator<Item = Candidate>) {
        for Candidate { id, priority, scheduled_for, level, .. } in candidates {
            self.places.push(Reverse((priority, scheduled_for, Some(id), level)));
        }
    }
}

impl Level {
    /// The next row, or where it must be looked for; nothing at the end of the level.
    fn next_place(&mut self, n: usize) -> Option<Place> {
        if let Some((at, id)) = self.ahead.pop_front() {
            return Some(Reverse((self.priority, at, Some(id), n)));
        }
        let (at, _) = self.cursor.filter(|_| !self.ended)?;
        Some(Reverse((self.priority, at, None, n)))
    }

    /// Reads the rows behind the cursor. Rows of one instant are told apart by id, in process: as a condition it would keep
    /// the engine from using the key's third part.
    async fn read_ahead(&mut self, tx: &mut Tx, count: usize) -> Result<(), Error> {
        let mut limit = count;
        loop {
            let rows = self.rows_from_cursor(tx, limit).await?;
            let all = rows.len() < limit;
            let fresh: VecDeque<_> =
                rows.into_iter().filter(|row| self.cursor.is_none_or(|read| *row > read)).collect();
            self.ended = all;
            if let Some(&last) = fresh.back() {
                self.cursor = Some(last);
                self.ahead = fresh;
                return Ok(());
            }
            if all {
                return Ok(());
            }
            // More rows of one instant than were asked for.
            limit *= 2;
        }
    }

    async fn rows_from_cursor(&self, tx: &mut Tx, limit: usize) -> Result<Vec<(OffsetDateTime, JobId)>, Error> {
        let from = self.cursor.map_or(self.head, |(at, _)| at);
        let rows = sqlx::query!(
            r#"-- repo::claim
             SELECT scheduled_for AS "scheduled_for: OffsetDateTime", id AS "id: JobId"
               FROM sa_job FORCE INDEX (idx_claim)
              WHERE lane = ?
                AND state = 'queued'
                AND priority = ?
                AND scheduled_for >= ?
                AND scheduled_for <= UTC_TIMESTAMP(6)
              ORDER BY scheduled_for, id
              LIMIT ?"#,
            self.lane,
            self.priority,
            from,
            u64::try_from(limit).unwrap_or(u64::MAX),
        )
        .fetch_all(tx.session())
        .await?;
        Ok(rows.into_iter().map(|row| (row.scheduled_for, row.id)).collect())
    }
}
