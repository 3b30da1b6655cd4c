//! Proof of death: what must be known before a process counts as dead although its silence is still short.
//!
//! The decision is pure; [`Here::look_for`] only gathers what this machine shows. Whatever is missing or may not be seen
//! proves nothing: then the stale limit decides, as it does about every process of another machine.

mod look;

use std::fmt;
use std::time::Duration;

pub(crate) use self::look::{boot_id, machine_id, pid_namespace, start_time};

/// A process, by what its pulse says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// `/etc/machine-id` where it ran.
    pub machine_id: Option<String>,
    /// The boot it ran under.
    pub boot_id: Option<String>,
    /// Its process id, as its own pid namespace counts.
    pub pid: u32,
    /// Inode of that namespace.
    pub pid_namespace: Option<u64>,
    /// When it started, in clock ticks since boot.
    pub start_time: Option<u64>,
    /// How often it beats.
    pub beat: Duration,
}

/// Where the one stands who looks. The default knows nothing, so that nobody is proven dead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Here {
    /// `/etc/machine-id`.
    pub machine_id: Option<String>,
    /// The boot this machine is under.
    pub boot_id: Option<String>,
    /// Inode of the pid namespace.
    pub pid_namespace: Option<u64>,
}

/// What is to be seen of a process id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// No process has it.
    Absent,
    /// A process has it.
    Present {
        /// When that one started, in clock ticks since boot.
        start_time: u64,
        /// The letter of its state: `Z` and `X` are dead, though somebody has yet to be told.
        state: char,
    },
    /// Nothing that proves anything: it may not be asked for, or `/proc` cannot be read.
    Unclear,
}

/// How a process came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// The process is gone, and its machine is not.
    ProcessEnded,
    /// The machine has been started anew since.
    MachineRestarted,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ProcessEnded => "its process ended",
            Self::MachineRestarted => "the machine was started anew",
        })
    }
}

/// How many beats may fail to come before a pulse alone speaks against its process.
pub const MISSED_BEATS: u32 = 3;

/// Whether `process`, whose last pulse is `silent_for` old by the database's clock, is dead for certain, seen from `here`,
/// a machine that has been up for `up_for`.
///
/// Cloned images share a machine id. So another boot proves death only if the last pulse is older than this boot, and so
/// old that a clone that lives would have beaten since.
///
/// ```
/// use std::time::Duration;
/// use sa_core::death::{Death, Here, Process, Sight, proof_of_death};
/// let here = Here { machine_id: Some("m".into()), boot_id: Some("b".into()), pid_namespace: Some(1) };
/// let process = Process {
///     machine_id: Some("m".into()),
///     boot_id: Some("b".into()),
///     pid: 7,
///     pid_namespace: Some(1),
///     start_time: Some(42),
///     beat: Duration::from_secs(30),
/// };
/// let (silent_for, up_for) = (Duration::from_secs(1), Duration::from_secs(3600));
/// let seen = |sight| proof_of_death(&process, silent_for, &here, up_for, sight);
/// assert_eq!(seen(Sight::Absent), Some(Death::ProcessEnded));
/// assert_eq!(seen(Sight::Present { start_time: 42, state: 'S' }), None);
/// assert_eq!(seen(Sight::Unclear), None);
/// ```
#[must_use]
pub fn proof_of_death(
    process: &Process,
    silent_for: Duration,
    here: &Here,
    up_for: Duration,
    sight: Sight,
) -> Option<Death> {
    if !same(process.machine_id.as_deref(), here.machine_id.as_deref())? {
        return None;
    }
    if !same(process.boot_id.as_deref(), here.boot_id.as_deref())? {
        let before_this_boot = silent_for > up_for && silent_for >= process.beat * MISSED_BEATS;
        return before_this_boot.then_some(Death::MachineRestarted);
    }
    if !same(process.pid_namespace, here.pid_namespace)? {
        return None;
    }
    let ended = match sight {
        Sight::Absent | Sight::Present { state: 'Z' | 'X', .. } => true,
        Sight::Present { start_time, state: _running } => !same(process.start_time, Some(start_time))?,
        Sight::Unclear => false,
    };
    ended.then_some(Death::ProcessEnded)
}

/// Whether two facts are the same; nothing if one of them is not known.
fn same<T: PartialEq>(one: Option<T>, other: Option<T>) -> Option<bool> {
    Some(one? == other?)
}

#[cfg(test)]
mod tests;
