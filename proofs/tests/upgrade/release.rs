//! The two releases, each with its own binaries, on one stage.

use std::{env, future::ready, path::Path};

use sa_harness::{Binary, Output};

use crate::stage::{Api, Stage, succeed};

/// Whose binaries they are.
#[derive(Clone, Copy, Debug)]
pub enum Release {
    /// Those of the commit that `proofs/previous-release` names, from the folder in `SA_PREVIOUS_BIN_DIR`.
    Previous,
    /// Those of this tree.
    This,
}

impl Release {
    /// Starts an API of this release, for a client with this token.
    pub async fn api(self, stage: &Stage, token: &str) -> Api {
        Api::start(self.binary(stage, "sa-api"), ready(token.to_owned())).await
    }

    /// A worker that nobody takes for dead because the machine is busy.
    pub fn worker(self, stage: &Stage) -> Binary {
        with_slow_beats(self.binary(stage, "sa-worker").arg("run-worker"))
    }

    /// One run of the reaper.
    pub async fn reap(self, stage: &Stage) -> Output {
        succeed(with_slow_beats(self.binary(stage, "sa-reaper").arg("reclaim-stuck-jobs"))).await
    }

    /// Brings the schema to where this release wants it.
    pub async fn migrate(self, stage: &Stage) -> Output {
        succeed(self.binary(stage, "sa-cli").arg("migrate")).await
    }

    /// A token made by this release.
    pub async fn token(self, stage: &Stage) -> String {
        stage.token_by(self.binary(stage, "sa-cli"), 1, 1).await
    }

    fn binary(self, stage: &Stage, name: &str) -> Binary {
        let binary = match self {
            Self::This => Binary::named(name).unwrap(),
            Self::Previous => {
                let folder = env::var_os("SA_PREVIOUS_BIN_DIR").expect(
                    "SA_PREVIOUS_BIN_DIR is not set: proofs/run upgrade builds the previous release and sets it",
                );
                Binary::at(Path::new(&folder).join(name))
            }
        };
        stage.settings(binary)
    }
}

fn with_slow_beats(binary: Binary) -> Binary {
    binary.env("SA_BEAT_EVERY", "5s").env("SA_STALE_AFTER", "60s")
}
