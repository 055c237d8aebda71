//! A table of the places of upcalls by their numbers.

use alloc::boxed::Box;
use alloc::vec;

/// A table from numbers to places below a fixed capacity: hashing with linear probing, at most half
/// full. Each operation reads a few neighbouring words on average. Nothing allocates after
/// construction, and the same numbers always have the same layout.
///
/// A number is spread by a multiplication (Knuth, The Art of Computer Programming 3, §6.4). A
/// client that chooses colliding numbers slows only itself.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    cells: Box<[Option<(u32, u32)>]>,
}

impl Numbers {
    pub(crate) fn new(capacity: usize) -> Self {
        let cells = (2 * capacity).next_power_of_two().max(2);
        Self { cells: vec![None; cells].into_boxed_slice() }
    }

    /// Returns the place of `number`.
    pub(crate) fn get(&self, number: u32) -> Option<u32> {
        self.cells[self.seek(number)].map(|(_, place)| place)
    }

    /// Stores `place` for `number`, which has none. The caller makes sure of room.
    pub(crate) fn insert(&mut self, number: u32, place: u32) {
        let cell = self.seek(number);
        self.cells[cell] = Some((number, place));
    }

    /// Removes `number` and returns its place.
    pub(crate) fn remove(&mut self, number: u32) -> Option<u32> {
        let mut hole = self.seek(number);
        let (_, place) = self.cells[hole].take()?;
        // Later entries move up if the hole would hide them.
        let mut at = self.after(hole);
        while let Some((other, _)) = self.cells[at] {
            let (home, last) = (self.home(other), self.cells.len() - 1);
            if (at.wrapping_sub(home) & last) >= (at.wrapping_sub(hole) & last) {
                self.cells[hole] = self.cells[at].take();
                hole = at;
            }
            at = self.after(at);
        }
        Some(place)
    }

    /// Returns the cell of `number`, or the free one for it.
    fn seek(&self, number: u32) -> usize {
        let mut at = self.home(number);
        while self.cells[at].is_some_and(|(other, _)| other != number) {
            at = self.after(at);
        }
        at
    }

    fn home(&self, number: u32) -> usize {
        let bits = self.cells.len().trailing_zeros();
        (number.wrapping_mul(0x9e37_79b9) >> (32 - bits)) as usize
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.cells.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn agrees_with_a_plain_list() {
        let mut rng = ChaCha8Rng::seed_from_u64(5);
        for capacity in [1usize, 2, 3, 8, 50] {
            let mut table = Numbers::new(capacity);
            let mut plain: Vec<(u32, u32)> = Vec::new();
            for round in 0..3_000 {
                let number = rng.random_range(0..80) * 0x1_0001;
                let at = plain.iter().position(|(other, _)| *other == number);
                assert_eq!(table.get(number), at.map(|at| plain[at].1));
                match at {
                    Some(at) if rng.random() => {
                        let (_, place) = plain.swap_remove(at);
                        assert_eq!(table.remove(number), Some(place));
                    }
                    None if plain.len() < capacity => {
                        plain.push((number, round));
                        table.insert(number, round);
                    }
                    _ => {}
                }
                for (number, place) in &plain {
                    assert_eq!(table.get(*number), Some(*place));
                }
            }
        }
    }
}
