//! A set of ranks with fast access to its most urgent member.

use alloc::boxed::Box;
use alloc::vec;
use core::num::NonZero;

use punctual_model::Rank;

/// A set of ranks below a fixed bound: a bit for each, and above them a bit for each nonempty word.
/// `insert` and `remove` are O(1); `first` reads one summary word for 4,096 ranks.
#[derive(Clone, Debug)]
pub struct ReadySet {
    words: Box<[u64]>,
    summary: Box<[u64]>,
}

impl ReadySet {
    /// Makes an empty set for ranks `0..ranks`.
    pub fn new(ranks: usize) -> Self {
        let words = vec![0; ranks.div_ceil(64)].into_boxed_slice();
        let summary = vec![0; words.len().div_ceil(64)].into_boxed_slice();
        Self { words, summary }
    }

    /// Adds `rank`, if it is not in the set.
    #[inline]
    pub fn insert(&mut self, rank: Rank) {
        let (word, bit) = place(rank.0 as usize);
        self.words[word] |= bit;
        let (above, bit) = place(word);
        self.summary[above] |= bit;
    }

    /// Removes `rank`, if it is in the set.
    #[inline]
    pub fn remove(&mut self, rank: Rank) {
        let (word, bit) = place(rank.0 as usize);
        self.words[word] &= !bit;
        if self.words[word] == 0 {
            let (above, bit) = place(word);
            self.summary[above] &= !bit;
        }
    }

    /// Adds `rank` if `is_in`, otherwise removes it.
    #[inline]
    pub fn put(&mut self, rank: Rank, is_in: bool) {
        if is_in { self.insert(rank) } else { self.remove(rank) }
    }

    /// Removes all ranks.
    pub fn clear(&mut self) {
        self.words.fill(0);
        self.summary.fill(0);
    }

    /// Returns the most urgent rank in the set.
    #[inline]
    pub fn first(&self) -> Option<Rank> {
        let at = self.first_word()?;
        Some(Rank(at as u32 * 64 + NonZero::new(self.words[at])?.trailing_zeros()))
    }

    /// Removes and returns the most urgent rank.
    #[inline]
    pub fn take_first(&mut self) -> Option<Rank> {
        let at = self.first_word()?;
        let word = &mut self.words[at];
        let bit = NonZero::new(*word)?.trailing_zeros();
        *word &= *word - 1;
        if *word == 0 {
            let (above, bit) = place(at);
            self.summary[above] &= !bit;
        }
        Some(Rank(at as u32 * 64 + bit))
    }

    /// Returns the position of the first word that is not zero.
    #[inline]
    fn first_word(&self) -> Option<usize> {
        let bit = |(above, word): (usize, &u64)| {
            Some(above * 64 + NonZero::new(*word)?.trailing_zeros() as usize)
        };
        self.summary.iter().enumerate().find_map(bit)
    }
}

/// Returns the word and the bit of position `at`.
fn place(at: usize) -> (usize, u64) {
    (at / 64, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_is_the_most_urgent_across_words() {
        let mut set = ReadySet::new(10_000);
        assert_eq!(set.first(), None);
        for rank in [9_999, 4_096, 199, 64, 63] {
            set.insert(Rank(rank));
            assert_eq!(set.first(), Some(Rank(rank)));
        }
        set.remove(Rank(63));
        set.remove(Rank(63));
        assert_eq!(set.first(), Some(Rank(64)));
        set.insert(Rank(66));
        for rank in [64, 66, 199, 4_096, 9_999] {
            assert_eq!(set.take_first(), Some(Rank(rank)));
        }
        assert_eq!(set.take_first(), None);
        assert_eq!(set.first(), None);
        set.put(Rank(7), true);
        set.put(Rank(9_000), true);
        set.clear();
        assert_eq!(set.first(), None);
    }
}
