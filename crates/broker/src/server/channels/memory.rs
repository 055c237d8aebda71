//! The memory of queues, counted for as long as any process holds it: a client may keep its part of
//! a queue when its channel is closed, and the kernel frees nothing before.

use std::collections::BTreeMap;

use punctual_channel::client::Geometry;
use punctual_channel::rings::{Passed, RingError};
use punctual_linux::memfd::{Presence, Watched};

/// The queues that a person may keep beside those of its channels, each of two pieces of memory:
/// watching them costs the kernel something too.
const KEPT: u64 = 64;
const PIECES: u64 = 2;

/// The memory that exists, with the person for whom it was made.
#[derive(Debug)]
pub(super) struct Memory {
    presence: Presence,
    there: BTreeMap<Watched, (u32, u64)>,
    persons: BTreeMap<u32, Sum>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: u64,
    pieces: u64,
}

impl Memory {
    pub(super) fn new() -> Result<Self, RingError> {
        let (there, persons) = Default::default();
        Ok(Self { presence: Presence::new()?, there, persons })
    }

    /// Returns the bytes of this person's queues, if `bytes` more would exceed `most`, or if there
    /// are too many pieces beside those of `channels` channels.
    pub(super) fn exceeds(&self, person: u32, bytes: u64, most: u64, channels: u64) -> Option<u64> {
        let has = self.persons.get(&person)?;
        let within = has.bytes.saturating_add(bytes) <= most
            && has.pieces < PIECES * KEPT.saturating_add(channels);
        (!within).then_some(has.bytes)
    }

    /// Counts a queue, which was made for this person, until its memory is gone.
    ///
    /// # Errors
    /// If it cannot be watched. Then none of it may be passed on.
    pub(super) fn enter(
        &mut self,
        person: u32,
        passed: &Passed,
        geometry: Geometry,
    ) -> Result<(), RingError> {
        for (file, bytes) in passed.memory(geometry) {
            let watched = self.presence.watch(file)?;
            self.there.insert(watched, (person, bytes));
            let has = self.persons.entry(person).or_default();
            has.bytes += bytes;
            has.pieces += 1;
        }
        Ok(())
    }

    /// Stops counting memory that is gone.
    pub(super) fn look(&mut self) {
        for watched in self.presence.gone() {
            let Some((person, bytes)) = self.there.remove(&watched) else { continue };
            let Some(has) = self.persons.get_mut(&person) else { continue };
            has.bytes -= bytes;
            has.pieces -= 1;
            if has.pieces == 0 {
                self.persons.remove(&person);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_channel::rings::{self, Made, Puts, Takes};

    use super::*;

    #[test]
    fn a_queue_counts_until_both_sides_have_released_it() {
        let geometry = Geometry::new(64, 1_400).expect("valid");
        let each = rings::bytes(geometry);
        let mut memory = Memory::new().expect("inotify");
        let most = 3 * each;
        let mut queues = Vec::new();
        for _ in 0..3 {
            assert_eq!(memory.exceeds(7, each, most, 0), None);
            let (made, passed) = Made::<Takes>::new(geometry, 0).expect("memory");
            memory.enter(7, &passed, geometry).expect("watched");
            queues.push((made, rings::map::<Puts>(passed, geometry, 0).expect("as made")));
        }
        assert_eq!(memory.exceeds(7, each, most, 0), Some(most));
        assert_eq!(memory.exceeds(8, each, most, 0), None);
        // The server has released one, and its client has not.
        let (made, side) = queues.pop().expect("three");
        drop(made);
        memory.look();
        assert_eq!(memory.exceeds(7, each, most, 0), Some(most));
        drop(side);
        memory.look();
        assert_eq!(memory.exceeds(7, each, most, 0), None);
        assert_eq!(memory.exceeds(7, each + 1, most, 0), Some(2 * each));
        drop(queues);
        memory.look();
        assert!(memory.persons.is_empty() && memory.there.is_empty());
    }

    #[test]
    fn small_queues_count_by_their_number_too() {
        let geometry = Geometry::new(1, 8).expect("valid");
        let mut memory = Memory::new().expect("inotify");
        let mut kept = Vec::new();
        while memory.exceeds(7, 1, u64::MAX, 2).is_none() {
            let (_, passed) = Made::<Takes>::new(geometry, 0).expect("memory");
            memory.enter(7, &passed, geometry).expect("watched");
            kept.push(passed);
            memory.look();
        }
        assert_eq!(kept.len() as u64, KEPT + 2);
    }
}
