//! Decides whether every message meets its delay bound in deadline order at run time.
//!
//! # The bound
//! `D_order` admits by ranks, but the three queues are served by deadline (real-time channels,
//! §2.2). With `once` and `message` of one form of [`super::sound`], taken over all channels:
//!
//! ```text
//! for every t:  once + Σ_{j: d_j ≤ t} (⌊(t − d_j) / I_j⌋ + 1)·message_j ≤ t
//! ```
//!
//! # Assumptions, source
//! Those of [`super::sound`], with "by absolute deadline, ties in any order" for "by rank". Every
//! channel may block, and every message may preempt. The test is Baruah, Rosier & Howell's demand
//! bound (RTSS 1990) over the path of `docs/channel-bounds.md`.
//!
//! # Units and answers
//! Nanoseconds. Sufficient, not necessary. Every deadline in the longest busy window is checked.

use punctual_analysis::Steps;
use punctual_model::channel::{Channel, Sender};

use super::sender::{Sending, Shape};
use super::sound::Form;
use super::window::{Assumed, Interference, Interrupting, Level, Recurring, Window};

/// Returns whether every message of `channels` certainly meets its delay bound in deadline order,
/// where costs are upper bounds.
pub fn all_in_time(sender: &Sender, channels: &[Channel], steps: &mut Steps) -> bool {
    all_in_time_assuming(sender, channels, Assumed::default(), steps)
}

/// Returns the same where `interference` goes before all of the sender.
pub fn all_in_time_beneath(
    sender: &Sender,
    channels: &[Channel],
    interference: &[Interference],
    steps: &mut Steps,
) -> bool {
    let assumed = Assumed { interference, ..Assumed::default() };
    all_in_time_assuming(sender, channels, assumed, steps)
}

/// Returns whether every message of `channels` certainly meets its delay bound in deadline order.
///
/// Interference adds `θ·(⌊(t + jitter) / period⌋ + 1)·work` on the left, and every instant at which
/// that rises is checked too.
pub fn all_in_time_assuming(
    sender: &Sender,
    channels: &[Channel],
    assumed: Assumed<'_>,
    steps: &mut Steps,
) -> bool {
    let Assumed { least, interference } = assumed;
    let shapes = sender.shapes_of(channels, least);
    let level = Level::of_all(sender, &shapes);
    let last = shapes.iter().map(|shape| shape.longest_packet).max().unwrap_or(0);
    Form::all(sender, &level).into_iter().any(|form| {
        let recurring = |(channel, shape): (&Channel, &Shape)| Recurring {
            work: form.message(sender, &level, shape, true),
            period: channel.arrivals().min_inter_arrival().as_nanos(),
        };
        let messages = channels.iter().zip(&shapes).map(recurring).collect();
        let deadlines = channels.iter().map(|channel| channel.delay_bound().as_nanos()).collect();
        let once = form.once(sender, &level, last);
        let interference = level.interrupting(sender, interference);
        Demand { once, messages, deadlines, interference }.fits(steps)
    })
}

struct Demand {
    once: u64,
    messages: alloc::vec::Vec<Recurring>,
    deadlines: alloc::vec::Vec<u64>,
    interference: alloc::vec::Vec<Interrupting>,
}

impl Demand {
    fn fits(&self, steps: &mut Steps) -> bool {
        let Some((own, above)) = self.messages.split_first() else {
            return true;
        };
        let interference = &self.interference;
        let window = Window { once: self.once, own: *own, tail: 0, above, interference };
        let Some(busy) = window.longest(steps) else {
            return false;
        };
        // Between two steps demand is constant, so it is enough to check steps. From the last
        // downwards in jumps (Zhang & Burns, 2009): if demand at t is h ≤ t, then it is at most h
        // at all points in [h, t].
        let Some(mut t) = self.last_step_within(busy) else {
            return true;
        };
        loop {
            if steps.take((self.messages.len() + interference.len()) * 2).is_err() {
                return false;
            }
            match self.at(t) {
                Some(demand) if demand <= t => match self.last_step_within(demand.min(t - 1)) {
                    Some(earlier) => t = earlier,
                    None => return true,
                },
                _ => return false,
            }
        }
    }

    fn at(&self, t: u64) -> Option<u64> {
        let messages = self.each().filter(|(_, deadline)| *deadline <= t).try_fold(
            self.once,
            |sum, (message, deadline)| {
                let due = (t - deadline) / message.period + 1;
                sum.checked_add(due.checked_mul(message.work)?)
            },
        )?;
        self.interference.iter().try_fold(messages, |sum, other| {
            let times = t.checked_add(other.jitter)? / other.period + 1;
            sum.checked_add(times.checked_mul(other.work)?)
        })
    }

    /// Returns the last instant up to `t` at which demand rises, or `None` before the first
    /// deadline, because nothing is due there.
    fn last_step_within(&self, t: u64) -> Option<u64> {
        let deadlines = self
            .each()
            .filter(|(_, deadline)| *deadline <= t)
            .map(|(message, deadline)| t - (t - deadline) % message.period);
        let last = deadlines.max()?;
        let first = self.deadlines.iter().copied().min()?;
        let rises = self.interference.iter().map(|other| {
            let since = (u128::from(t) + u128::from(other.jitter)) % u128::from(other.period);
            // The remainder is less than a 64-bit period.
            t.saturating_sub(since as u64)
        });
        Some(rises.filter(|&rise| rise >= first).fold(last, u64::max))
    }

    fn each(&self) -> impl Iterator<Item = (Recurring, u64)> {
        self.messages.iter().copied().zip(self.deadlines.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// Compares with every t up to a limit far beyond the busy window, one by one.
    #[test]
    fn the_jumps_decide_like_checking_every_instant() {
        let mut state = 7u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut fitting = 0;
        for _ in 0..3_000 {
            let count = 1 + draw(4);
            let (messages, deadlines) = (vec![], vec![]);
            let mut demand = Demand { once: draw(30), messages, deadlines, interference: vec![] };
            for _ in 0..count {
                let period = 5 + draw(60);
                demand.messages.push(Recurring { work: 1 + draw(12), period });
                demand.deadlines.push(1 + draw(120));
            }
            for _ in 0..draw(3) {
                let (period, jitter) = (3 + draw(40), draw(60));
                demand.interference.push(Interrupting { work: 1 + draw(5), period, jitter });
            }
            let messages = demand.messages.iter().map(|m| m.work as f64 / m.period as f64);
            let others = demand.interference.iter().map(|o| o.work as f64 / o.period as f64);
            let load = messages.sum::<f64>() + others.sum::<f64>();
            let slow = load <= 0.97
                && (0..20_000).all(|t| {
                    demand.each().all(|(_, deadline)| deadline > t)
                        || demand.at(t).is_some_and(|due| due <= t)
                });
            if load <= 0.97 {
                assert_eq!(demand.fits(&mut Steps::default()), slow);
                fitting += u32::from(slow);
            }
        }
        assert!(fitting > 200, "{fitting} fit");
    }
}
