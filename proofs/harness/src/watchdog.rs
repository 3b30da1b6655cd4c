//! Ends a child when this process is gone, however it went: `exit`, panic, or SIGKILL.

use std::{
    io::Write,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};

/// Reads one line: getting it means "stand down", end of file means that the process which held the pipe has died.
/// Signals for the whole terminal group are ignored, since they are the very moment this script is for.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r word && exit 0
kill -KILL "$1" 2>/dev/null
n=0
while kill -0 "$1" 2>/dev/null && [ "$n" -lt 20 ]; do n=$((n + 1)); sleep 0.1; done
[ -z "$2" ] || rm -rf "$2"
"#;

/// A small shell that outlives us by a moment. Statics are never dropped and a killed process drops nothing,
/// so destructors alone would leave servers running.
#[derive(Debug)]
pub(crate) struct Watchdog(Child);

impl Watchdog {
    /// Watches over `child`; when this process dies, the child is killed and then `folder` is removed.
    pub(crate) fn over(child: &Child, folder: &Path) -> Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", SCRIPT, "watchdog"])
            .arg(child.id().to_string())
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("sh does not run")?;
        Ok(Self(shell))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            // An error means that the shell is gone already, which is what the line asks for.
            let _ = pipe.write_all(b"stand down\n");
        }
        let _ = self.0.wait();
    }
}
