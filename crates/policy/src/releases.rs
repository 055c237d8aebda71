//! The next release of each rank, with the earliest among the more urgent ranks.

use alloc::boxed::Box;
use alloc::vec;

use punctual_model::{Instant, Rank};

/// A tournament tree over the next release of each rank. `set` and both queries take O(log n).
///
/// It is a tree and not a heap because of [`Releases::earliest_up_to`]: the yield point of a
/// running handler needs the next release of a *more urgent* handler (or its own deadline), which a
/// heap over all releases cannot give.
#[derive(Clone, Debug)]
pub struct Releases {
    /// Node 1 is the root, node `leaves + r` the leaf of rank `r`, each node the minimum of its two
    /// children. Missing leaves are never released.
    nodes: Box<[Instant]>,
    leaves: usize,
}

impl Releases {
    /// Makes a table for ranks `0..ranks` without any release.
    pub fn new(ranks: usize) -> Self {
        let leaves = ranks.next_power_of_two();
        Self { nodes: vec![Instant::MAX; 2 * leaves].into_boxed_slice(), leaves }
    }

    /// Returns the next release of `rank`.
    pub fn get(&self, rank: Rank) -> Instant {
        self.nodes[self.leaves + rank.0 as usize]
    }

    /// Sets the next release of `rank` to `at`.
    pub fn set(&mut self, rank: Rank, at: Instant) {
        let mut node = self.leaves + rank.0 as usize;
        self.nodes[node] = at;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].min(self.nodes[2 * node + 1]);
        }
    }

    /// Returns the earliest release of all; [`Instant::MAX`] if there is none.
    pub fn earliest(&self) -> Instant {
        self.nodes[1]
    }

    /// Returns the most urgent of the ranks with the earliest release.
    pub fn earliest_rank(&self) -> Rank {
        let mut node = 1;
        while node < self.leaves {
            node *= 2;
            if self.nodes[node + 1] < self.nodes[node] {
                node += 1;
            }
        }
        Rank((node - self.leaves) as u32)
    }

    /// Returns the earliest release among `rank` and the ranks more urgent than it.
    pub fn earliest_up_to(&self, rank: Rank) -> Instant {
        let mut node = self.leaves + rank.0 as usize;
        let mut earliest = self.nodes[node];
        // On the path up from the leaf, every left sibling covers only more urgent ranks.
        while node > 1 {
            if node % 2 == 1 {
                earliest = earliest.min(self.nodes[node - 1]);
            }
            node /= 2;
        }
        earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn agrees_with_a_plain_scan() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for ranks in [1usize, 2, 3, 7, 8, 65, 100] {
            let mut tree = Releases::new(ranks);
            let mut plain: Vec<Instant> = vec![Instant::MAX; ranks];
            for _ in 0..300 {
                let rank = rng.random_range(0..ranks);
                let at = Instant::from_nanos(rng.random_range(0..50));
                tree.set(Rank(rank as u32), at);
                plain[rank] = at;
                assert_eq!(tree.get(Rank(rank as u32)), at);
                let earliest = *plain.iter().min().expect("ranks");
                assert_eq!(tree.earliest(), earliest);
                let first = plain.iter().position(|at| *at == earliest).expect("there");
                assert_eq!(tree.earliest_rank(), Rank(first as u32));
                for (rank, _) in plain.iter().enumerate() {
                    let up_to = *plain[..=rank].iter().min().expect("one at least");
                    assert_eq!(tree.earliest_up_to(Rank(rank as u32)), up_to);
                }
            }
        }
    }
}
