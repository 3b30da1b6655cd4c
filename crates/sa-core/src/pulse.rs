//! A process's sign of life, as a value.

use std::fs;
use std::time::Duration;

use crate::death;
use crate::id::WorkerId;
use crate::job::Lane;
use crate::text_enum::text_enum;

text_enum! {
    /// Which daemon a pulse is of.
    PulseRole {
        /// Claims and runs jobs.
        Worker = "worker",
        /// Gives back what dead workers held.
        Reaper = "reaper",
    }
}

/// Which process lives where, and by which limits.
#[derive(Clone, Debug)]
pub struct Pulse {
    /// The worker's own uuid, the first part of its claims; the nil UUID for the reaper.
    pub worker: WorkerId,
    /// Which daemon.
    pub role: PulseRole,
    /// The host's name.
    pub host: String,
    /// `/etc/machine-id`, where there is one.
    pub machine_id: Option<String>,
    /// The kernel's boot id, or `SA_BOOT_ID` where the process may not read it.
    pub boot_id: Option<String>,
    /// Process id.
    pub pid: u32,
    /// Inode of the pid namespace.
    pub pid_namespace: Option<u64>,
    /// Start time in clock ticks since boot.
    pub start_time: Option<u64>,
    /// This build.
    pub version: String,
    /// The lanes it serves.
    pub lanes: Vec<Lane>,
    /// How many claims it holds.
    pub in_flight: u32,
    /// How often it beats.
    pub beat: Duration,
    /// When it is to be called stale.
    pub stale: Duration,
}

impl Pulse {
    /// The pulse of this process, read from `/proc` and `/etc`; what cannot be read is left out.
    #[must_use]
    pub fn of_this_process(
        worker: WorkerId,
        role: PulseRole,
        beat: Duration,
        stale: Duration,
        lanes: Vec<Lane>,
    ) -> Self {
        let read = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        Self {
            worker,
            role,
            host: read("/proc/sys/kernel/hostname").unwrap_or_else(|| "unknown".to_owned()),
            machine_id: death::machine_id(),
            boot_id: death::boot_id(),
            pid: std::process::id(),
            pid_namespace: death::pid_namespace(),
            start_time: read("/proc/self/stat").and_then(|stat| death::start_time(&stat)),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            lanes,
            in_flight: 0,
            beat,
            stale,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_pid_and_a_start_time() {
        let pulse = Pulse::of_this_process(WorkerId::new(), PulseRole::Worker, Duration::ZERO, Duration::ZERO, vec![]);
        assert_eq!(pulse.pid, std::process::id());
        assert!(pulse.start_time.is_some() && pulse.pid_namespace.is_some());
        let id = fs::read_to_string("/etc/machine-id").map(|text| text.trim().to_owned());
        assert_eq!(pulse.machine_id, id.ok().filter(|id| !id.is_empty()), "an empty one names no machine");
    }
}
