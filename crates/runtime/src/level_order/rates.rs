//! The levels and releases of a process's upcalls, as the order across processes needs them: the
//! period of an upcall decides the priority at which it waits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use punctual_model::{Duration, Instant};
use punctual_ring::releases::{Entry, THEN};

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

/// The upcalls of a process: the level at which each waits, and its releases.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    /// Indexed by the position of the upcall, as in `JobId::task`.
    levels: Box<[u8]>,
    /// Ordered by level, the most urgent first.
    groups: Box<[Group]>,
}

/// The upcalls of a level.
#[derive(Clone, Debug)]
struct Group {
    level: u8,
    /// Each member at its first release after `after`, the earliest on top.
    members: BinaryHeap<Reverse<Member>>,
    after: Instant,
}

/// An upcall, or several that are always released together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Member {
    /// The next release; the first field, so that it is compared first.
    next: Instant,
    period: Duration,
    /// A release before which no other is known.
    first: Instant,
}

impl Rates {
    /// Creates the rates from a period and the next release for each position. `None` is a position
    /// without an upcall, or with one that is not released (closed, suspended, or best effort).
    /// Costs n log n.
    pub(crate) fn with_phases(
        upcalls: impl IntoIterator<Item = Option<(Duration, Instant)>>,
    ) -> Self {
        let upcalls: Vec<_> = upcalls.into_iter().collect();
        let level = |of: &Option<(Duration, _)>| of.map_or(LOWEST, |(period, _)| level_of(period));
        let levels = upcalls.iter().map(level).collect();
        let mut released: Vec<(Duration, Instant)> = upcalls.into_iter().flatten().collect();
        released.sort_unstable();
        released.dedup();
        let groups = released
            .chunk_by(|(a, _), (b, _)| level_of(*a) == level_of(*b))
            .map(|members| Group {
                level: level_of(members[0].0),
                members: members.iter().map(|&of| Reverse(Member::new(of))).collect(),
                after: Instant::ZERO,
            })
            .collect();
        Self { levels, groups }
    }

    /// Returns the level of the upcall at `task`; the lowest if there is none.
    pub(super) fn level(&self, task: u32) -> u8 {
        self.levels.get(task as usize).copied().unwrap_or(LOWEST)
    }

    /// Returns the levels to which a thread that waits at `level` from `after` on will become
    /// entitled: the first release at a higher level, then the first at a still higher one, and so
    /// on. The last entry stands for all that would follow, at the highest of their levels.
    ///
    /// Linear in the number of levels, and logarithmic in the upcalls of a level for each one
    /// released since the last call. If `after` moves back, which is rare, all upcalls of a level
    /// are looked at. Allocates nothing.
    pub(super) fn next_above(&mut self, level: u8, after: Instant) -> [Option<Entry>; THEN] {
        let above = self.groups.iter_mut().take_while(|group| group.level > level);
        let above = above.map(|group| group.next_after(after)).count();
        let mut higher = &self.groups[..above];
        let mut then = [None; THEN];
        for (entry, room) in then.iter_mut().zip((0..THEN).rev()) {
            // Of several at the same instant this takes the most urgent, which comes first. So
            // groups above it are released later, and their next releases are still as found.
            let releases = higher.iter().enumerate();
            let Some((position, group)) = releases.min_by_key(|(_, group)| group.next()) else {
                break;
            };
            let level = if room > 0 { group.level } else { higher[0].level };
            *entry = Some(Entry { level, from: group.next().as_nanos() });
            higher = &higher[..position];
        }
        then
    }
}

impl Group {
    /// Returns the first release of the group after `after`.
    fn next(&self) -> Instant {
        self.members.peek().map_or(Instant::MAX, |Reverse(member)| member.next)
    }

    /// Moves every member to its first release after `after`.
    fn next_after(&mut self, after: Instant) {
        if after < self.after {
            let mut members = std::mem::take(&mut self.members).into_vec();
            members.iter_mut().for_each(|Reverse(member)| member.move_after(after));
            self.members = members.into();
        }
        self.after = after;
        while let Some(mut top) = self.members.peek_mut() {
            // Nothing is released after the end of time.
            if top.0.next > after || top.0.next == Instant::MAX {
                break;
            }
            top.0.move_after(after);
        }
    }
}

impl Member {
    fn new((period, first): (Duration, Instant)) -> Self {
        Self { next: first, period, first }
    }

    fn move_after(&mut self, after: Instant) {
        self.next = self.first;
        if after >= self.first {
            let passed = (after - self.first) / self.period + 1;
            let since = self.period.checked_mul(passed).unwrap_or(Duration::MAX);
            self.next = self.first.saturating_add(since);
        }
    }
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

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    const START: Instant = Instant::from_nanos(7);

    fn rates(upcalls: &[(u64, u64)]) -> Rates {
        let released = |(period, phase): &(u64, u64)| Some((ms(*period), START + ms(*phase)));
        Rates::with_phases(upcalls.iter().map(released))
    }

    #[test]
    fn the_next_higher_levels_are_found_step_by_step() {
        let [slowest, slow, middle, fast] = [100, 40, 10, 5].map(|n| level_of(ms(n)));
        let mut rates = rates(&[(40, 0), (10, 0), (100, 0), (5, 0), (10, 0)]);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|n| rates.level(n)),
            [slow, middle, slowest, fast, middle, LOWEST]
        );
        let at = |level, n| Some(Entry { level, from: (START + ms(n)).as_nanos() });
        assert_eq!(rates.next_above(slowest, Instant::ZERO), [at(fast, 0), None, None]);
        assert_eq!(rates.next_above(slowest, START), [at(fast, 5), None, None]);
        assert_eq!(rates.next_above(fast, START), [None; 3]);
        assert_eq!(rates.next_above(slow, START + ms(5)), [at(fast, 10), None, None], "not 10 ms'");
    }

    #[test]
    fn phases_differ_and_the_last_entry_sums_up_the_rest() {
        let [a, b, c, d, e] = [100, 80, 60, 40, 20].map(|n| level_of(ms(n)));
        let mut rates = rates(&[(100, 0), (80, 1), (60, 2), (40, 3), (20, 4)]);
        let at = |level, n| Some(Entry { level, from: (START + ms(n)).as_nanos() });
        assert_eq!(rates.next_above(a, START), [at(b, 1), at(c, 2), at(e, 3)]);
        assert_eq!(rates.next_above(b, START), [at(c, 2), at(d, 3), at(e, 4)]);
        assert_eq!(rates.next_above(a, START + ms(4)), [at(e, 24), None, None]);
    }

    /// Finds the same by looking at each millisecond.
    fn slowly(upcalls: &[(u64, u64)], level: u8, after: u64) -> Vec<(u8, u64)> {
        let mut found: Vec<(u8, u64)> = Vec::new();
        for now in after + 1..after + 500 {
            let is_released = |(period, phase): &&(u64, u64)| {
                now >= *phase && (now - phase).is_multiple_of(*period)
            };
            let released =
                upcalls.iter().filter(is_released).map(|(period, _)| level_of(ms(*period)));
            let bar = found.last().map_or(level, |last| last.0);
            if let Some(most) = released.max().filter(|most| *most > bar) {
                found.push((most, now));
            }
        }
        found
    }

    #[test]
    fn random_upcalls_are_found_as_by_looking_at_each_millisecond() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..60 {
            let upcalls: Vec<_> =
                (0..1 + random(8)).map(|_| (1 + random(90), random(90))).collect();
            let mut rates = rates(&upcalls);
            let mut after = 0;
            for _ in 0..20 {
                after = if random(4) == 0 { random(300) } else { after + random(20) };
                let level = level_of(ms(1 + random(90)));
                let found = rates.next_above(level, START + ms(after));
                let found: Vec<_> = found.into_iter().flatten().collect();
                let mut expected = slowly(&upcalls, level, after);
                let top = upcalls.iter().map(|(period, _)| level_of(ms(*period))).max();
                if expected.len() >= THEN {
                    expected.truncate(THEN);
                    expected[THEN - 1].0 = top.expect("some upcall");
                }
                let at = |n: u64| (START + ms(n)).as_nanos();
                let expected: Vec<_> =
                    expected.into_iter().map(|(level, n)| Entry { level, from: at(n) }).collect();
                assert_eq!(found, expected, "{upcalls:?} above {level} after {after}");
            }
        }
    }
}
