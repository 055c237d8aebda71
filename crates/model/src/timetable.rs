//! A static cyclic timetable of one CPU: who may run when.
//!
//! The analysis builds one, a policy follows it; this is the only thing the two share.

use alloc::boxed::Box;
use alloc::vec::Vec;

use thiserror::Error;

use crate::time::Duration;

/// One owner has the CPU during `[start, start + length)` of every cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Offset from the start of the cycle.
    pub start: Duration,
    /// How long.
    pub length: Duration,
    /// Position of the reservation in the list the timetable was made for.
    pub owner: u32,
}

impl Slot {
    /// Offset of the first instant after it.
    pub fn end(&self) -> Duration {
        self.start + self.length
    }
}

/// Slots that repeat every `cycle`; what no slot covers is free.
///
/// Guaranteed: `0 < cycle`; the slots stand in order, are not empty, do not overlap, and end by the
/// end of the cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timetable {
    cycle: Duration,
    slots: Box<[Slot]>,
}

/// Which rule a timetable breaks, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TimetableError {
    /// A cycle of zero never moves on.
    #[error("the cycle is zero; it must be at least 1ns")]
    ZeroCycle,
    /// A slot that gives nothing.
    #[error("slot {at} at {start} is empty; it must be at least 1ns long")]
    EmptySlot {
        /// Position of the slot.
        at: usize,
        /// Where it starts.
        start: Duration,
    },
    /// Two owners at once, or slots out of order.
    #[error("slot {at} starts at {start}, before the end of the one before it at {end}")]
    Overlap {
        /// Position of the later slot.
        at: usize,
        /// Where it starts.
        start: Duration,
        /// Where the one before it ends.
        end: Duration,
    },
    /// A slot ends after its cycle.
    #[error("slot {at} starts at {start} and is {length} long: beyond the cycle of {cycle}")]
    BeyondCycle {
        /// Position of the slot.
        at: usize,
        /// Where it starts.
        start: Duration,
        /// Its length.
        length: Duration,
        /// The cycle given.
        cycle: Duration,
    },
}

impl Timetable {
    /// Checks `slots`, which stand in order of their start.
    pub fn new(cycle: Duration, slots: Vec<Slot>) -> Result<Self, TimetableError> {
        if cycle.is_zero() {
            return Err(TimetableError::ZeroCycle);
        }
        let mut before = Duration::ZERO;
        for (at, &Slot { start, length, .. }) in slots.iter().enumerate() {
            if length.is_zero() {
                return Err(TimetableError::EmptySlot { at, start });
            }
            if start < before {
                return Err(TimetableError::Overlap { at, start, end: before });
            }
            before = start
                .checked_add(length)
                .filter(|end| *end <= cycle)
                .ok_or(TimetableError::BeyondCycle { at, start, length, cycle })?;
        }
        Ok(Self { cycle, slots: slots.into_boxed_slice() })
    }

    /// A timetable in which everything is free.
    pub fn free(cycle: Duration) -> Result<Self, TimetableError> {
        Self::new(cycle, Vec::new())
    }

    /// After how long it repeats.
    pub fn cycle(&self) -> Duration {
        self.cycle
    }

    /// The slots of one cycle, in order.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn slot(start: u64, length: u64) -> Slot {
        Slot { start: Duration::from_nanos(start), length: Duration::from_nanos(length), owner: 0 }
    }

    #[test]
    fn each_rule_is_held() {
        let cycle = Duration::from_nanos(10);
        assert!(Timetable::new(cycle, vec![slot(0, 3), slot(3, 2), slot(8, 2)]).is_ok());
        assert_eq!(Timetable::free(Duration::ZERO), Err(TimetableError::ZeroCycle));
        for (slots, text) in [
            (vec![slot(2, 0)], "slot 0 at 2ns is empty; it must be at least 1ns long"),
            (
                vec![slot(0, 3), slot(2, 1)],
                "slot 1 starts at 2ns, before the end of the one before it at 3ns",
            ),
            (vec![slot(9, 2)], "slot 0 starts at 9ns and is 2ns long: beyond the cycle of 10ns"),
            (
                vec![slot(9, u64::MAX)],
                "slot 0 starts at 9ns and is 18446744073.709551615s long: beyond the cycle of 10ns",
            ),
        ] {
            let error = Timetable::new(cycle, slots).expect_err("breaks a rule");
            assert_eq!(alloc::format!("{error}"), text);
        }
    }
}
