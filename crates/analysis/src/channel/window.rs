//! The fixed points that `paper`, `sound` and `edf` share.
//!
//! A channel sees: what is there once (`once`), its own messages up to the one under study, and the
//! messages of channels above it. Every message of the busy window is looked at, not the first
//! alone.

use punctual_model::Duration;

use crate::ratio::Utilisation;
use crate::steps::{OutOfSteps, Steps};

/// How long after its logical arrival the last packet of a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DelayBound {
    /// No message takes longer.
    AtMost(Duration),
    /// The channel and those above it ask for more than there is, or a number has no end.
    Unbounded,
    /// Not decided within the steps: to be refused.
    Undecided,
}

impl DelayBound {
    /// The bound, if there is one.
    pub fn bound(self) -> Option<Duration> {
        match self {
            Self::AtMost(bound) => Some(bound),
            Self::Unbounded | Self::Undecided => None,
        }
    }

    /// The better of two bounds that both hold.
    pub(crate) fn or_less(self, other: Self) -> Self {
        match (self, other) {
            (Self::AtMost(a), Self::AtMost(b)) => Self::AtMost(a.min(b)),
            (Self::AtMost(_), _) | (Self::Undecided, Self::Unbounded) => self,
            _ => other,
        }
    }
}

/// Work that comes again: at most `work` every `period`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recurring {
    pub(crate) work: u64,
    pub(crate) period: u64,
}

/// What delays one channel, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Window<'a> {
    /// What is there once.
    pub(crate) once: u64,
    /// A message of the channel itself; `work` includes `tail`.
    pub(crate) own: Recurring,
    /// The end of a message that nothing delays any more once it began. With it, what arrives at
    /// the instant when it begins still goes first.
    pub(crate) tail: u64,
    /// Messages of the channels above.
    pub(crate) above: &'a [Recurring],
}

impl Window<'_> {
    pub(crate) fn delay(&self, steps: &mut Steps) -> DelayBound {
        if self.has_no_end() {
            return DelayBound::Unbounded;
        }
        match self.worst(steps) {
            Ok(worst) => DelayBound::AtMost(Duration::from_nanos(worst)),
            Err(OutOfSteps) => DelayBound::Undecided,
        }
    }

    /// The longest busy window; `None` if it has no end or is not found within the steps.
    pub(crate) fn longest(&self, steps: &mut Steps) -> Option<u64> {
        if self.has_no_end() { None } else { self.busy_window(steps).ok() }
    }

    fn has_no_end(&self) -> bool {
        let mut total = Utilisation::ZERO;
        total.add(self.own.work, self.own.period);
        for other in self.above {
            total.add(other.work, other.period);
        }
        self.once == u64::MAX || total.exceeds_one()
    }

    fn worst(&self, steps: &mut Steps) -> Result<u64, OutOfSteps> {
        let busy = self.busy_window(steps)?;
        let Recurring { work, period } = self.own;
        let (mut worst, mut release, mut begin) = (0, 0u64, 0);
        let mut fixed = self.once.checked_add(work - self.tail).ok_or(OutOfSteps)?;
        while release < busy {
            begin = self.begin(fixed, begin, steps)?;
            let end = u64::checked_add(begin, self.tail).ok_or(OutOfSteps)?;
            // Some later message may be released after this window has closed.
            worst = worst.max(end.saturating_sub(release));
            release = release.checked_add(period).ok_or(OutOfSteps)?;
            fixed = fixed.checked_add(work).ok_or(OutOfSteps)?;
        }
        Ok(worst)
    }

    /// The least `w = once + Σ ⌈w / T⌉·C` over the channel and all above it: no busy window is
    /// longer.
    fn busy_window(&self, steps: &mut Steps) -> Result<u64, OutOfSteps> {
        let mut window = self.once.max(1);
        loop {
            let own = self.own.work.checked_mul(window.div_ceil(self.own.period));
            let fixed = own.and_then(|own| own.checked_add(self.once)).ok_or(OutOfSteps)?;
            let next = self.with_above(fixed, steps, |period| window.div_ceil(period))?;
            if next <= window {
                return Ok(window);
            }
            window = next;
        }
    }

    /// The least `z = fixed + Σ above`, not below `from`.
    fn begin(&self, fixed: u64, from: u64, steps: &mut Steps) -> Result<u64, OutOfSteps> {
        let mut window = fixed.max(from);
        loop {
            let next = self.with_above(fixed, steps, |period| match self.tail {
                0 => window.div_ceil(period),
                _ => window / period + 1,
            })?;
            if next <= window {
                return Ok(window);
            }
            window = next;
        }
    }

    fn with_above(
        &self,
        fixed: u64,
        steps: &mut Steps,
        arrivals: impl Fn(u64) -> u64,
    ) -> Result<u64, OutOfSteps> {
        steps.take(self.above.len() + 1)?;
        self.above
            .iter()
            .try_fold(fixed, |sum, other| {
                sum.checked_add(other.work.checked_mul(arrivals(other.period))?)
            })
            .ok_or(OutOfSteps)
    }
}
