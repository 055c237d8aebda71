//! One-shot time constraints, answered against a timetable.
//!
//! # The question
//! `(start, estimate, deadline)`: may this much work be done between these instants, beside the
//! reservations and the constraints accepted before? (Soft modem study, §2: Rialto/NT's time
//! constraints.) The answer is yes, or no with the work that would have fitted.
//!
//! # The test
//! For every start s and deadline d among the accepted constraints and the new one:
//!
//! ```text
//! Σ { estimate : s ≤ start, deadline ≤ d } ≤ free time in [s, d)
//! ```
//!
//! # Assumptions and source
//! One CPU; work may be cut anywhere. Free time is the time that no slot covers, whether or not the
//! slot's owner uses it. Each stretch of free time loses one switch at its start, and each
//! constraint is charged two switches (one to start it or to resume the one it preempts, one to
//! stop). No other work takes precedence over the constraints in the free time. The test is the
//! processor demand criterion with free time in place of time: Baruah, Mok & Rosier, RTSS 1990. EDF
//! is optimal for free time too, because exchanging two pieces of work in it moves neither past its
//! deadline. docs/reservations.md, Theorem 3.
//!
//! # Units and answers
//! Nanoseconds; exact with free switching, else safe. The test costs O(n²) terms for n accepted
//! constraints, at most [`Commitments::MOST`].

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Service, Timetable};
use thiserror::Error;

use crate::switching::with_two_switches;

/// Work to be done once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeConstraint {
    /// The work does not start before this instant.
    pub start: Instant,
    /// The processor time it needs.
    pub estimate: Service,
    /// The work is complete by this instant.
    pub deadline: Instant,
}

/// A refusal, with the work that would fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "{} of work does not fit between {} and {}: at most {largest_estimate} does, {}",
    asked.estimate, asked.start, asked.deadline, Until(*earliest_deadline)
)]
pub struct NoRoom {
    /// The refused constraint.
    pub asked: TimeConstraint,
    /// The most work that fits between the same instants.
    pub largest_estimate: Service,
    /// The earliest deadline by which all of the work fits; `None` if there is none in 64 bits, or
    /// if there were too many constraints.
    pub earliest_deadline: Option<Instant>,
}

struct Until(Option<Instant>);

impl core::fmt::Display for Until {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(deadline) => write!(f, "or all of it by {deadline}"),
            None => f.write_str("and no later deadline would do"),
        }
    }
}

/// A timetable's free time, and the constraints accepted in it.
#[derive(Clone, Debug)]
pub struct Commitments {
    free: FreeTime,
    context_switch: Service,
    accepted: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    start: u64,
    work: u64,
    deadline: u64,
}

impl Commitments {
    /// The most constraints at a time.
    pub const MOST: usize = 1024;

    /// Starts without constraints, in the free time of `table`, whose first cycle starts at
    /// `origin`. There is no free time before the origin.
    pub fn new(table: &Timetable, origin: Instant, context_switch: Service) -> Self {
        let free = FreeTime::new(table, origin, context_switch);
        Self { free, context_switch, accepted: Vec::new() }
    }

    /// Returns the number of accepted constraints.
    pub fn len(&self) -> usize {
        self.accepted.len()
    }

    /// Returns whether there are no accepted constraints.
    pub fn is_empty(&self) -> bool {
        self.accepted.is_empty()
    }

    /// Accepts `asked` if it and all accepted constraints can be met. Its start must not be before
    /// the last `now` given to [`pass`](Self::pass).
    pub fn accept(&mut self, asked: TimeConstraint) -> Result<(), NoRoom> {
        let entry = self.entry(asked);
        let no_room = |largest_estimate, earliest_deadline| NoRoom {
            asked,
            largest_estimate,
            earliest_deadline,
        };
        if self.accepted.len() >= Self::MOST {
            return Err(no_room(Service::ZERO, None));
        }
        let room = self.room(entry.start, entry.deadline);
        if entry.work <= room {
            let at = self.accepted.partition_point(|other| other.deadline <= entry.deadline);
            self.accepted.insert(at, entry);
            return Ok(());
        }
        let switches = with_two_switches(Service::ZERO, self.context_switch);
        let largest = Service::from_nanos(room.saturating_sub(switches));
        Err(no_room(largest, self.earliest_deadline(entry)))
    }

    /// Drops the constraints with deadlines up to `now`. (Work that is done early keeps its room
    /// until then.)
    pub fn pass(&mut self, now: Instant) {
        self.accepted.retain(|entry| entry.deadline > now.as_nanos());
    }

    fn entry(&self, asked: TimeConstraint) -> Entry {
        Entry {
            start: asked.start.as_nanos(),
            work: with_two_switches(asked.estimate, self.context_switch),
            deadline: asked.deadline.as_nanos(),
        }
    }

    /// Returns the most work that a constraint from `start` to `deadline` may have: the free time
    /// left in each interval around it. The accepted constraints fit without it.
    fn room(&self, start: u64, deadline: u64) -> u64 {
        let starts = self.accepted.iter().map(|entry| entry.start).filter(|s| *s < start);
        starts.chain([start]).fold(u64::MAX, |room, from| {
            // In deadline order, so the demand up to each end contains that of the previous one.
            let mut demand = 0u64;
            let mut room = room;
            let mut own_end_seen = false;
            let left = |end: u64, demand: u64| self.free.between(from, end).saturating_sub(demand);
            for entry in &self.accepted {
                if entry.deadline > deadline && !own_end_seen {
                    room = room.min(left(deadline, demand));
                    own_end_seen = true;
                }
                if entry.start >= from {
                    demand = demand.saturating_add(entry.work);
                    if entry.deadline >= deadline {
                        room = room.min(left(entry.deadline, demand));
                    }
                }
            }
            if own_end_seen { room } else { room.min(left(deadline, demand)) }
        })
    }

    /// Bisects: with a later deadline, every interval around it has at least as much room, or no
    /// longer contains it.
    fn earliest_deadline(&self, entry: Entry) -> Option<Instant> {
        let all =
            self.accepted.iter().try_fold(entry.work, |sum, one| sum.checked_add(one.work))?;
        let last = self.accepted.iter().map(|one| one.deadline).fold(entry.start, u64::max);
        // After the last deadline all of it fits, one after the other.
        let mut high = self.free.time_of(last, all)?;
        let mut low = entry.deadline;
        if self.room(entry.start, high) < entry.work {
            return None;
        }
        while high.saturating_sub(low) > 1 {
            let middle = low + (high - low) / 2;
            if self.room(entry.start, middle) >= entry.work { high = middle } else { low = middle }
        }
        Some(Instant::from_nanos(high))
    }
}

/// The stretches of time that no slot covers.
#[derive(Clone, Debug)]
struct FreeTime {
    origin: u64,
    cycle: u64,
    /// `(start, end, free before start)` in the cycle.
    stretches: Vec<(u64, u64, u64)>,
    in_a_cycle: u64,
}

impl FreeTime {
    fn new(table: &Timetable, origin: Instant, context_switch: Service) -> Self {
        let cycle = table.cycle().as_nanos();
        let (mut stretches, mut in_a_cycle) = (Vec::new(), 0);
        let mut from = 0;
        let slots = table.slots().iter().map(|slot| (slot.start, slot.end()));
        for (start, end) in slots.chain([(table.cycle(), table.cycle())]) {
            let (first, last) =
                (u64::saturating_add(from, context_switch.as_nanos()), start.as_nanos());
            if first < last {
                stretches.push((first, last, in_a_cycle));
                in_a_cycle += last - first;
            }
            from = Duration::as_nanos(end);
        }
        Self { origin: origin.as_nanos(), cycle, stretches, in_a_cycle }
    }

    /// Returns the free time from the origin to `at`.
    fn until(&self, at: u64) -> u64 {
        let Some(since) = at.checked_sub(self.origin) else { return 0 };
        let (cycles, offset) = (since / self.cycle, since % self.cycle);
        let next = self.stretches.partition_point(|(_, end, _)| *end <= offset);
        let here = match self.stretches.get(next) {
            Some((start, _, before)) => before + offset.saturating_sub(*start),
            None => self.in_a_cycle,
        };
        // At most the time since the origin.
        cycles * self.in_a_cycle + here
    }

    fn between(&self, from: u64, to: u64) -> u64 {
        self.until(to).saturating_sub(self.until(from))
    }

    /// Returns the first instant at which `amount` has been free since `from`.
    fn time_of(&self, from: u64, amount: u64) -> Option<u64> {
        let target = self.until(from).checked_add(amount)?;
        let before = target.checked_sub(1)?;
        let (cycles, rest) = (before.checked_div(self.in_a_cycle)?, before % self.in_a_cycle + 1);
        let at = self.stretches.partition_point(|(_, _, before)| *before < rest).checked_sub(1)?;
        let (start, _, before) = self.stretches[at];
        let offset = start + (rest - before);
        cycles.checked_mul(self.cycle)?.checked_add(offset)?.checked_add(self.origin)
    }
}
