//! Executes a static cyclic timetable: finds the owner of the current slot, and its end.
//!
//! The [`Timetable`] comes from the analysis: every reservation in it gets its budget in every
//! window of its period, as the soft modem study's §5.4 asks ("continuously guaranteed"). If the
//! owner has nothing to run, the driver may run other work until the returned instant, as in a free
//! stretch.

use punctual_model::{Duration, Instant, Timetable};

/// The holder of the CPU, and the end of its time.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The owner of the slot; `None`: the time is free.
    pub owner: Option<u32>,
    /// The time of the next call, always later than now.
    pub until: Instant,
}

/// A timetable with its origin.
///
/// Call order: [`at`](Self::at) with the current instant, again at the `until` that it returned or
/// whenever the driver lost its place. Instants may be skipped at no extra cost. Nothing is
/// allocated.
#[derive(Clone, Debug)]
pub struct Turns {
    table: Timetable,
    origin: Instant,
}

impl Turns {
    /// Follows `table`, whose first cycle starts at `origin`.
    pub fn new(table: Timetable, origin: Instant) -> Self {
        Self { table, origin }
    }

    /// Returns the timetable.
    pub fn table(&self) -> &Timetable {
        &self.table
    }

    /// Returns the owner of the slot at `now`. Before the origin the time is free.
    ///
    /// Cost: O(log slots).
    pub fn at(&self, now: Instant) -> Decision {
        if now < self.origin {
            return Decision { owner: None, until: self.origin };
        }
        let (cycle, slots) = (self.table.cycle(), self.table.slots());
        let offset = now.saturating_since(self.origin) % cycle;
        // The first slot that has not ended; it may not have begun either.
        let next = slots.partition_point(|slot| slot.end() <= offset);
        let (owner, until) = match slots.get(next) {
            Some(slot) if slot.start <= offset => (Some(slot.owner), slot.end()),
            Some(slot) => (None, slot.start),
            None => {
                let first = slots.first().map_or(Duration::ZERO, |first| first.start);
                (None, cycle.saturating_add(first))
            }
        };
        Decision { owner, until: now.saturating_add(until - offset) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use punctual_model::Slot;

    fn ns(n: u64) -> Instant {
        Instant::from_nanos(n)
    }

    fn turns(cycle: u64, slots: &[(u64, u64, u32)]) -> Turns {
        let slots = slots.iter().map(|&(start, length, owner)| Slot {
            start: Duration::from_nanos(start),
            length: Duration::from_nanos(length),
            owner,
        });
        let table = Timetable::new(Duration::from_nanos(cycle), slots.collect()).expect("valid");
        Turns::new(table, ns(100))
    }

    #[test]
    fn turns_repeat_forever() {
        let turns = turns(10, &[(1, 2, 7), (3, 1, 8), (6, 4, 7)]);
        let mut now = ns(0);
        let mut seen = vec![];
        for _ in 0..9 {
            let Decision { owner, until } = turns.at(now);
            seen.push((now.as_nanos(), owner, until.as_nanos()));
            now = until;
        }
        assert_eq!(
            seen,
            [
                (0, None, 100),
                (100, None, 101),
                (101, Some(7), 103),
                (103, Some(8), 104),
                (104, None, 106),
                (106, Some(7), 110),
                (110, None, 111),
                (111, Some(7), 113),
                (113, Some(8), 114),
            ]
        );
    }

    #[test]
    fn a_driver_that_lost_its_place_finds_it_again() {
        let turns = turns(10, &[(1, 2, 7)]);
        assert_eq!(turns.at(ns(1_000_002)), Decision { owner: Some(7), until: ns(1_000_003) });
        assert_eq!(turns.at(ns(1_000_005)), Decision { owner: None, until: ns(1_000_011) });
    }

    #[test]
    fn an_empty_timetable_is_free_and_the_end_of_time_is_not_passed() {
        let free = turns(10, &[]);
        assert_eq!(free.at(ns(104)), Decision { owner: None, until: ns(110) });
        assert_eq!(free.at(Instant::MAX).until, Instant::MAX);
        let long = turns(u64::MAX, &[(5, 2, 7)]);
        assert_eq!(long.at(ns(200)), Decision { owner: None, until: Instant::MAX });
    }
}
