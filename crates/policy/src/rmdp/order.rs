//! The order of urgency, as positions that seldom move.
//!
//! The tables of releases and of ready upcalls are indexed by rank, a number that is smaller for
//! the more urgent. If ranks were consecutive, each new upcall would move all below it. So there
//! are about twice as many ranks as upcalls, and free ones lie between: a new upcall takes a free
//! rank at its position, or if there is none, the ranks of a neighbourhood are spread evenly, the
//! smallest one that is sparse enough (a packed-memory array: Itai, Konheim and Rodeh, ICALP 1981).
//! An insertion moves O(log² n) ranks, amortised; a removal moves none.

use alloc::boxed::Box;
use alloc::vec;

use punctual_model::{Duration, Rank};

/// The period, then the order of creation.
pub(super) type Key = (Duration, u64);

/// The mark of a free rank.
const FREE: u32 = u32::MAX;

/// The table from ranks to upcalls, which are identified by their places in the pool.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// By rank: the key of its upcall; a free rank has a key between its neighbours'.
    keys: Box<[Key]>,
    /// By rank: the place of its upcall.
    places: Box<[u32]>,
    /// Scratch space for spreading.
    spare: Box<[(Key, u32)]>,
}

impl Order {
    /// Makes a table with enough ranks that `capacity` upcalls leave half of them free.
    pub(super) fn new(capacity: usize) -> Self {
        let ranks = (2 * capacity).next_power_of_two().max(2);
        Self {
            keys: vec![(Duration::MAX, u64::MAX); ranks].into_boxed_slice(),
            places: vec![FREE; ranks].into_boxed_slice(),
            spare: vec![((Duration::MAX, u64::MAX), FREE); ranks].into_boxed_slice(),
        }
    }

    pub(super) fn ranks(&self) -> usize {
        self.keys.len()
    }

    /// Returns the upcall of `rank`, which must be taken.
    pub(super) fn at(&self, rank: Rank) -> usize {
        self.places[rank.0 as usize] as usize
    }

    /// Returns the upcall of `rank`; `None` if it is free.
    pub(super) fn get(&self, rank: Rank) -> Option<usize> {
        let place = self.places[rank.0 as usize];
        (place != FREE).then_some(place as usize)
    }

    /// Returns the upcalls, the most urgent first.
    pub(super) fn places(&self) -> impl Iterator<Item = usize> + '_ {
        self.places.iter().filter(|place| **place != FREE).map(|place| *place as usize)
    }

    /// Frees `rank`.
    pub(super) fn remove(&mut self, rank: Rank) {
        self.places[rank.0 as usize] = FREE;
    }

    /// Gives a rank to `place`, with a `key` that no other upcall has. Other upcalls may have to
    /// move: all in the returned window have new ranks. There must be room.
    pub(super) fn insert(&mut self, key: Key, place: u32) -> core::ops::Range<usize> {
        let before = self.keys.partition_point(|other| *other < key);
        // The keys of the neighbours stay on their sides of it.
        for at in [before, before.wrapping_sub(1)] {
            if self.places.get(at) == Some(&FREE) {
                (self.keys[at], self.places[at]) = (key, place);
                return at..at + 1;
            }
        }
        self.spread(before.min(self.keys.len() - 1), key, place)
    }

    /// Spreads the smallest window around `at` that is sparse enough, with `place` in it.
    fn spread(&mut self, at: usize, key: Key, place: u32) -> core::ops::Range<usize> {
        let all = self.keys.len();
        let height = all.trailing_zeros();
        for level in 1..=height {
            let size = 1 << level;
            let window = at / size * size..at / size * size + size;
            let members = self.places[window.clone()].iter().filter(|one| **one != FREE).count();
            // The limit falls from full at the bottom to half full at the top: spreading at one
            // level leaves room at all levels below.
            let most = size - size * level as usize / (2 * height as usize);
            if members < most || level == height {
                self.refill(window.clone(), key, place);
                return window;
            }
        }
        unreachable!("the last level is all of it")
    }

    fn refill(&mut self, window: core::ops::Range<usize>, key: Key, place: u32) {
        let mut count = 0;
        let mut waits = Some((key, place));
        for at in window.clone() {
            if self.places[at] == FREE {
                continue;
            }
            if let Some(it) = waits.take_if(|it| it.0 < self.keys[at]) {
                self.spare[count] = it;
                count += 1;
            }
            self.spare[count] = (self.keys[at], self.places[at]);
            count += 1;
        }
        if let Some(it) = waits {
            self.spare[count] = it;
            count += 1;
        }
        let (first, size) = (window.start, window.len());
        for nth in 0..count {
            let (from, to) = (first + nth * size / count, first + (nth + 1) * size / count);
            self.keys[from..to].fill(self.spare[nth].0);
            self.places[from..to].fill(FREE);
            self.places[from] = self.spare[nth].1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// Creates and closes upcalls in random order: the order must be that of a sorted list. Returns
    /// the number of moves.
    fn create_and_close(
        capacity: usize,
        rounds: usize,
        mut period: impl FnMut(usize) -> u64,
    ) -> usize {
        let mut rng = ChaCha8Rng::seed_from_u64(capacity as u64);
        let mut order = Order::new(capacity);
        let mut plain: Vec<(Key, u32)> = Vec::new();
        let mut free: Vec<u32> = (0..capacity as u32).rev().collect();
        let mut moved = 0;
        for round in 0..rounds {
            if free.is_empty() || (rng.random_range(0..3) == 0 && !plain.is_empty()) {
                let (key, place) = plain.swap_remove(rng.random_range(0..plain.len()));
                let rank = order.places.iter().position(|one| *one == place).expect("there");
                assert_eq!(order.keys[rank], key);
                order.remove(Rank(rank as u32));
                free.push(place);
            } else {
                let place = free.pop().expect("room");
                let key = (Duration::from_millis(period(round)), round as u64);
                plain.push((key, place));
                moved += order.insert(key, place).len();
            }
            assert!(order.keys.is_sorted());
            plain.sort_unstable();
            let expected = plain.iter().map(|(_, place)| *place as usize);
            assert!(order.places().eq(expected), "{plain:?}");
        }
        moved
    }

    #[test]
    fn the_order_is_that_of_a_sorted_list() {
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        for capacity in [1, 2, 3, 5, 64] {
            create_and_close(capacity, 2_000, |_| rng.random_range(1..9));
            create_and_close(capacity, 2_000, |_| 7);
        }
    }

    #[test]
    fn an_insertion_moves_few_on_the_average() {
        let mut rng = ChaCha8Rng::seed_from_u64(10);
        let rounds = 3_000;
        let of_one_period = create_and_close(1_000, rounds, |_| 40);
        let falling = create_and_close(1_000, rounds, |round| (rounds - round) as u64);
        let drawn = create_and_close(1_000, rounds, |_| rng.random_range(1..1_000));
        // The square of the logarithm of 2,048 ranks is 121.
        let most = 121 * rounds;
        assert!([of_one_period, falling, drawn].iter().all(|moved| *moved < most));
    }
}
