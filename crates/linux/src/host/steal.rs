//! Stolen time: the hypervisor ran other guests while a CPU of ours wanted to run.

use std::fs;

use punctual_model::time::Duration;

use crate::clock;

/// Two samples' difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steal {
    /// The time between the samples.
    pub over: Duration,
    /// The ticks of all CPUs together (1/100 s each) in that time.
    pub ticks: u64,
    /// The stolen ones among them.
    pub stolen: u64,
    /// Stolen ticks of all ticks since boot, in parts per million.
    pub since_boot_ppm: u64,
}

/// Samples /proc/stat twice, `over` apart. Returns `None` if it cannot be read.
///
/// The kernel counts in hundredths of a second, so a short sample on an idle host shows nothing: a
/// zero proves nothing.
pub fn steal_over(over: Duration) -> Option<Steal> {
    let sample = || parse_stat(&fs::read_to_string("/proc/stat").ok()?);
    let before = sample()?;
    clock::sleep(over);
    let after = sample()?;
    Some(Steal {
        over,
        // The counters of idle and iowait may step back (proc_stat(5)).
        ticks: after.total.saturating_sub(before.total),
        stolen: after.stolen.saturating_sub(before.stolen),
        since_boot_ppm: after
            .stolen
            .saturating_mul(1_000_000)
            .checked_div(after.total)
            .unwrap_or(0),
    })
}

/// Returns the processor time stolen since boot, of all CPUs together, to 10 ms, or `None` if
/// /proc/stat cannot be read. The difference between before and after a run shows how much of its
/// lateness it could not avoid.
pub fn stolen() -> Option<Duration> {
    let ticks = parse_stat(&fs::read_to_string("/proc/stat").ok()?)?;
    Some(Duration::from_nanos(ticks.stolen.saturating_mul(10_000_000)))
}

/// Ticks of all CPUs since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// All of them.
    pub total: u64,
    /// The stolen ones: the hypervisor ran other guests.
    pub stolen: u64,
}

/// Parses the first line of /proc/stat: `cpu user nice system idle iowait irq softirq steal guest
/// …` (proc_stat(5)). User time already contains guest time.
pub fn parse_stat(text: &str) -> Option<Ticks> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let fields: Vec<u64> =
        line.split_whitespace().take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
    let stolen = *fields.get(7)?;
    let total = fields.iter().try_fold(0u64, |sum, &ticks| sum.checked_add(ticks))?;
    Some(Ticks { total, stolen })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eighth_field_is_steal() {
        let text = "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(parse_stat(text), Some(Ticks { total: 36, stolen: 8 }));
    }

    #[test]
    fn other_texts_are_refused() {
        let max = u64::MAX;
        let overflow = format!("cpu  {max} {max} 0 0 0 0 0 0\n");
        for text in ["", "cpu", "cpu \n", "cpu  1 2 3\n", "cpu  a b c d e f g h\n", &overflow] {
            assert_eq!(parse_stat(text), None, "{text:?}");
        }
    }

    #[test]
    fn this_host_can_be_sampled() {
        let steal = steal_over(Duration::from_millis(30)).expect("/proc is mounted");
        assert!(steal.stolen <= steal.ticks);
    }
}
