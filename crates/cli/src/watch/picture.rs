//! The contents of the screen as plain data, so that drawing makes no queries.

/// Everything that is known at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Sentences about the host and the broker, the most important first.
    pub(crate) host: Vec<String>,
    /// What is unknown and why, and what has ended.
    pub(crate) notes: Vec<String>,
    /// The watched grants, channels and threads.
    pub(crate) rows: Vec<Row>,
}

/// The identity of a row, independent of its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A grant or a channel of the broker.
    Grant(u64),
    /// A thread that is watched by itself.
    Thread(u32),
}

/// A grant, a channel, or a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// Its identity.
    pub(crate) key: Key,
    /// Its name for people.
    pub(crate) name: String,
    /// `reservation`, `upcalls`, `priority`, `channel` or `thread`.
    pub(crate) kind: &'static str,
    /// Its promise, in words.
    pub(crate) what: String,
    /// The CPU to which it is bound, if any.
    pub(crate) cpu: Option<u32>,
    /// The granted share of a CPU, in parts per million.
    pub(crate) granted_ppm: Option<u64>,
    /// The used share of a CPU over about the last second, in parts per million.
    pub(crate) used_ppm: Option<u64>,
    /// The slack of the tightest recent job, in nanoseconds; negative if it was late.
    pub(crate) slack_ns: Option<i64>,
    /// The number of completed jobs or messages; `None` if they are not observed.
    pub(crate) jobs: Option<u64>,
    /// The number of late ones; `None` if they are not observed, or nothing was promised.
    pub(crate) late: Option<u64>,
    /// The most frequent main cause of the late ones.
    pub(crate) cause: Option<String>,
    /// The latest wake-up latencies in nanoseconds, the newest last.
    pub(crate) latencies: Vec<u64>,
    /// Further facts: a label and a value.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// The latest late jobs, the newest first.
    pub(crate) late_jobs: Vec<Late>,
}

impl Row {
    /// Creates a row with nothing known but its identity and its description.
    pub(crate) fn new(key: Key, kind: &'static str, name: String, what: String) -> Self {
        Self {
            key,
            name,
            kind,
            what,
            cpu: None,
            granted_ppm: None,
            used_ppm: None,
            slack_ns: None,
            jobs: None,
            late: None,
            cause: None,
            latencies: Vec::new(),
            facts: Vec::new(),
            late_jobs: Vec::new(),
        }
    }

    /// Returns the wake-up latency that `percent` of the recent ones do not exceed, in nanoseconds.
    pub(crate) fn latency(&self, percent: usize) -> Option<u64> {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
        sorted.get(at).copied()
    }
}

/// A late job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Late {
    /// Its index.
    pub(crate) job: u64,
    /// Its tardiness, in nanoseconds.
    pub(crate) tardiness_ns: u64,
    /// Its own execution time, in nanoseconds.
    pub(crate) own_ns: u64,
    /// The causes with their shares of the tardiness in nanoseconds, the largest share first.
    pub(crate) causes: Vec<(u64, String)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_sorted_latencies() {
        let mut row = Row::new(Key::Thread(1), "thread", String::new(), String::new());
        assert_eq!(row.latency(50), None);
        row.latencies = (1..=100).rev().collect();
        let asked = [0, 50, 99, 100].map(|percent| row.latency(percent));
        assert_eq!(asked, [1, 50, 99, 100].map(Some));
        row.latencies = vec![7];
        assert_eq!((row.latency(1), row.latency(100)), (Some(7), Some(7)));
    }
}
