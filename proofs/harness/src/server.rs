//! A private, throwaway database server.

use std::{
    fs::{self, File},
    io::Read,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

use crate::engine::{Engine, Recipe};
use crate::signal::{freeze, signal};
use crate::watchdog::Watchdog;

/// A start takes 1 s to 5 s. Beside a build that fills the disk it has taken more than a minute, which is no fault.
const START_LIMIT: Duration = Duration::from_secs(180);
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// `sockaddr_un` holds 108 bytes, the last one being a NUL.
const SOCKET_PATH_LIMIT: usize = 107;

/// A database server of this test's own: its data folder, port and socket vanish with it.
///
/// Dropping it kills the server; so does the end of this process, even by SIGKILL.
#[derive(Debug)]
pub struct Server {
    engine: Engine,
    recipe: Recipe,
    port: u16,
    /// Settings after the usual ones, which they win against.
    tuning: &'static [&'static str],
    process: Mutex<Option<Running>>,
    folder: TempDir,
}

#[derive(Debug)]
struct Running {
    child: Child,
    _watchdog: Watchdog,
}

impl Server {
    /// Starts a private server on an empty data folder and waits until it accepts connections.
    ///
    /// # Errors
    /// When `deploy/engine` cannot provide the engine, or the server does not come up within three minutes; the error
    /// then carries the end of the server's log.
    pub fn own(engine: Engine) -> Result<Self> {
        Self::tuned(engine, &[])
    }

    /// The same with further settings of the server, `--name=value` each; its errors are those of [`Server::own`].
    pub fn tuned(engine: Engine, tuning: &'static [&'static str]) -> Result<Self> {
        let recipe = Recipe::of(engine)?;
        let folder = short_folder()?;
        initialise(&recipe, engine, folder.path())?;
        let mut server = Self { engine, recipe, port: free_port()?, tuning, process: Mutex::new(None), folder };
        // Somebody else may take the port between our look and the server's bind, so the choice is made again.
        let mut tries_left = 2;
        while let Err(error) = server.start_again() {
            if tries_left == 0 {
                return Err(error);
            }
            tries_left -= 1;
            server.port = free_port()?;
        }
        Ok(server)
    }

    /// Which engine this is.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.engine
    }

    /// The version as `deploy/engine` told it.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.recipe.version
    }

    /// `mysql://root@127.0.0.1:PORT/`, without a database.
    #[must_use]
    pub fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/", self.port)
    }

    /// The TCP address, for a [`crate::Proxy`] in front of it.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.port).into()
    }

    /// The unix socket.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("s.sock")
    }

    /// Starts the server on its old folder and port, after [`Server::stop`] or [`Server::kill9`].
    ///
    /// # Errors
    /// When it runs already, or does not accept connections within three minutes.
    pub fn start_again(&self) -> Result<()> {
        let mut process = self.process();
        ensure!(process.is_none(), "the server runs already");
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let (program, args) = self.recipe.server.split_first().expect("Recipe::parse refuses empty commands");
        let mut child = Command::new(program)
            .args(args)
            .env("TMPDIR", own_tmp(self.folder.path())?)
            .arg(format!("--datadir={}", data_folder(self.folder.path()).display()))
            .arg(format!("--socket={}", self.socket().display()))
            .arg(format!("--pid-file={}", self.folder.path().join("server.pid").display()))
            .arg(format!("--port={}", self.port))
            .args(self.engine.server_flags())
            .args(self.tuning)
            .args(root_flags())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A Ctrl-C on the terminal is for the test; the watchdog then ends the server.
            .process_group(0)
            .spawn()
            .with_context(|| format!("{program} does not run"))?;
        let watchdog = Watchdog::over(&child, self.folder.path())?;
        if let Err(error) = wait_for_greeting(&mut child, self.address()) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error.context(format!("end of the server's log:\n{}", self.log_end())));
        }
        *process = Some(Running { child, _watchdog: watchdog });
        Ok(())
    }

    /// Asks the server to stop (SIGTERM) and waits for its end.
    ///
    /// # Errors
    /// When it does not run, or still runs after half a minute (it is killed then).
    pub fn stop(&self) -> Result<()> {
        let mut running = self.process().take().context("the server does not run")?;
        signal(&running.child, Signal::TERM)?;
        let limit = Instant::now() + STOP_LIMIT;
        while running.child.try_wait()?.is_none() {
            if Instant::now() > limit {
                running.child.kill()?;
                running.child.wait()?;
                bail!("the server did not stop in {STOP_LIMIT:?}");
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Kills the server as a power cut would (SIGKILL) and waits for its end.
    ///
    /// # Errors
    /// When it does not run.
    pub fn kill9(&self) -> Result<()> {
        let mut running = self.process().take().context("the server does not run")?;
        running.child.kill()?;
        running.child.wait()?;
        Ok(())
    }

    /// Freezes the server: connections stay open, nothing answers.
    ///
    /// # Errors
    /// When it does not run.
    pub fn sigstop(&self) -> Result<()> {
        freeze(&self.process().as_ref().context("the server does not run")?.child)
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    /// When it does not run.
    pub fn sigcont(&self) -> Result<()> {
        signal(&self.process().as_ref().context("the server does not run")?.child, Signal::CONT)
    }

    /// The last lines of the server's own log.
    #[must_use]
    pub fn log_end(&self) -> String {
        let log = fs::read_to_string(self.log_path()).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn process(&self) -> MutexGuard<'_, Option<Running>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut running) = self.process().take() {
            // The data is thrown away with the folder, so there is nothing to flush.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

/// A temporary folder whose path leaves room for a socket; `TMPDIR` may be too deep for one.
fn short_folder() -> Result<TempDir> {
    let prefix = tempfile::Builder::new().prefix("sa-server-").to_owned();
    let folder = prefix.tempdir()?;
    if folder.path().join("s.sock").as_os_str().len() <= SOCKET_PATH_LIMIT {
        return Ok(folder);
    }
    Ok(prefix.tempdir_in("/tmp")?)
}

fn data_folder(folder: &Path) -> PathBuf {
    folder.join("data")
}

/// A server that starts removes what looks like temporary tables left over in its TMPDIR: also those of another that
/// shares it and is at work.
fn own_tmp(folder: &Path) -> Result<PathBuf> {
    let tmp = folder.join("tmp");
    fs::create_dir_all(&tmp)?;
    Ok(tmp)
}

fn initialise(recipe: &Recipe, engine: Engine, folder: &Path) -> Result<()> {
    let (program, args) = recipe.init.split_first().expect("Recipe::parse refuses empty commands");
    let output = Command::new(program)
        .args(args)
        .env("TMPDIR", own_tmp(folder)?)
        .arg(format!("--datadir={}", data_folder(folder).display()))
        .args(engine.init_flags())
        .arg(engine.size_flag())
        .args(root_flags())
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{program} does not run"))?;
    ensure!(
        output.status.success(),
        "{program} could not make a data folder: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Both engines refuse to run as root unless they are told so.
fn root_flags() -> &'static [&'static str] {
    if geteuid().is_root() { &["--user=root"] } else { &[] }
}

/// A free port below the kernel's ephemeral range, where no outgoing connection can take it while the server is down.
pub(crate) fn free_port() -> Result<u16> {
    for _ in 0..100 {
        let [high, low, ..] = *uuid::Uuid::new_v4().as_bytes();
        let port = 20_000 + u16::from_be_bytes([high, low]) % 12_000;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port between 20000 and 32000")
}

/// An open port is not enough: a server still starting may accept and then answer an error packet.
fn wait_for_greeting(child: &mut Child, address: SocketAddr) -> Result<()> {
    let limit = Instant::now() + START_LIMIT;
    loop {
        if greets(address) {
            return Ok(());
        }
        if let Some(status) = child.try_wait()? {
            bail!("the server ended with {status} while starting");
        }
        ensure!(Instant::now() < limit, "the server accepts no connection after {START_LIMIT:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The first packet of a ready server is a handshake: four bytes of header, then protocol version 10.
fn greets(address: SocketAddr) -> bool {
    let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1)) else { return false };
    let mut packet = [0; 5];
    stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
        && stream.read_exact(&mut packet).is_ok()
        && packet[4] == 10
}
