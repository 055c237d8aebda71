//! Who is ready: a set of ranks that gives its most urgent member.

use alloc::boxed::Box;
use alloc::vec;

use punctual_model::Rank;

/// A set of ranks below a fixed bound. `insert` and `remove` are O(1); `first` looks at one word
/// for 64 ranks.
#[derive(Clone, Debug)]
pub struct ReadySet {
    words: Box<[u64]>,
}

impl ReadySet {
    /// An empty set that can hold ranks `0..ranks`.
    pub fn new(ranks: usize) -> Self {
        Self { words: vec![0; ranks.div_ceil(64)].into_boxed_slice() }
    }

    /// Adds `rank`; nothing changes if it is there already.
    pub fn insert(&mut self, rank: Rank) {
        let (word, bit) = place(rank);
        self.words[word] |= bit;
    }

    /// Takes `rank` out; nothing changes if it is not there.
    pub fn remove(&mut self, rank: Rank) {
        let (word, bit) = place(rank);
        self.words[word] &= !bit;
    }

    /// The most urgent rank in the set.
    pub fn first(&self) -> Option<Rank> {
        let (at, word) = self.words.iter().enumerate().find(|(_, word)| **word != 0)?;
        Some(Rank(at as u32 * 64 + word.trailing_zeros()))
    }
}

fn place(rank: Rank) -> (usize, u64) {
    (rank.0 as usize / 64, 1 << (rank.0 % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_is_the_most_urgent_across_words() {
        let mut set = ReadySet::new(200);
        assert_eq!(set.first(), None);
        for rank in [199, 64, 63] {
            set.insert(Rank(rank));
            assert_eq!(set.first(), Some(Rank(rank)));
        }
        set.remove(Rank(63));
        set.remove(Rank(63));
        assert_eq!(set.first(), Some(Rank(64)));
    }
}
