//! What is shown, as plain data: whoever draws it asks nobody anything.

/// Recent jobs of a row whose wake-up latencies are kept.
pub(crate) const RECENT: usize = 120;

/// Late jobs of a row that are kept.
pub(crate) const LATE_KEPT: usize = 20;

/// Everything that is known at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Picture {
    /// Sentences about the host and the broker, the most important first.
    pub(crate) host: Vec<String>,
    /// What is not known and why, and what has ended.
    pub(crate) notes: Vec<String>,
    /// What is watched.
    pub(crate) rows: Vec<Row>,
}

/// What a row is, whatever place it is shown at.
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
    /// Which.
    pub(crate) key: Key,
    /// What people call it.
    pub(crate) name: String,
    /// `reservation`, `upcalls`, `priority`, `channel` or `thread`.
    pub(crate) kind: &'static str,
    /// What was promised to it, in words.
    pub(crate) what: String,
    /// Where it runs, if it stays there.
    pub(crate) cpu: Option<u32>,
    /// Of a CPU, in parts per million.
    pub(crate) granted_ppm: Option<u64>,
    /// Of a CPU, over the last second or so.
    pub(crate) used_ppm: Option<u64>,
    /// What was left of the time of the tightest recent job, in nanoseconds; below zero it was late.
    pub(crate) slack_ns: Option<i64>,
    /// Jobs, or messages, that were complete; none if nobody looks.
    pub(crate) jobs: Option<u64>,
    /// Those of them that were late; none if nobody looks, or nothing was promised.
    pub(crate) late: Option<u64>,
    /// What made most of the late ones late.
    pub(crate) cause: Option<String>,
    /// The latest wake-up latencies in nanoseconds, the newest last; at most [`RECENT`].
    pub(crate) latencies: Vec<u64>,
    /// More about it: what, and how much.
    pub(crate) facts: Vec<(&'static str, String)>,
    /// The latest late jobs, the newest first; at most [`LATE_KEPT`].
    pub(crate) late_jobs: Vec<Late>,
}

impl Row {
    /// A row of which nothing is known but what it is.
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

    /// The wake-up latency that `percent` of the recent ones do not exceed, in nanoseconds.
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
    /// Its number.
    pub(crate) job: u64,
    /// By how much it was late, in nanoseconds.
    pub(crate) tardiness_ns: u64,
    /// How long it worked itself.
    pub(crate) own_ns: u64,
    /// How much of the tardiness is laid to what, the largest share first.
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
