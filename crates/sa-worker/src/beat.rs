//! Shows that the held claims are alive, from a thread of its own: a busy runtime, an empty pool or a long answer must
//! never look like a dead worker.

use std::{
    cell::Cell,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::Context;
use sa_boot::{Beats, BootOptions, Pool};
use sa_core::{
    pulse::Pulse,
    repo::{self, Db},
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    patience::PATIENCE,
    pause::Pause,
    roster::{Beating, Roster},
};

/// How often claims are checked: a cancel is to be noticed within 2 s, and the check itself takes a moment.
const PROBE: Duration = Duration::from_millis(1800);
/// How long the end of the thread is waited for: it may hang on a database that is away.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// The thread that beats.
pub(crate) struct Beater {
    stop: CancellationToken,
    ended: CancellationToken,
}

struct Beat {
    boot: BootOptions,
    beats: Beats,
    pulse: Pulse,
    roster: Arc<Roster>,
    /// When the database was last asked something that it then answered.
    answered: Cell<Instant>,
}

impl Beater {
    /// Beats for everything in the roster until stopped; `ended` is cancelled when the thread ends, also by a panic.
    pub(crate) fn start(
        boot: BootOptions,
        beats: Beats,
        pulse: Pulse,
        roster: Arc<Roster>,
        ended: CancellationToken,
    ) -> anyhow::Result<Self> {
        let stop = CancellationToken::new();
        let (stopped, end) = (stop.clone(), ended.clone().drop_guard());
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the beats")?;
        thread::Builder::new()
            .name("beat".to_owned())
            .spawn(move || {
                let _end = end;
                let beat = Beat { boot, beats, pulse, roster, answered: Cell::new(Instant::now()) };
                runtime.block_on(async {
                    tokio::select! {
                        () = stopped.cancelled() => {}
                        () = beat.run() => {}
                        () = beat.fence() => {}
                    }
                });
                // A look-up of the server's name may still block a thread of this runtime; nobody waits for it.
                runtime.shutdown_background();
            })
            .context("cannot start the beats")?;
        Ok(Self { stop, ended })
    }

    /// Ends the thread; all claims should be gone by now.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        let _ = timeout(STOP_LIMIT, self.ended.cancelled()).await;
    }
}

/// However the thread ends, nothing may go on without beats.
impl Drop for Beat {
    fn drop(&mut self) {
        self.roster.tell(Beating::Failing);
        self.roster.give_back_all();
    }
}

impl Beat {
    async fn run(&self) {
        loop {
            let db = self.connect().await;
            self.go_on(&db).await;
            tracing::debug!("The beats make a new connection, because theirs does not answer.");
        }
    }

    /// Beats by this connection until that is silent.
    async fn go_on(&self, db: &Db) {
        let tick = PROBE.min(self.beats.every);
        // Beats and probes are single statements, done or not, and their connection is thrown away: dropping one
        // half-way does no harm.
        let patience = PATIENCE.min(self.beats.every * 2);
        let mut due = Instant::now();
        loop {
            let now = Instant::now();
            // While beats fail, each probe is a beat: the first that arrives counts.
            let beats = now >= due || self.roster.beating() == Beating::Failing;
            let call = async { if beats { self.beat(db, now).await } else { self.probe(db).await } };
            let answer = timeout(patience, call).await;
            let answered = matches!(answer, Ok(Ok(())));
            if let Ok(Err(error)) = &answer {
                tracing::debug!(%error, "A beat did not arrive.");
            }
            if beats {
                due = if answered { now + self.beats.every } else { now };
            }
            if answered {
                self.answered.set(now);
            }
            self.tell(if answered { Beating::Well } else { Beating::Failing });
            if answer.is_err() {
                return;
            }
            sleep(tick).await;
        }
    }

    async fn connect(&self) -> Db {
        let mut pause = Pause::for_outage();
        loop {
            match timeout(PATIENCE, self.boot.database(Pool::of(1))).await {
                Ok(Ok(db)) => return db,
                Ok(Err(error)) => tracing::debug!(%error, "The beats have no connection yet."),
                Err(_) => tracing::debug!("The beats have no connection yet: the database does not answer."),
            }
            sleep(pause.take_spread()).await;
        }
    }

    /// One beat of every claim and of the process.
    async fn beat(&self, db: &Db, now: Instant) -> Result<(), repo::Error> {
        let held = self.roster.held();
        if !held.is_empty() {
            let lost = repo::beat(db, &held).await?;
            self.roster.beaten(&held, now);
            self.roster.lose(&held, &lost);
        }
        let in_flight = u32::try_from(held.len()).unwrap_or(u32::MAX);
        repo::pulse::record(db, &Pulse { in_flight, ..self.pulse.clone() }).await
    }

    async fn probe(&self, db: &Db) -> Result<(), repo::Error> {
        let held = self.roster.held();
        if !held.is_empty() {
            let lost = repo::still_held(db, &held).await?;
            self.roster.lose(&held, &lost);
        }
        Ok(())
    }

    /// Stops what has not beaten until one beat before others may take it for dead. It runs beside the beats, because a
    /// beat may hang. Answers that are whole by then are kept: the fence in the database decides about them.
    async fn fence(&self) {
        let limit = self.beats.stale.saturating_sub(self.beats.every);
        loop {
            sleep(PROBE.min(self.beats.every) / 2).await;
            let given_back = self.roster.fence(limit);
            if given_back > 0 || self.answered.get().elapsed() > self.beats.every * 2 {
                self.tell(Beating::Failing);
            }
            if given_back > 0 {
                tracing::warn!(given_back, "No beat has arrived for too long: calls still under way are dropped.");
            }
        }
    }

    fn tell(&self, beating: Beating) {
        if self.roster.tell(beating) {
            match beating {
                Beating::Well => tracing::debug!("Beats arrive."),
                Beating::Failing => tracing::warn!("Beats do not arrive: no new call is started."),
            }
        }
    }
}
