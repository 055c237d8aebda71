//! How much waits for an owner until it looks. The memory is touched when upcalls start, so that a
//! real-time thread finds it there: what is too large is paid for by everybody.

use punctual_model::Duration;

/// For so long nobody need take events out.
const UNDRAINED: Duration = Duration::from_secs(4);

/// A job begins, gives way once, goes on, and is complete.
const EVENTS_A_JOB: u64 = 4;

/// Of a slow upcall there is to be some history.
const LEAST_EVENTS: u64 = 1 << 12;

/// Above this an owner that looks once in four seconds loses some, and is told how many.
const MOST_EVENTS: u64 = 1 << 16;

/// What `Upcalls::with_event_room` says of itself, for upcalls of these periods.
pub(super) fn room_for_events(periods: impl Iterator<Item = Duration>) -> usize {
    let jobs = |period: Duration| UNDRAINED.as_nanos() / period.as_nanos() + 1;
    let jobs = periods.map(jobs).fold(0, u64::saturating_add);
    jobs.saturating_mul(EVENTS_A_JOB).clamp(LEAST_EVENTS, MOST_EVENTS) as usize
}

/// Some for each upcall: notices are rare.
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
