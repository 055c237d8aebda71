//! A static cyclic timetable of one CPU.
//!
//! The analysis builds one and a policy executes it. They share no other type.

use alloc::boxed::Box;
use alloc::vec::Vec;

use thiserror::Error;

use crate::time::Duration;

/// A slot: its owner has the CPU during `[start, start + length)` of every cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The offset from the start of the cycle.
    pub start: Duration,
    /// The length of the slot.
    pub length: Duration,
    /// The position of the owner's reservation in the list for which the timetable was made.
    pub owner: u32,
}

impl Slot {
    /// Returns the offset of the first instant after the slot.
    pub fn end(&self) -> Duration {
        self.start + self.length
    }
}

/// Slots that repeat every `cycle`. Time outside the slots is free.
///
/// Guaranteed: `0 < cycle`; the slots are in order, not empty, do not overlap, and end by the end
/// of the cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timetable {
    cycle: Duration,
    slots: Box<[Slot]>,
}

/// The rule that a timetable breaks, with the numbers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TimetableError {
    /// The cycle is zero.
    #[error("the cycle is zero; it must be at least 1ns")]
    ZeroCycle,
    /// A slot has no length.
    #[error("slot {at} at {start} is empty; it must be at least 1ns long")]
    EmptySlot {
        /// The position of the slot.
        at: usize,
        /// The start of the slot.
        start: Duration,
    },
    /// Two slots overlap or are out of order.
    #[error("slot {at} starts at {start}, before the end of the one before it at {end}")]
    Overlap {
        /// The position of the later slot.
        at: usize,
        /// The start of the later slot.
        start: Duration,
        /// The end of the slot before it.
        end: Duration,
    },
    /// A slot ends after its cycle.
    #[error("slot {at} starts at {start} and is {length} long: beyond the cycle of {cycle}")]
    BeyondCycle {
        /// The position of the slot.
        at: usize,
        /// The start of the slot.
        start: Duration,
        /// The length of the slot.
        length: Duration,
        /// The cycle given.
        cycle: Duration,
    },
}

impl Timetable {
    /// Makes a timetable of `slots`, which must be in order of their start.
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

    /// Makes a timetable without slots.
    pub fn free(cycle: Duration) -> Result<Self, TimetableError> {
        Self::new(cycle, Vec::new())
    }

    /// Returns the time after which it repeats.
    pub fn cycle(&self) -> Duration {
        self.cycle
    }

    /// Returns the slots of one cycle, in order.
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
