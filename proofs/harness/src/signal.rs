//! Signals to children: ask, kill, freeze.

use std::process::Child;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// Sends a signal to a child that has not been waited for, so its pid cannot belong to anybody else.
pub(crate) fn signal(child: &Child, signal: Signal) -> Result<()> {
    kill_process(Pid::from_child(child), signal).with_context(|| format!("cannot send {signal:?}"))
}

/// Freezes a child, and waits until the last of its threads stands still: one on another processor may still answer a
/// query after the signal was sent.
pub(crate) fn freeze(child: &Child) -> Result<()> {
    signal(child, Signal::STOP)?;
    let tasks = format!("/proc/{}/task", child.id());
    let deadline = Instant::now() + Duration::from_secs(10);
    while !all_stopped(&tasks)? {
        ensure!(Instant::now() < deadline, "a process does not stop although it was told to");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn all_stopped(tasks: &str) -> Result<bool> {
    for task in fs::read_dir(tasks)? {
        // A thread that ended meanwhile has no state any more.
        let Ok(stat) = fs::read_to_string(task?.path().join("stat")) else { continue };
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        if !matches!(state, Some('T' | 'Z' | 'X')) {
            return Ok(false);
        }
    }
    Ok(true)
}
