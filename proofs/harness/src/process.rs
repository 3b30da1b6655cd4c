//! The real binaries, as children of the test.

use std::{
    collections::HashMap,
    env,
    ffi::{OsStr, OsString},
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use serde::Deserialize;
use tempfile::TempDir;

use crate::{
    engine::repository_root,
    signal::{freeze, signal},
    wait::wait_until,
    watchdog::Watchdog,
};

/// All that a child inherits. The rest stays out: a user's `SA_…`, `DATABASE_URL` or provider key must not change a proof.
const INHERITED: [&str; 7] = ["PATH", "HOME", "TMPDIR", "LANG", "TZ", "RUST_BACKTRACE", "LLVM_PROFILE_FILE"];

/// A binary of this workspace and how to run it: arguments, environment, standard input.
#[derive(Clone, Debug)]
pub struct Binary {
    path: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Option<Vec<u8>>,
}

/// How a finished child ended and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// All of standard output; bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// All of standard error, likewise.
    pub stderr: String,
}

impl Binary {
    /// The binary of the package of the same name, such as `sa-worker`.
    ///
    /// # Errors
    /// As [`Binary::of_package`].
    pub fn named(name: &str) -> Result<Self> {
        Self::of_package(name, name)
    }

    /// A binary of a package: from `SA_BIN_DIR` when that is set, else built by cargo, once per package and process.
    ///
    /// # Errors
    /// When it does not build, or the package has no such binary.
    pub fn of_package(package: &str, name: &str) -> Result<Self> {
        let path = match env::var_os("SA_BIN_DIR") {
            Some(folder) => PathBuf::from(folder).join(name),
            None => built(package, name)?,
        };
        ensure!(path.is_file(), "{} is not there", path.display());
        Ok(Self::at(path))
    }

    /// Any other program, by its path or by a name on `PATH`.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), args: Vec::new(), env: Vec::new(), stdin: None }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets one variable; nothing but paths and the locale is inherited from the test.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// What it reads on standard input, which is empty otherwise.
    #[must_use]
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(&self) -> Result<Process> {
        let folder = tempfile::Builder::new().prefix("sa-process-").tempdir()?;
        let inherited = INHERITED.iter().filter_map(|name| Some((name, env::var_os(name)?)));
        let mut child = Command::new(&self.path)
            .args(&self.args)
            .env_clear()
            .envs(inherited)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(File::create(folder.path().join("stdout"))?)
            .stderr(File::create(folder.path().join("stderr"))?)
            .spawn()
            .with_context(|| format!("{} does not run", self.path.display()))?;
        if let (Some(bytes), Some(mut pipe)) = (self.stdin.clone(), child.stdin.take()) {
            // On a thread, as the child may read late or never; a closed pipe is then no fault of the test's.
            thread::spawn(move || pipe.write_all(&bytes));
        }
        let watchdog = Watchdog::over(&child, folder.path())?;
        Ok(Process { child, folder, _watchdog: watchdog })
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// When it cannot be started or does not end within `limit` (it is killed then).
    pub async fn run_to_end(&self, limit: Duration) -> Result<Output> {
        let mut process = self.spawn()?;
        let status = process.wait_exit(limit).await?;
        Ok(Output { code: status.code(), stdout: process.stdout(), stderr: process.stderr() })
    }
}

/// A running child; dropping it kills it, and so does the end of this process.
#[derive(Debug)]
pub struct Process {
    child: Child,
    folder: TempDir,
    _watchdog: Watchdog,
}

impl Process {
    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it (SIGKILL) and waits for its end: afterwards none of its threads runs.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kill9(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Freezes it (SIGSTOP).
    ///
    /// # Errors
    /// When it has ended.
    pub fn sigstop(&self) -> Result<()> {
        freeze(&self.child)
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// When it has ended.
    pub fn sigcont(&self) -> Result<()> {
        signal(&self.child, Signal::CONT)
    }

    /// Asks it to stop (SIGTERM).
    ///
    /// # Errors
    /// When it has ended.
    pub fn sigterm(&self) -> Result<()> {
        signal(&self.child, Signal::TERM)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it still runs after `limit`; the error carries what it wrote on standard error.
    pub async fn wait_exit(&mut self, limit: Duration) -> Result<ExitStatus> {
        let child = &mut self.child;
        let waited = wait_until("the end of a process", limit, async || child.try_wait()).await;
        waited.with_context(|| format!("it wrote on stderr:\n{}", self.stderr()))
    }

    /// Waits until it has written `text` on standard output or standard error, and returns the line.
    ///
    /// # Errors
    /// When it ends first, or the limit passes; the error carries what it wrote on standard error.
    pub async fn wait_for_output(&mut self, text: &str, limit: Duration) -> Result<String> {
        let what = format!("output with {text:?}");
        let waited = wait_until(&what, limit, async || {
            // Asked before the look, so that the last words of a process that ends in between are still read.
            let ended = self.child.try_wait()?;
            let said = format!("{}\n{}", self.stdout(), self.stderr());
            let line = said.lines().find(|line| line.contains(text)).map(ToOwned::to_owned);
            ensure!(line.is_some() || ended.is_none(), "the process ended without writing {text:?}");
            Ok(line)
        });
        waited.await.with_context(|| format!("it wrote on stderr:\n{}", self.stderr()))
    }

    /// What it has written on standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.read("stdout")
    }

    /// What it has written on standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.read("stderr")
    }

    fn read(&self, name: &str) -> String {
        // The folder is ours and lives as long as this value, so a file that cannot be read has nothing to say.
        String::from_utf8_lossy(&fs::read(self.folder.path().join(name)).unwrap_or_default()).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill9();
        if thread::panicking() {
            eprintln!("--- stderr of process {}:\n{}", self.id(), self.stderr());
        }
    }
}

/// One line of cargo's JSON messages, of which only artifacts with an executable matter here.
#[derive(Deserialize)]
struct Message {
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

fn built(package: &str, name: &str) -> Result<PathBuf> {
    static BUILT: Mutex<Option<HashMap<String, HashMap<String, PathBuf>>>> = Mutex::new(None);
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let built = built.get_or_insert_default();
    if !built.contains_key(package) {
        built.insert(package.to_owned(), build(package)?);
    }
    let path = built.get(package).and_then(|binaries| binaries.get(name));
    Ok(path.with_context(|| format!("package {package} has no binary {name}"))?.clone())
}

fn build(package: &str) -> Result<HashMap<String, PathBuf>> {
    let output = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--message-format=json-render-diagnostics", "--bins", "--package", package])
        .current_dir(repository_root())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo does not run")?;
    ensure!(output.status.success(), "package {package} does not build");
    let lines = String::from_utf8_lossy(&output.stdout);
    let messages = lines.lines().filter_map(|line| serde_json::from_str::<Message>(line).ok());
    Ok(messages.filter_map(|message| Some((message.target?.name, message.executable?))).collect())
}
