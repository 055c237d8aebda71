//! The sizes of the queues that wait for an owner. Their memory is touched when upcalls start, so
//! that a real-time thread takes no page faults: a queue that is too large costs every user.

use punctual_model::Duration;

/// The time for which an owner need not take events out.
const UNDRAINED: Duration = Duration::from_secs(4);

/// The events of a job that begins, gives way once, goes on, and is complete.
const EVENTS_A_JOB: u64 = 4;

/// The least room: it keeps some history of a slow upcall.
const LEAST_EVENTS: u64 = 1 << 12;

/// The most room: above this an owner that looks once in four seconds loses some events, and is
/// told how many.
const MOST_EVENTS: u64 = 1 << 16;

/// Returns the default of `Upcalls::with_event_room` for upcalls of these periods.
pub(super) fn room_for_events(periods: impl Iterator<Item = Duration>) -> usize {
    let jobs = |period: Duration| UNDRAINED.as_nanos() / period.as_nanos() + 1;
    let jobs = periods.map(jobs).fold(0, u64::saturating_add);
    jobs.saturating_mul(EVENTS_A_JOB).clamp(LEAST_EVENTS, MOST_EVENTS) as usize
}

/// Returns room for a few notices for each upcall: they are rare.
pub(super) fn room_for_notices(upcalls: usize) -> usize {
    upcalls.saturating_mul(4).clamp(1 << 8, 1 << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_follows_the_rate_within_bounds() {
        let of = |count, ms| room_for_events(std::iter::repeat_n(Duration::from_millis(ms), count));
        assert_eq!(of(0, 1), 4_096);
        assert_eq!(of(1, 20), 4_096);
        assert_eq!(of(10, 20), 8_040, "500 jobs a second");
        assert_eq!(of(1_000, 20), 65_536);
        assert_eq!(room_for_notices(74), 296);
        assert_eq!(room_for_notices(100_000), 4_096);
    }
}
