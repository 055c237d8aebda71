//! Tracks the messages that are over: complete, or given up.

/// The largest number of messages that can be reassembled at a time, and how far back a late
/// fragment still finds its message open.
pub const MOST_IN_FLIGHT: u32 = u64::BITS;

/// The newest message seen and those just before it. Older messages are over.
#[derive(Clone, Copy, Debug)]
pub(super) struct History {
    newest: u64,
    /// Bit n: message `newest − n` is over.
    over: u64,
}

/// The state of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Newer than all others, by this many.
    Ahead(u64),
    /// Seen in part, or not at all.
    Open,
    /// Complete, given up, or too old.
    Over,
}

impl History {
    /// Creates a history in which `newest` is the first message seen: nothing before it is known or
    /// counted.
    pub(super) fn from(newest: u64) -> Self {
        Self { newest, over: !1 }
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    pub(super) fn standing(&self, message: u64) -> Standing {
        match self.newest.checked_sub(message) {
            None => Standing::Ahead(message - self.newest),
            Some(back) if back >= u64::BITS.into() => Standing::Over,
            Some(back) if self.over >> back & 1 == 1 => Standing::Over,
            Some(_) => Standing::Open,
        }
    }

    /// Makes `message` the newest. Returns how many messages that were not over are now too far
    /// back, and so are over.
    pub(super) fn advance(&mut self, message: u64) -> u64 {
        let by = message - self.newest;
        self.newest = message;
        let window = u64::from(u64::BITS);
        let never_seen = by.saturating_sub(window);
        let (passed, over) = if by >= window {
            (self.over.count_zeros(), 0)
        } else if by > 0 {
            ((!self.over >> (window - by)).count_ones(), self.over << by)
        } else {
            (0, self.over)
        };
        self.over = over;
        never_seen.saturating_add(passed.into())
    }

    /// Returns the oldest message that is not too far back.
    pub(super) fn oldest(&self) -> u64 {
        self.newest.saturating_sub(u64::from(u64::BITS) - 1)
    }

    pub(super) fn settle(&mut self, message: u64) {
        if let Some(back) = self.newest.checked_sub(message).filter(|back| *back < 64) {
            self.over |= 1 << back;
        }
    }

    /// Returns the number of messages that are not over, the newest among them.
    pub(super) fn open(&self) -> u32 {
        self.over.count_zeros()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use std::collections::BTreeSet;

    /// Compares the window with the set of all messages that are over.
    #[test]
    fn the_window_is_the_end_of_the_set_of_all() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let first = rng.random_range(0..100);
            let mut history = History::from(first);
            let mut over: BTreeSet<u64> = (0..first).collect();
            let mut newest = first;
            for _ in 0..100 {
                let reach = if rng.random_bool(0.1) { 200 } else { 5 };
                let message = (newest + rng.random_range(0..reach)).saturating_sub(3);
                let standing = match message {
                    message if message > newest => Standing::Ahead(message - newest),
                    message if over.contains(&message) => Standing::Over,
                    _ => Standing::Open,
                };
                assert_eq!(history.standing(message), standing, "seed {seed}");
                if message > newest {
                    newest = message;
                    let passed: Vec<u64> =
                        (0..=newest.saturating_sub(64)).filter(|m| !over.contains(m)).collect();
                    let passed = if newest >= 64 { passed } else { Vec::new() };
                    assert_eq!(history.advance(message), passed.len() as u64, "seed {seed}");
                    over.extend(passed);
                }
                if rng.random_bool(0.7) {
                    history.settle(message);
                    over.insert(message);
                }
                assert_eq!(history.newest(), newest);
                assert_eq!(history.open() as usize, newest as usize + 1 - over.len());
            }
        }
    }

    #[test]
    fn the_ends_of_the_numbers_are_no_exception() {
        let mut history = History::from(0);
        assert_eq!(history.advance(u64::MAX), u64::MAX - 63);
        assert_eq!(history.standing(0), Standing::Over);
        assert_eq!(history.standing(u64::MAX), Standing::Open);
        assert_eq!(history.oldest(), u64::MAX - 63);
    }
}
