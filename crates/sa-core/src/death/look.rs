//! What this machine shows of itself and of its processes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::time::{ClockId, clock_gettime};

use super::{Death, Here, Process, Sight, proof_of_death};

impl Here {
    /// Where this process stands; what cannot be read is left out.
    #[must_use]
    pub fn of_this_process() -> Self {
        Self { machine_id: machine_id(), boot_id: boot_id(), pid_namespace: pid_namespace() }
    }

    /// Whether this process is dead for certain; `silent_for` is how old its last pulse was by the database's clock a
    /// moment ago.
    #[must_use]
    pub fn look_for(&self, process: &Process, silent_for: Duration) -> Option<Death> {
        proof_of_death(process, silent_for, self, up_for(), Sight::of(process.pid))
    }
}

impl Sight {
    /// What is to be seen of this process id now.
    #[must_use]
    pub fn of(pid: u32) -> Self {
        let Some(known) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Self::Unclear };
        match test_kill_process(known) {
            Err(Errno::SRCH) => return Self::Absent,
            Err(_) => return Self::Unclear,
            Ok(()) => {}
        }
        if !proc_counts_as_we_do() {
            return Self::Unclear;
        }
        let stat = read(&format!("/proc/{pid}/stat"));
        let seen = stat.and_then(|stat| Some((start_time(&stat)?, state(&stat)?)));
        seen.map_or(Self::Unclear, |(start_time, state)| Self::Present { start_time, state })
    }
}

/// Whether `/proc` is of our own pid namespace: in another one's the same number is another process.
fn proc_counts_as_we_do() -> bool {
    let shown = fs::read_link("/proc/self").ok();
    shown.is_some_and(|shown| shown.to_str() == Some(&std::process::id().to_string()))
}

/// How long the machine has been up, also while it slept.
fn up_for() -> Duration {
    let up = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(up.tv_sec), u32::try_from(up.tv_nsec));
    // A clock that cannot be is one by which nobody is dead.
    seconds.ok().zip(nanos.ok()).map_or(Duration::MAX, |(seconds, nanos)| Duration::new(seconds, nanos))
}

/// `/etc/machine-id`, where there is one.
pub(crate) fn machine_id() -> Option<String> {
    read("/etc/machine-id").filter(|id| !id.is_empty())
}

/// The kernel's boot id, or `SA_BOOT_ID` where the process may not read it.
pub(crate) fn boot_id() -> Option<String> {
    read("/proc/sys/kernel/random/boot_id").or_else(|| std::env::var("SA_BOOT_ID").ok())
}

/// Inode of the pid namespace.
pub(crate) fn pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|file| file.ino())
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The 22nd field of `/proc/PID/stat`.
pub(crate) fn start_time(stat: &str) -> Option<u64> {
    after_command(stat)?.nth(19)?.parse().ok()
}

/// The third field.
fn state(stat: &str) -> Option<char> {
    after_command(stat)?.next()?.chars().next()
}

/// The fields behind the second, which is the command in brackets and may hold spaces and brackets itself.
fn after_command(stat: &str) -> Option<std::str::SplitWhitespace<'_>> {
    Some(stat.rsplit_once(')')?.1.split_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_brackets_does_not_shift_the_fields() {
        let stat = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1 18446744073709551615";
        assert_eq!((start_time(stat), state(stat)), (Some(4711), Some('S')));
    }

    #[test]
    fn this_process_is_seen_to_live() {
        let here = Here::of_this_process();
        let Sight::Present { start_time, .. } = Sight::of(std::process::id()) else { panic!("it is here") };
        let own = Process {
            machine_id: here.machine_id.clone(),
            boot_id: here.boot_id.clone(),
            pid: std::process::id(),
            pid_namespace: here.pid_namespace,
            start_time: Some(start_time),
            beat: Duration::from_secs(30),
        };
        assert_eq!(here.look_for(&own, Duration::MAX), None);
    }

    #[test]
    fn a_number_that_no_process_can_have_is_unclear() {
        assert_eq!(Sight::of(0), Sight::Unclear);
        assert_eq!(Sight::of(u32::MAX), Sight::Unclear);
        assert_eq!(Sight::of(i32::MAX as u32), Sight::Absent);
    }
}
