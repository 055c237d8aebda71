//! What channels leave of a link, for best effort.

use punctual_model::channel::BitRate;
use thiserror::Error;

/// Divides what is not reserved of a link among the best-effort senders, anew whenever a channel
/// starts or ends (L4ATM, §2.3), or a sender comes or goes.
///
/// A stated minimum is kept for all of them together: no channel starts that would take it. So
/// admission must not give away more than [`available`](Self::available), and best effort is slow
/// but never starved, for at least what is discarded has to be read.
///
/// All numbers are whole bits a second, and the parts add up: where a division leaves a rest, the
/// first senders get 1 bit/s more.
///
/// ```
/// use punctual_model::channel::BitRate;
/// use punctual_policy::link::BestEffortShare;
///
/// let mbit = |m: u64| BitRate::new(m * 1_000_000).expect("not zero");
/// let mut share = BestEffortShare::new(mbit(100), mbit(10))?;
/// share.sender_comes();
/// share.sender_comes();
/// assert_eq!(share.of_sender(0), 50_000_000);
/// share.channel_starts(mbit(80))?;
/// assert_eq!(share.of_sender(0), 10_000_000);
/// assert_eq!(share.available(), 10_000_000);
/// assert!(share.channel_starts(mbit(11)).is_err());
/// share.channel_ends(mbit(80));
/// assert_eq!(share.of_sender(1), 50_000_000);
/// # Ok::<(), punctual_policy::link::ShareError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BestEffortShare {
    /// All in bits a second; `reserved + minimum ≤ link`.
    link: u64,
    minimum: u64,
    reserved: u64,
    senders: u32,
}

/// Why a link is not divided so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShareError {
    /// More is kept than there is.
    #[error("{minimum} is kept for best effort, and the link has {link}; keep at most that")]
    MinimumAboveLink {
        /// The minimum given.
        minimum: BitRate,
        /// The link's rate.
        link: BitRate,
    },
    /// The channel does not fit beside the others and the minimum.
    #[error(
        "the channel needs {rate}, and {available} bit/s are left beside {reserved} bit/s of \
         other channels and {minimum} bit/s for best effort; ask for at most what is left"
    )]
    NotAvailable {
        /// The rate asked for.
        rate: BitRate,
        /// What could be had, in bits a second.
        available: u64,
        /// What other channels have.
        reserved: u64,
        /// What best effort keeps.
        minimum: u64,
    },
}

impl BestEffortShare {
    /// A link without channels and senders, of which at least `minimum` stays for best effort.
    ///
    /// # Errors
    /// If that is more than the link has.
    pub fn new(link: BitRate, minimum: BitRate) -> Result<Self, ShareError> {
        if minimum > link {
            return Err(ShareError::MinimumAboveLink { minimum, link });
        }
        let (link, minimum) = (link.bits_per_second(), minimum.bits_per_second());
        Ok(Self { link, minimum, reserved: 0, senders: 0 })
    }

    /// A channel of this rate starts.
    ///
    /// # Errors
    /// If it would take what is kept for best effort; then nothing has changed.
    pub fn channel_starts(&mut self, rate: BitRate) -> Result<(), ShareError> {
        let available = self.available();
        if rate.bits_per_second() > available {
            let Self { reserved, minimum, .. } = *self;
            return Err(ShareError::NotAvailable { rate, available, reserved, minimum });
        }
        self.reserved += rate.bits_per_second();
        Ok(())
    }

    /// A channel of this rate, which had started, ends.
    pub fn channel_ends(&mut self, rate: BitRate) {
        debug_assert!(rate.bits_per_second() <= self.reserved, "no such channel has started");
        self.reserved = self.reserved.saturating_sub(rate.bits_per_second());
    }

    /// One best-effort sender more.
    pub fn sender_comes(&mut self) {
        self.senders += 1;
    }

    /// One less.
    pub fn sender_goes(&mut self) {
        debug_assert!(self.senders > 0, "there is no sender");
        self.senders = self.senders.saturating_sub(1);
    }

    /// What channels may still have: what admission may give away, in bits a second.
    pub fn available(&self) -> u64 {
        self.link - self.minimum - self.reserved
    }

    /// What all best-effort senders have together, in bits a second: at least the minimum.
    pub fn of_all(&self) -> u64 {
        self.link - self.reserved
    }

    /// What one of them has, in bits a second, by its number from zero; nothing if there is none.
    /// Zero also if there are more senders than bits a second.
    pub fn of_sender(&self, sender: u32) -> u64 {
        if sender >= self.senders {
            return 0;
        }
        let (all, senders) = (self.of_all(), u64::from(self.senders));
        all / senders + u64::from(u64::from(sender) < all % senders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn rate(bits: u64) -> BitRate {
        BitRate::new(bits).expect("valid")
    }

    #[test]
    fn a_minimum_above_the_link_is_refused() {
        let (minimum, link) = (rate(11), rate(10));
        let why = ShareError::MinimumAboveLink { minimum, link };
        assert_eq!(BestEffortShare::new(link, minimum), Err(why));
    }

    /// The oracle keeps the list of channels, and deals bits one by one.
    #[test]
    fn parts_add_up_and_best_effort_keeps_its_minimum() {
        let mut refused = 0;
        for seed in 0..500 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let link = rng.random_range(1..200);
            let minimum = rng.random_range(1..=link);
            let mut share = BestEffortShare::new(rate(link), rate(minimum)).expect("not above");
            let mut channels: Vec<u64> = Vec::new();
            let mut senders = 0u32;
            for _ in 0..60 {
                let draw = rng.random_range(0..4);
                if draw == 0 {
                    let wanted = rng.random_range(1..=link);
                    let fits = channels.iter().sum::<u64>() + wanted + minimum <= link;
                    let before = share.clone();
                    assert_eq!(share.channel_starts(rate(wanted)).is_ok(), fits, "seed {seed}");
                    if fits {
                        channels.push(wanted);
                    } else {
                        assert_eq!(share, before);
                        refused += 1;
                    }
                } else if draw == 1 && !channels.is_empty() {
                    let ends = channels.swap_remove(rng.random_range(0..channels.len()));
                    share.channel_ends(rate(ends));
                } else if draw == 2 {
                    share.sender_comes();
                    senders += 1;
                } else if draw == 3 && senders > 0 {
                    share.sender_goes();
                    senders -= 1;
                }
                let left = link - channels.iter().sum::<u64>();
                assert_eq!((share.of_all(), share.available()), (left, left - minimum));
                assert!(share.of_all() >= minimum);
                let mut dealt = alloc::vec![0; senders as usize];
                for bit in 0..left as usize {
                    if senders > 0 {
                        dealt[bit % senders as usize] += 1;
                    }
                }
                let parts: Vec<u64> = (0..senders).map(|s| share.of_sender(s)).collect();
                assert_eq!(parts, dealt, "seed {seed}");
                assert_eq!(share.of_sender(senders), 0);
            }
        }
        assert!(refused > 1_000, "{refused}");
    }
}
