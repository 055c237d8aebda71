//! The fixed points that `sound` and `edf` share.
//!
//! A channel is delayed by work that occurs once (`once`), its own messages up to the one under
//! study, and the messages of channels above it. Every message of the busy window is examined, not
//! the first alone.
//!
//! The work of a level is bounded by the most that its channels and those below it can do.

use alloc::vec::Vec;

use punctual_analysis::channel::DelayBound;
use punctual_analysis::ratio::Ratio;
use punctual_analysis::{OutOfSteps, Steps};
use punctual_model::channel::{SendCosts, Sender};
use punctual_model::{Duration, Service};

use super::sender::{Sending, Shape, sum};

/// Other work that uses the sender's processor and goes before everything of the sender: a CPU
/// reservation, a more urgent task. In any window of length `w` it runs for at most `⌈(w + jitter)
/// / period⌉·work`.
///
/// A budget X every Y, used whenever its owner likes, has the jitter Y − X: it may be used at the
/// end of one period and at the beginning of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interference {
    /// Its processor time for one occurrence, including the cost to the sender of being interrupted
    /// and resumed (switches, cold caches).
    pub work: Service,
    /// Its period. Zero means unlimited, and then nothing can be promised.
    pub period: Duration,
    /// The largest delay of one occurrence, while the next is not delayed.
    pub jitter: Duration,
}

/// Assumptions of a bound beyond the description of the sender, whose costs no step exceeds. By
/// default a step may take any less, and nothing has a higher priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Assumed<'a> {
    /// The least cost of each step: zero where only the worst costs were measured; in the model of
    /// real-time channels the sender's own costs, which are exact there. Values above the sender's
    /// costs count as these.
    ///
    /// Only O2 relies on it, and is promised too much where it is not true: a block that is made
    /// *faster* than a packet is sent delays the next packet by a whole block of another channel.
    pub least: SendCosts,
    /// Work that goes before all of the sender.
    pub interference: &'a [Interference],
}

impl Assumed<'_> {
    /// Assumes that each step takes at least `ppm` parts per million of its cost, rounded down,
    /// with nothing of higher priority.
    pub fn at_least(ppm: u32, of: SendCosts) -> Self {
        let part = |most: Service| {
            let nanos = u128::from(most.as_nanos()) * u128::from(ppm) / 1_000_000;
            most.min(Service::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
        };
        let least = SendCosts {
            switch: part(of.switch),
            cache: part(of.cache),
            first_packet: part(of.first_packet),
            packet: part(of.packet),
            link_scheduling: part(of.link_scheduling),
        };
        Self { least, interference: &[] }
    }
}

/// [`Interference`] as a window sees it: `work` with the link scheduling that it lets through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupting {
    pub(crate) work: u64,
    pub(crate) period: u64,
    pub(crate) jitter: u64,
}

impl Interrupting {
    /// Returns the work in a half-open window, or `None` beyond 64 bits.
    fn in_window(self, window: u64) -> Option<u64> {
        window.checked_add(self.jitter)?.div_ceil(self.period).checked_mul(self.work)
    }
}

/// Recurring work: at most `work` every `period`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recurring {
    pub(crate) work: u64,
    pub(crate) period: u64,
}

/// The delays of one channel, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Window<'a> {
    /// The delay that occurs once.
    pub(crate) once: u64,
    /// A message of the channel itself; `work` includes `tail`.
    pub(crate) own: Recurring,
    /// The end of a message that nothing delays any more once it has begun. Work that arrives at
    /// the instant when it begins still goes first.
    pub(crate) tail: u64,
    /// Messages of the channels above.
    pub(crate) above: &'a [Recurring],
    /// Work that goes before all channels, until `tail` begins.
    pub(crate) interference: &'a [Interrupting],
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

    /// Returns the longest busy window, or `None` if it has no end or is not found within the
    /// steps.
    pub(crate) fn longest(&self, steps: &mut Steps) -> Option<u64> {
        if self.has_no_end() { None } else { self.busy_window(steps).ok() }
    }

    fn has_no_end(&self) -> bool {
        if self.interference.iter().any(|other| other.period == 0) {
            return true;
        }
        let messages = self.above.iter().chain([&self.own]).map(|other| (other.work, other.period));
        let interference = self.interference.iter().map(|other| (other.work, other.period));
        let shares = messages.chain(interference).map(|(work, period)| Ratio::below(work, period));
        self.once == u64::MAX || shares.fold(Ratio::ZERO, Ratio::plus) > Ratio::ONE
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

    /// Returns the least `w = once + Σ ⌈w / T⌉·C` over the channel and all above it: no busy window
    /// is longer.
    fn busy_window(&self, steps: &mut Steps) -> Result<u64, OutOfSteps> {
        let mut window = self.once.max(1);
        loop {
            let own = self.own.work.checked_mul(window.div_ceil(self.own.period));
            let fixed = own.and_then(|own| own.checked_add(self.once)).ok_or(OutOfSteps)?;
            let next = self.with_above(fixed, window, steps, |period| window.div_ceil(period))?;
            if next <= window {
                return Ok(window);
            }
            window = next;
        }
    }

    /// Returns the least `z = fixed + Σ above`, not below `from`.
    fn begin(&self, fixed: u64, from: u64, steps: &mut Steps) -> Result<u64, OutOfSteps> {
        let mut window = fixed.max(from);
        loop {
            let next = self.with_above(fixed, window, steps, |period| match self.tail {
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
        window: u64,
        steps: &mut Steps,
        arrivals: impl Fn(u64) -> u64,
    ) -> Result<u64, OutOfSteps> {
        steps.take(self.above.len() + self.interference.len() + 1)?;
        let with_above = self.above.iter().try_fold(fixed, |sum, other| {
            sum.checked_add(other.work.checked_mul(arrivals(other.period))?)
        });
        self.interference
            .iter()
            .try_fold(with_above.ok_or(OutOfSteps)?, |sum, other| {
                sum.checked_add(other.in_window(window)?)
            })
            .ok_or(OutOfSteps)
    }
}

/// The channels of a level and those below it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    /// Below the level: the longest block and packet.
    pub(super) blocking_block: u64,
    pub(super) blocking_packet: u64,
    /// Within the level: the longest packet and block, and the least time of a block with its
    /// change (β).
    pub(super) packet: u64,
    pub(super) block: u64,
    pub(super) least_block: u64,
    /// Of all channels: the longest block, the longest and shortest packet.
    any_block: u64,
    pub(super) any_packet: u64,
    pub(super) shortest_packet: u64,
}

impl Level {
    /// Returns the level of the first `members` of `shapes`.
    pub(crate) fn of(sender: &Sender, shapes: &[Shape], members: usize) -> Self {
        Self::between(sender, shapes, &shapes[..members], &shapes[members..])
    }

    /// Returns the level of all `shapes`, each of which may also be below: what deadline order
    /// needs.
    pub(crate) fn of_all(sender: &Sender, shapes: &[Shape]) -> Self {
        Self::between(sender, shapes, shapes, shapes)
    }

    fn between(sender: &Sender, all: &[Shape], within: &[Shape], below: &[Shape]) -> Self {
        let best_effort = sender.best_effort_shape();
        let below = || below.iter().chain(&best_effort);
        let all = || all.iter().chain(&best_effort);
        let most = |values: &mut dyn Iterator<Item = u64>| values.max().unwrap_or(0);
        let least = |values: &mut dyn Iterator<Item = u64>| values.min().unwrap_or(0);
        Self {
            blocking_block: most(&mut below().map(|s| s.longest_block)),
            blocking_packet: most(&mut below().map(|s| s.longest_packet)),
            packet: most(&mut within.iter().map(|s| s.longest_packet)),
            block: most(&mut within.iter().map(|s| s.longest_block)),
            least_block: least(&mut within.iter().map(|s| s.least_block)),
            any_block: most(&mut all().map(|s| s.longest_block)),
            any_packet: most(&mut all().map(|s| s.longest_packet)),
            shortest_packet: least(&mut all().map(|s| s.shortest_packet)),
        }
    }

    /// Returns `θ·work`, rounded up: processing with the link interrupts that can come meanwhile.
    pub(super) fn stretched(&self, sender: &Sender, work: u64) -> u64 {
        let (shortest, c_link) = (self.shortest_packet, sender.link_scheduling_cost());
        let scaled = u128::from(work) * (u128::from(shortest) + u128::from(c_link));
        match (c_link, shortest) {
            (0, _) => work,
            (_, 0) => u64::MAX,
            _ => u64::try_from(scaled.div_ceil(u128::from(shortest))).unwrap_or(u64::MAX),
        }
    }

    /// Returns `interference` with the link scheduling that it lets through: while it runs the link
    /// may become free, and each time costs a further C_link.
    pub(super) fn interrupting(
        &self,
        sender: &Sender,
        interference: &[Interference],
    ) -> Vec<Interrupting> {
        let stretched = |other: &Interference| Interrupting {
            work: self.stretched(sender, other.work.as_nanos()),
            period: other.period.as_nanos(),
            jitter: other.jitter.as_nanos(),
        };
        interference.iter().map(stretched).collect()
    }

    /// Returns the time of a packet in O2 whatever the processor does: sent, then a block, then the
    /// link thread.
    pub(super) fn cycle(&self, sender: &Sender, packet: u64) -> u64 {
        sum(&[packet, sender.change(), self.any_block, turn_of_the_thread(sender)])
    }
}

/// Returns the time of the link thread in O2 for one packet: `cs + C_link`.
pub(super) fn turn_of_the_thread(sender: &Sender) -> u64 {
    sum(&[sender.change(), sender.link_scheduling_cost()])
}
