//! The machine of a measurement, and what else it was doing.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde::Serialize;

use crate::Outcome;

/// How long the machine is watched before a benchmark begins.
const WATCHED: Duration = Duration::from_secs(2);

/// The machine, as far as it explains figures.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) cores: usize,
    pub(crate) processor: String,
    pub(crate) memory_gb: f64,
    pub(crate) kernel: String,
    /// The commit that the sources are at, with `-dirty` if they are not.
    pub(crate) commit: String,
    /// Share of all cores, in percent, that others used in the two seconds before.
    pub(crate) busy_before_percent: f64,
}

impl Machine {
    /// Looks at this machine, for two seconds.
    pub(crate) fn look() -> Outcome<Machine> {
        let line = |path: &str, name: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
            line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let memory = line("/proc/meminfo", "MemTotal");
        let kibibytes: f64 = memory.trim_end_matches("kB").trim().parse().unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let before = fs::read_to_string("/proc/stat")?;
        thread::sleep(WATCHED);
        let after = fs::read_to_string("/proc/stat")?;
        Ok(Machine {
            cores: thread::available_parallelism()?.get(),
            processor: line("/proc/cpuinfo", "model name"),
            memory_gb: (kibibytes * 1024.0 / 1e9).round(),
            kernel: release.split('-').next().unwrap_or_default().trim().to_owned(),
            commit: commit(),
            busy_before_percent: busy_percent(&before, &after).ok_or("cannot read /proc/stat")?.round(),
        })
    }
}

fn commit() -> String {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty", "--abbrev=10", "--exclude=*"]);
    match git.current_dir(env!("CARGO_MANIFEST_DIR")).output() {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// The share of time between two looks at `/proc/stat` in which cores were not idle.
fn busy_percent(before: &str, after: &str) -> Option<f64> {
    let ticks = |text: &str| -> Option<(f64, f64)> {
        let line = text.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        // user nice system idle iowait irq softirq steal; what follows is counted in user and nice already.
        let all: f64 = ticks.iter().take(8).sum();
        Some((all, ticks.get(3)? + ticks.get(4)?))
    };
    let ((all_before, idle_before), (all_after, idle_after)) = (ticks(before)?, ticks(after)?);
    let all = all_after - all_before;
    (all > 0.0).then(|| 100.0 * (1.0 - (idle_after - idle_before) / all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_idle_nor_waiting_for_a_disk_is_busy() {
        let before = "cpu  100 0 100 1000 0 0 0 0 50 0\ncpu0 1 1 1 1\n";
        let after = "cpu  120 0 110 1150 10 0 0 10 99 0\n";
        assert_eq!(busy_percent(before, after).map(f64::round), Some(20.0));
        assert_eq!(busy_percent(before, before), None);
        assert_eq!(busy_percent("", after), None);
    }
}
