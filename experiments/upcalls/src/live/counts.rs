//! The kernel's counts for the threads of this process.

use std::fs;
use std::ops::Sub;

/// The counts of all threads but the first, which only waits for the end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Context switches, voluntary and not (proc_pid_status(5)).
    pub(crate) switches: u64,
    /// Nanoseconds on a CPU (schedstat).
    pub(crate) exec_time: u64,
}

impl Counts {
    /// Reads the counts until now, without threads that have ended.
    pub(crate) fn read() -> Self {
        let mut counts = Self::default();
        let first = std::process::id().to_string();
        for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            if task.file_name().to_str() == Some(&first) {
                continue;
            }
            let of = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
            for line in of("status").lines().filter(|line| line.contains("ctxt_switches:")) {
                counts.switches += number_in(line.split_whitespace().next_back());
            }
            counts.exec_time += number_in(of("schedstat").split_whitespace().next());
        }
        counts
    }
}

fn number_in(word: Option<&str>) -> u64 {
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

impl Sub for Counts {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            switches: self.switches.saturating_sub(before.switches),
            exec_time: self.exec_time.saturating_sub(before.exec_time),
        }
    }
}
