//! Maps the period of an upcall to the priority at which it waits.

use punctual_model::Duration;

/// The SCHED_FIFO priority of a running upcall.
///
/// With 49 it would be below the threads of a kernel with forced interrupt threading. Most kernels
/// have none, and a wide band of levels below the running level keeps more rates apart.
pub const RUNNING: u8 = 80;

/// The SCHED_FIFO priority of the guard that contains handlers that do not return. It is above
/// every upcall and below the measuring callback and the kernel's own threads. Upcalls need no
/// higher priority (`RLIMIT_RTPRIO`).
pub const GUARD: u8 = RUNNING + 1;

/// The least urgent level at which an upcall waits.
pub const LOWEST: u8 = 2;

/// The longest period that waits at the most urgent level.
const SHORTEST: Duration = Duration::from_micros(125);

/// The number of levels for each doubling of the period. Rates that differ by more than 12 % are
/// kept apart, over the 13 doublings from 125 µs to a second.
const LEVELS_PER_OCTAVE: f64 = 6.0;

/// Returns the SCHED_FIFO priority at which an upcall of this period waits for its release. The
/// shorter the period, the higher the priority.
///
/// ```
/// use punctual_model::Duration;
/// use punctual_runtime::level_order::{RUNNING, LOWEST, level_of};
///
/// let (audio, telemetry) = (Duration::from_millis(10), Duration::from_millis(100));
/// assert!(level_of(telemetry) < level_of(audio) && level_of(audio) < RUNNING);
/// assert_eq!(level_of(Duration::from_secs(3600)), LOWEST);
/// ```
pub fn level_of(period: Duration) -> u8 {
    let octaves = (period.as_secs_f64() / SHORTEST.as_secs_f64()).log2().max(0.0);
    let below = (octaves * LEVELS_PER_OCTAVE).floor();
    let levels = f64::from(RUNNING - 1 - LOWEST);
    RUNNING - 1 - below.min(levels) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_keep_the_order_of_rates_and_stay_in_their_band() {
        let mut last = RUNNING;
        for us in [1, 125, 150, 1_000, 12_500, 40_000, 50_000, 60_000, 70_000, 80_000, 90_000] {
            let level = level_of(Duration::from_micros(us));
            assert!((LOWEST..RUNNING).contains(&level));
            assert!(us < 150 || level < last, "{us} us is kept apart from the rate before");
            last = level;
        }
        assert_eq!(level_of(Duration::from_secs(3600)), LOWEST);
        assert_eq!(level_of(Duration::MAX), LOWEST);
    }
}
