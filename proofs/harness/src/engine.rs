//! Which database engine a test run uses, and how its server is started.

use std::{
    collections::HashMap,
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, PoisonError},
};

use anyhow::{Context, Result, bail, ensure};

/// The two engines Asterion is proven on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Engine {
    /// MariaDB, the default: most distributions carry it.
    MariaDb,
    /// MySQL by Oracle.
    MySql,
}

impl Engine {
    /// The engine named by `SA_TEST_ENGINE` (`mariadb` when it is not set).
    ///
    /// # Errors
    /// When the variable holds another word: a typing error must not test the wrong engine in silence.
    pub fn of_this_run() -> Result<Self> {
        match env::var("SA_TEST_ENGINE") {
            Ok(name) if !name.is_empty() => name.parse(),
            _ => Ok(Self::MariaDb),
        }
    }

    /// The word used in `SA_TEST_ENGINE` and on command lines.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
        }
    }

    /// The engine behind what `SELECT VERSION()` answers: MariaDB names itself there, MySQL does not.
    #[must_use]
    pub fn from_version(version: &str) -> Self {
        if version.to_ascii_lowercase().contains("mariadb") { Self::MariaDb } else { Self::MySql }
    }

    /// Flags for both speed and isolation; durability at commit stays as in production, because the proofs kill servers.
    pub(crate) fn server_flags(self) -> Vec<&'static str> {
        let mut flags = vec![
            "--bind-address=127.0.0.1",
            "--max-connections=500",
            "--innodb-buffer-pool-size=128M",
            "--innodb-flush-log-at-trx-commit=1",
            "--performance-schema=OFF",
            "--skip-log-bin",
            self.size_flag(),
        ];
        // The proxy reads statements on the wire, so neither engine may offer TLS; there is no shared spelling for it.
        match self {
            Self::MariaDb => flags.push("--skip-ssl"),
            Self::MySql => flags.extend(["--tls-version=", "--mysqlx=OFF"]),
        }
        flags
    }

    /// A third of the default redo log, for the data folder and for the server alike: on a busy disk, writing it out
    /// is most of what a start costs.
    pub(crate) fn size_flag(self) -> &'static str {
        match self {
            Self::MariaDb => "--innodb-log-file-size=32M",
            Self::MySql => "--innodb-redo-log-capacity=32M",
        }
    }

    /// Flags for the data folder: `root` without a password, reachable over TCP, because the folder lives for minutes.
    pub(crate) fn init_flags(self) -> &'static [&'static str] {
        match self {
            Self::MariaDb => &["--auth-root-authentication-method=normal", "--skip-test-db"],
            Self::MySql => &[],
        }
    }
}

impl std::str::FromStr for Engine {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "mariadb" => Ok(Self::MariaDb),
            "mysql" => Ok(Self::MySql),
            other => bail!("engine {other:?} is not known: say mariadb or mysql (SA_TEST_ENGINE)"),
        }
    }
}

/// The commands that run one engine on this machine, as `deploy/engine` found them.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) server: Vec<String>,
    pub(crate) init: Vec<String>,
    pub(crate) version: String,
}

impl Recipe {
    /// Asks `deploy/engine` once per process and engine: it may install or unpack what is missing, which takes its time.
    pub(crate) fn of(engine: Engine) -> Result<Self> {
        static KNOWN: Mutex<Option<HashMap<Engine, Recipe>>> = Mutex::new(None);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        if let Some(recipe) = known.get(&engine) {
            return Ok(recipe.clone());
        }
        let recipe = Self::ask(&engine_script(), engine)?;
        known.insert(engine, recipe.clone());
        Ok(recipe)
    }

    fn ask(script: &Path, engine: Engine) -> Result<Self> {
        ensure!(
            script.exists(),
            "{} does not exist, so no {} server can be started: run it, or point SA_TEST_DATABASE_URL at a server",
            script.display(),
            engine.name()
        );
        let output = Command::new(script)
            .arg(engine.name())
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("{} does not run", script.display()))?;
        ensure!(
            output.status.success(),
            "{} {} failed with {}; run it by hand to see why",
            script.display(),
            engine.name(),
            output.status
        );
        Self::parse(&String::from_utf8_lossy(&output.stdout))
    }

    fn parse(lines: &str) -> Result<Self> {
        let value = |key: &str| {
            lines
                .lines()
                .find_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='))
                .with_context(|| format!("deploy/engine printed no line {key}=…"))
        };
        let words = |key: &str| {
            let words = shlex::split(value(key)?).with_context(|| format!("{key} is not a shell-quoted command"))?;
            ensure!(!words.is_empty(), "{key} is empty");
            Ok(words)
        };
        Ok(Self { server: words("SERVER_CMD")?, init: words("INIT_CMD")?, version: value("VERSION")?.to_owned() })
    }
}

/// The root of the repository: this package lies two folders below it.
#[must_use]
pub fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("proofs/harness lies two folders deep").to_owned()
}

/// `SA_TEST_ENGINE_SCRIPT` names another script with the same output, for a machine where ours does not fit.
fn engine_script() -> PathBuf {
    env::var_os("SA_TEST_ENGINE_SCRIPT").map_or_else(|| repository_root().join("deploy/engine"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipe_is_read_from_key_value_lines() {
        let recipe =
            Recipe::parse("VERSION=9.7.4\nSERVER_CMD='/a b/mysqld' --no-defaults\nINIT_CMD=mysqld --init\n").unwrap();
        assert_eq!(recipe.server, ["/a b/mysqld", "--no-defaults"]);
        assert_eq!(recipe.init, ["mysqld", "--init"]);
        assert_eq!(recipe.version, "9.7.4");
    }

    #[test]
    fn missing_script_is_an_error_that_says_what_to_run() {
        let error = Recipe::ask(Path::new("/nowhere/deploy/engine"), Engine::MariaDb).unwrap_err().to_string();
        assert!(error.contains("run it"), "{error}");
    }

    #[test]
    fn unknown_engine_is_refused() {
        assert!("postgres".parse::<Engine>().is_err());
        assert_eq!(Engine::from_version("10.11.19-MariaDB-0+deb12u1"), Engine::MariaDb);
        assert_eq!(Engine::from_version("9.7.4"), Engine::MySql);
    }
}
