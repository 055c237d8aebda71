//! Delay instead of discard.

use punctual_model::Instant;

use super::{Breach, Policer, Verdict};

/// Delays each PDU until it conforms. Its PDUs leave in the order in which they came, each charged
/// for the instant at which it leaves; so a second policer of the same kind behind it finds all of
/// them conforming.
///
/// ```
/// use punctual_model::channel::BitRate;
/// use punctual_model::{Duration, Instant};
/// use punctual_policy::police::{Charge, Gcra, Shaper};
///
/// let rate = BitRate::new(8_000_000)?;
/// let mut shaper = Shaper::new(Gcra::new(rate, 1_000, Duration::ZERO, Charge::PerByte));
/// let at = |ms| Instant::ZERO + Duration::from_millis(ms);
/// let leaves: Vec<_> = (0..3).map(|_| shaper.shape(at(5), 1_000)).collect();
/// assert_eq!(leaves, [Ok(at(5)), Ok(at(6)), Ok(at(7))]);
/// # Ok::<(), punctual_model::channel::RateError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Shaper<P> {
    policer: P,
    /// When the last PDU leaves.
    last: Instant,
}

impl<P: Policer> Shaper<P> {
    /// Around a policer that has seen nothing yet.
    pub fn new(policer: P) -> Self {
        Self { policer, last: Instant::ZERO }
    }

    /// When a PDU of `bytes` that came at `now` may leave; not before the one before it. At
    /// [`Instant::MAX`], the end of time, nothing is promised any more.
    ///
    /// # Errors
    /// [`Breach::TooLarge`]: no wait makes it conform.
    pub fn shape(&mut self, now: Instant, bytes: u32) -> Result<Instant, Breach> {
        let now = now.max(self.last);
        self.last = match self.policer.police(now, bytes) {
            Verdict::Conforming => now,
            Verdict::NonConforming(breach @ Breach::TooLarge { .. }) => return Err(breach),
            Verdict::NonConforming(Breach::TooEarly { conforms_at }) => {
                let then = self.policer.police(conforms_at, bytes);
                debug_assert!(then == Verdict::Conforming || conforms_at == Instant::MAX);
                conforms_at
            }
        };
        Ok(self.last)
    }

    /// When the PDU that came last leaves, or left.
    pub fn last_leaves(&self) -> Instant {
        self.last
    }
}
