//! What a process has used of the machine.

use std::fs;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

use crate::Outcome;

/// A process's CPU time so far, of all its threads.
pub(crate) fn cpu(pid: u32) -> Outcome<Duration> {
    let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(i32::try_from(pid)?))?;
    Ok(Duration::from(clock_gettime(clock)?))
}

/// A process's memory, in MB (10^6 bytes).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Memory {
    /// Everything resident, the program's own pages too (VmRSS).
    pub(crate) resident: f64,
    /// Of it what belongs to no file: heap and stacks (RssAnon).
    pub(crate) heap: f64,
    /// The most that was resident (VmHWM), since it began or [`forget_peak`].
    pub(crate) peak: f64,
}

/// A process's memory now.
pub(crate) fn memory(pid: u32) -> Outcome<Memory> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    read_status(&text).ok_or_else(|| format!("{path} names no VmRSS, RssAnon and VmHWM").into())
}

/// The peak of a process's memory counts from now on.
pub(crate) fn forget_peak(pid: u32) -> Outcome<()> {
    let path = format!("/proc/{pid}/clear_refs");
    // What 5 means is the kernel's to say: proc(5).
    Ok(fs::write(&path, "5").map_err(|error| format!("cannot write {path}: {error}"))?)
}

fn read_status(text: &str) -> Option<Memory> {
    let field = |name: &str| -> Option<f64> {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        let kibibytes: f64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kibibytes * 1024.0 / 1e6)
    };
    Some(Memory { resident: field("VmRSS")?, heap: field("RssAnon")?, peak: field("VmHWM")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_from_the_status() {
        let text = "Name:\tcopyrator\nVmHWM:\t   31250 kB\nVmRSS:\t   15625 kB\nRssAnon:\t    3125 kB\nThreads:\t4\n";
        assert_eq!(read_status(text), Some(Memory { resident: 16.0, heap: 3.2, peak: 32.0 }));
        assert_eq!(read_status("Name:\tkthreadd\n"), None);
    }

    #[test]
    fn this_process_has_memory_and_uses_time() {
        let me = std::process::id();
        let before = cpu(me).unwrap();
        let mut sum = 0u64;
        while cpu(me).unwrap() == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(memory(me).unwrap().resident > 0.0);
    }
}
