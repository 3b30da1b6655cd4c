//! What the engine itself can commit, by its own load tool.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use sa_harness::Engine;

use crate::life::Life;
use crate::rounds::{Contest, Pair, Side, Turn, take_turns};
use crate::stand::{Schema, Stand};

const CONNECTIONS: usize = 16;
/// A small row, so that the commit is what is paid for.
const INSERT: &str = "INSERT INTO floor (body) VALUES ('one small row, so that its commit is what is paid for')";

struct Floor {
    life: Life,
    schema: Schema,
    tool: Vec<String>,
    port: u16,
    commits: usize,
}

pub async fn measure(stand: &Stand) -> Result<Vec<Pair>> {
    let schema = stand.schema().await?;
    schema
        .run("CREATE TABLE floor (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, body VARCHAR(100) NOT NULL)")
        .await?;
    let (tool, port, commits) = (tool(stand.engine)?, stand.port(), stand.extent.jobs);
    let mut floor = Floor { life: Life::prepare(stand).await?, schema, tool, port, commits };
    take_turns(&mut floor, stand.extent.rounds).await
}

impl Contest for Floor {
    const TURNS: usize = Life::TURNS;

    async fn reset(&mut self) -> Result<()> {
        self.life.reset().await?;
        self.schema.run("TRUNCATE TABLE floor").await?;
        self.schema.settle().await
    }

    async fn turn(&mut self, side: Side) -> Result<Turn> {
        match side {
            Side::Ours => self.life.turn(Side::Ours).await,
            Side::Base => self.commits().await,
        }
    }
}

impl Floor {
    async fn commits(&self) -> Result<Turn> {
        let before = self.rows().await?;
        let mut tool = Command::new(&self.tool[0]);
        tool.args(&self.tool[1..])
            .args(["--host=127.0.0.1", "--user=root", "--silent", "--csv", "--no-drop"])
            .arg(format!("--port={}", self.port))
            .arg(format!("--create-schema={}", self.schema.database.name()))
            .arg(format!("--concurrency={CONNECTIONS}"))
            .arg(format!("--number-of-queries={}", self.commits))
            .arg(format!("--query={INSERT}"));
        let began = Instant::now();
        let output = tool.output().with_context(|| format!("{} does not run", self.tool[0]))?;
        let whole = began.elapsed().as_secs_f64();
        let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        ensure!(output.status.success(), "{} failed: {said}{complained}", self.tool[0]);
        let work = usize::try_from(self.rows().await? - before)?;
        let seconds = seconds(&said).with_context(|| format!("it said nothing of seconds: {said:?}"))?;
        ensure!(seconds > 0.0 && seconds <= whole, "{seconds} s are not of a run of {whole} s");
        Ok(Turn { work, seconds })
    }

    async fn rows(&self) -> Result<i64> {
        Ok(sqlx::query_scalar("SELECT COUNT(*) FROM floor").fetch_one(self.schema.pool()).await?)
    }
}

/// The average of a line such as `,insert,0.512,0.512,0.512,16,512`.
fn seconds(csv: &str) -> Option<f64> {
    csv.lines()
        .rev()
        .find_map(|line| line.split(',').find_map(|field| field.contains('.').then(|| field.parse().ok())?))
}

/// The load tool's command, as `proofs/bench` found it.
fn tool(engine: Engine) -> Result<Vec<String>> {
    let variable = match engine {
        Engine::MariaDb => "SA_BENCH_MARIADB_SLAP",
        Engine::MySql => "SA_BENCH_MYSQLSLAP",
    };
    let command = std::env::var(variable).ok().filter(|command| !command.is_empty());
    let command = command.with_context(|| format!("{variable} is not set: start this through proofs/bench"))?;
    shlex::split(&command).filter(|words| !words.is_empty()).with_context(|| format!("{variable} is no command"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_the_first_number_with_a_point() {
        assert_eq!(seconds(",mixed,0.512,0.500,0.520,16,512\n"), Some(0.512));
        assert_eq!(seconds("no number"), None);
    }
}
