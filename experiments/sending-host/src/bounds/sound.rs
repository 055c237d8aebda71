//! The proven bound on the delay of channels.
//!
//! # The bound
//! The bound of a channel is the least of those below whose condition holds, over every message of
//! the busy window. All of them have the form `once + Σ message + tail`. cs, C_link and L are those
//! of [`punctual_analysis::channel::paper`]; B_lp is the longest block of a lower-priority or
//! best-effort message, B_any that of any message, and `c_k` the processing of packet k:
//!
//! - **O1** (link scheduling in interrupts), `θ = (L_min + C_link) / L_min`:
//!   `once = θ·(cs + B_lp) + 2·C_link + L_lp + max_k min(θ·c_k, L_k + C_link)`,
//!   `message = max_j (Σ_{k<j} θ·c_k + Σ_{k≥j} (L_k + C_link))`, with the changes of handler added
//!   to `c_1`: two for a message above and one for one's own (*by preemption*), or one to the
//!   first packet of each block (*by block*).
//! - **O2** (link scheduling in a thread), `c′_b = b + 2cs + C_link` for a block b:
//!   *any link*: `message = Σ_k (L_k + cs + B_any + cs + C_link)`; *fast link*, if even the
//!   shortest block of the level with its change, of *least* costs, takes longer than the longest
//!   packet:
//!   `message = Σ_b c′_b + L_max + (N − N_blocks)·(L_max + cs + B_any + cs + C_link)`.
//!
//! # Assumptions
//! - One processor, one link. Handlers of channels run by rank, the messages of a channel in order,
//!   best effort last. Early messages wait for their logical arrival before their handler sees them.
//! - A handler yields after P packets and at the end of a message. A change to another handler
//!   costs cs at once and is not interrupted by handlers. No step exceeds its cost; only
//!   [`Assumed::least`] gives a block a least time. The link's times are exact.
//! - The link sends one packet at a time, by rank. Each start costs C_link of the processor. In O1
//!   it interrupts whatever runs; in O2 the thread runs, for one packet at a time, at the next yield
//!   or when the processor is idle. An interrupt that finds no packet costs nothing.
//!
//! # Source, units, answers
//! The proof is in `docs/channel-bounds.md`, after the delay composition of pipelines (Jayachandran
//! & Abdelzaher, ECRTS 2007). The bound is in nanoseconds from the logical arrival to the end of the
//! last packet. There is none where the demand of the level exceeds the capacity, where packets take
//! no time, or when the steps run out.

use alloc::vec::Vec;

use punctual_analysis::Steps;
use punctual_analysis::channel::DelayBound;
use punctual_model::channel::{Channel, LinkScheduling, Sender};

use super::sender::{Sending, Shape, sum};
use super::window::{Assumed, Interference, Level, Recurring, Window, turn_of_the_thread};

/// Returns the bound for each of `channels`, the most urgent first, where costs are upper bounds.
pub fn delays(sender: &Sender, channels: &[Channel], steps: &mut Steps) -> Vec<DelayBound> {
    delays_assuming(sender, channels, Assumed::default(), steps)
}

/// Returns the same where `interference` goes before all of the sender, its link scheduling
/// included.
pub fn delays_beneath(
    sender: &Sender,
    channels: &[Channel],
    interference: &[Interference],
    steps: &mut Steps,
) -> Vec<DelayBound> {
    let assumed = Assumed { interference, ..Assumed::default() };
    delays_assuming(sender, channels, assumed, steps)
}

/// Returns the bound for each of `channels`, the most urgent first.
///
/// With interference it is `once + Σ message + θ·interference(window) + tail` (the page's Theorem
/// 4), and the window ends where the last packet is on the link. Then `tail` is that packet alone
/// in O1 too, because the interrupt that starts it may be delayed.
pub fn delays_assuming(
    sender: &Sender,
    channels: &[Channel],
    assumed: Assumed<'_>,
    steps: &mut Steps,
) -> Vec<DelayBound> {
    let Assumed { least, interference } = assumed;
    let shapes = sender.shapes_of(channels, least);
    let periods: Vec<u64> =
        channels.iter().map(|channel| channel.arrivals().min_inter_arrival().as_nanos()).collect();
    let mut bounds = Vec::with_capacity(channels.len());
    for at in 0..channels.len() {
        let level = Level::of(sender, &shapes, at + 1);
        let interrupting = level.interrupting(sender, interference);
        let mut best = DelayBound::Unbounded;
        for form in Form::all(sender, &level) {
            let work = |other: usize| form.message(sender, &level, &shapes[other], other < at);
            let above: Vec<Recurring> =
                (0..at).map(|j| Recurring { work: work(j), period: periods[j] }).collect();
            let own = Recurring { work: work(at), period: periods[at] };
            let tail = match interference {
                [] => form.tail(sender, &shapes[at]),
                _ => shapes[at].last_packet,
            };
            let once = form.once(sender, &level, shapes[at].last_packet);
            let window = Window { once, own, tail, above: &above, interference: &interrupting };
            best = better(best, window.delay(steps));
        }
        bounds.push(best);
    }
    bounds
}

/// Returns the better of two bounds that both hold.
fn better(a: DelayBound, b: DelayBound) -> DelayBound {
    match (a, b) {
        (DelayBound::AtMost(one), DelayBound::AtMost(other)) => DelayBound::AtMost(one.min(other)),
        (DelayBound::AtMost(_), _) | (DelayBound::Undecided, DelayBound::Unbounded) => a,
        _ => b,
    }
}

/// The form of a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// O1, with changes of handler charged to the messages that cause them.
    ByPreemption,
    /// O1, with changes of handler charged to each block.
    ByBlock,
    /// O2, any link.
    AnyLink,
    /// O2, if the longest packet is sent during the shortest block of the level.
    FastLink,
}

impl Form {
    /// Returns the bounds whose conditions hold.
    pub(crate) fn all(sender: &Sender, level: &Level) -> Vec<Form> {
        match sender.link_scheduling {
            LinkScheduling::InInterrupt => alloc::vec![Form::ByPreemption, Form::ByBlock],
            LinkScheduling::InThread => {
                if level.least_block > level.any_packet {
                    alloc::vec![Form::AnyLink, Form::FastLink]
                } else {
                    alloc::vec![Form::AnyLink]
                }
            }
        }
    }

    fn is_for_thread(self) -> bool {
        matches!(self, Self::AnyLink | Self::FastLink)
    }

    /// Returns the delay that occurs once; `last_packet` is the end of the message under study.
    pub(crate) fn once(self, sender: &Sender, level: &Level, last_packet: u64) -> u64 {
        let (cs, c_link) = (sender.change(), sender.link_scheduling_cost());
        if self.is_for_thread() && level.shortest_packet == 0 {
            return u64::MAX;
        }
        match self {
            Self::ByPreemption | Self::ByBlock => {
                let processing = sender.first_packet().max(sender.packet());
                let changes = if self == Self::ByPreemption { 2 } else { 1 };
                let processing = sum(&[processing, cs.saturating_mul(changes)]);
                sum(&[
                    level.stretched(sender, sum(&[cs, level.blocking_block])),
                    c_link,
                    level.blocking_packet,
                    c_link,
                    // The packet at which the path turns from the processor to the link.
                    level.stretched(sender, processing).min(sum(&[level.packet, c_link])),
                ])
            }
            Self::AnyLink => {
                let turning_block = sum(&[level.block, cs, turn_of_the_thread(sender)]);
                // At equality the yield may come just before the link is free.
                let left = level.blocking_packet.checked_sub(level.least_block);
                let first_turn = match left.filter(|_| level.blocking_packet > 0) {
                    None => turn_of_the_thread(sender),
                    Some(left) => level.cycle(sender, left),
                };
                let once = sum(&[cs, level.blocking_block, turning_block, first_turn]);
                // No cycle follows the last packet, but its message includes a full one. The
                // subtracted amount is not more than the blocking and the turning block together.
                once.saturating_sub(level.cycle(sender, 0))
            }
            Self::FastLink => {
                // The last packet itself is in no cycle.
                sum(&[cs, level.blocking_block, turn_of_the_thread(sender), last_packet])
            }
        }
    }

    /// Returns the delay that one message adds; `above` if it is of a channel above the one under
    /// study.
    pub(crate) fn message(self, sender: &Sender, level: &Level, shape: &Shape, above: bool) -> u64 {
        let cs = sender.change();
        match self {
            Self::ByPreemption => self.split(sender, level, shape, if above { 2 } else { 1 }),
            Self::ByBlock => self.split(sender, level, shape, 1),
            Self::AnyLink => sum(&[
                (shape.packets - 1).saturating_mul(level.cycle(sender, shape.longest_packet)),
                level.cycle(sender, shape.last_packet),
            ]),
            Self::FastLink => {
                let more = (shape.packets - 1).saturating_mul(sender.packet());
                let around = sum(&[cs, turn_of_the_thread(sender)]);
                sum(&[
                    sender.first_packet(),
                    more,
                    shape.blocks.saturating_mul(around),
                    level.any_packet,
                    (shape.packets - shape.blocks)
                        .saturating_mul(level.cycle(sender, level.any_packet)),
                ])
            }
        }
    }

    /// Returns the part of the channel's own message that nothing delays any more.
    pub(crate) fn tail(self, sender: &Sender, shape: &Shape) -> u64 {
        match self {
            Self::ByPreemption | Self::ByBlock => {
                sum(&[shape.last_packet, sender.link_scheduling_cost()])
            }
            Self::AnyLink | Self::FastLink => shape.last_packet,
        }
    }

    /// Returns `max_j (Σ_{k<j} θ·c_k + Σ_{k≥j} (L_k + C_link))` over `0 ≤ j ≤ N`: the first j
    /// packets delay on the processor, the others on the link.
    ///
    /// Within a block and from block to block the sum is linear in j. So a maximum is at an end, at
    /// the first packet of the first or of one of the last two blocks, or before the last packet,
    /// which may be shorter.
    fn split(self, sender: &Sender, level: &Level, shape: &Shape, changes: u64) -> u64 {
        let (cs, c_link) = (sender.change(), sender.link_scheduling_cost());
        let first = sum(&[sender.first_packet(), cs.saturating_mul(changes)]);
        let first = level.stretched(sender, first);
        let further = level.stretched(sender, sender.packet());
        let resumed = match self {
            Self::ByBlock => level.stretched(sender, cs),
            _ => 0,
        };
        let per_block = u64::from(sender.packetisation.packets_per_block());
        let split_at = |j: u64| {
            let processed = match j {
                0 => 0,
                j => sum(&[
                    first,
                    (j - 1).saturating_mul(further),
                    ((j - 1) / per_block).saturating_mul(resumed),
                ]),
            };
            let on_link = match shape.packets - j {
                0 => 0,
                left => sum(&[
                    (left - 1).saturating_mul(shape.longest_packet),
                    shape.last_packet,
                    left.saturating_mul(c_link),
                ]),
            };
            sum(&[processed, on_link])
        };
        let last_block = (shape.blocks - 1) * per_block + 1;
        let ends = [0, 1, last_block.saturating_sub(per_block), last_block];
        let ends = ends.into_iter().chain([shape.packets - 1, shape.packets]);
        ends.map(split_at).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_model::channel::BestEffort;
    use punctual_model::channel::{LinearBounded, Link, Packetisation, SendCosts};
    use punctual_model::{Duration, Service};

    /// Compares the closed form with every split.
    #[test]
    fn the_worst_split_is_at_one_of_six_places() {
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..20_000 {
            let sender = Sender {
                link: Link::new(Duration::from_nanos(1 + draw(40)), draw(4)).expect("valid"),
                costs: SendCosts {
                    switch: Service::from_nanos(draw(60)),
                    cache: Service::from_nanos(draw(60)),
                    first_packet: Service::from_nanos(draw(200)),
                    packet: Service::from_nanos(draw(100)),
                    link_scheduling: Service::from_nanos(draw(30)),
                },
                packetisation: Packetisation::new(20, 1 + draw(5) as u32).expect("valid"),
                link_scheduling: LinkScheduling::InInterrupt,
                best_effort: BestEffort::None,
            };
            let bytes = 1 + draw(400) as u32;
            let arrivals = LinearBounded::fixed(bytes, Duration::from_millis(1), 1).expect("valid");
            let channel = Channel::new("a", &arrivals.into(), Duration::from_millis(1));
            let shapes = sender.shapes_of(&[channel.expect("valid")], sender.costs);
            let (level, shape) = (Level::of(&sender, &shapes, 1), &shapes[0]);
            let per_block = u64::from(sender.packetisation.packets_per_block());
            let (cs, prot) = (sender.change(), sender.packet());
            for form in [Form::ByPreemption, Form::ByBlock] {
                let (mut processed, mut most) = (0, 0);
                for j in 0..=shape.packets {
                    let bytes_left = u64::from(bytes).saturating_sub(j * 20);
                    let full = sender.link.transmission_time(20).as_nanos();
                    let last = sender.link.transmission_time((bytes_left % 20) as u32).as_nanos();
                    let on_link = (bytes_left / 20) * (full + sender.link_scheduling_cost())
                        + if bytes_left % 20 == 0 {
                            0
                        } else {
                            last + sender.link_scheduling_cost()
                        };
                    most = most.max(processed + on_link);
                    processed += match (j, form) {
                        (0, Form::ByPreemption) => {
                            level.stretched(&sender, sender.first_packet() + 2 * cs)
                        }
                        (0, _) => level.stretched(&sender, sender.first_packet() + cs),
                        (j, Form::ByBlock) if j % per_block == 0 => {
                            level.stretched(&sender, prot) + level.stretched(&sender, cs)
                        }
                        _ => level.stretched(&sender, prot),
                    };
                }
                assert_eq!(form.message(&sender, &level, shape, true), most, "{sender:?} {bytes}");
            }
        }
    }
}
