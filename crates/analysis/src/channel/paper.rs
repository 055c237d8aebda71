//! The published estimate, with its printing errors corrected. **Not safe**: for experiments only.
//!
//! # The estimate
//! `wait + service + Σ ⌈R / I_j⌉·service_j`, with the service and wait times of real-time channels,
//! §4.1 and §4.2. With N packets, P packets between preemption points, P′ = min(N, P), cs =
//! C_switch + C_cache, C′ = C_link + cs, N_blocks = ⌊(N − 1)/P⌋ + 1, these lines differ from the
//! printed ones:
//!
//! - C_block^first and C_block have P′ packets (printed: max(N, P), and P);
//! - a wait is for the first block of a lower-priority or best-effort message, not for the
//!   message's own;
//! - C_preempt = ⌊(N − 1)/P⌋·cs; C_link^msg = N·C′ in O2; T^A + N·T_wait^{O2,cpu};
//! - T_wait^{O2,link} is zero if L_xmit(S) ≤ the message's own first block (printed: ≤
//!   C_prot^first).
//!
//! # Why it is not safe
//! A higher-priority message also costs the return to the handler that it preempts, and in O2 a
//! packet may find a foreign block running after its own last block. Neither is in the sum.
//! `docs/channel-bounds.md` counts how often a simulation exceeds the estimate, and proves a
//! replacement on the same host.

use alloc::vec::Vec;

use punctual_model::Duration;
use punctual_model::channel::{Channel, LinkScheduling, SendCosts, Sender};

use super::DelayBound;
use crate::fixed_priority::{ResponseTime, response_time_of};
use crate::load::{CpuLoad, TaskLoad};
use crate::reservation::ReservedLoad;
use crate::steps::Steps;

/// The largest message of one source, cut into packets, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// `N`.
    packets: u64,
    /// `N_blocks`.
    blocks: u64,
    /// `C_block^first`.
    first_block: u64,
    /// `L_xmit^msg`: all packets.
    transmission: u64,
    /// `L_xmit` of the last packet.
    last_packet: u64,
}

impl Shape {
    fn new(sender: &Sender, bytes: u32) -> Self {
        let cut = sender.packetisation;
        let per_block = u64::from(cut.packets_per_block());
        let time = |bytes| sender.link.transmission_time(bytes).as_nanos();
        let packets = u64::from(cut.packets_of(bytes));
        let further = (packets.min(per_block) - 1).saturating_mul(sender.costs.packet.as_nanos());
        let full = (packets - 1).saturating_mul(time(bytes.min(cut.packet_bytes())));
        let last_packet = time(cut.last_packet_of(bytes));
        Self {
            packets,
            blocks: (packets - 1) / per_block + 1,
            first_block: sum(&[sender.costs.first_packet.as_nanos(), further]),
            transmission: sum(&[full, last_packet]),
            last_packet,
        }
    }

    fn of(sender: &Sender, channel: &Channel) -> Self {
        Self::new(sender, channel.arrivals().max_message())
    }
}

/// Returns the sum, saturating at the largest number, which is no estimate.
fn sum(terms: &[u64]) -> u64 {
    terms.iter().fold(0, |sum, &term| sum.saturating_add(term))
}

/// Returns `cs`.
fn change(sender: &Sender) -> u64 {
    sender.costs.change_of_handler().as_nanos()
}

/// Returns the estimate for each of `channels`, the most urgent first.
pub fn delays(sender: &Sender, channels: &[Channel], steps: &mut Steps) -> Vec<DelayBound> {
    let shapes: Vec<Shape> = channels.iter().map(|channel| Shape::of(sender, channel)).collect();
    let any = foreign_block(sender, &shapes);
    let message = |channel: &Channel, work| TaskLoad {
        work,
        wcet: work,
        high: 0,
        period: channel.arrivals().min_inter_arrival().as_nanos(),
        deadline: channel.delay_bound().as_nanos(),
        jitter: 0,
        quantum: 0,
        last: 0,
    };
    let mut load =
        CpuLoad { tasks: Vec::with_capacity(channels.len()), reservations: Vec::new(), wake_up: 0 };
    let mut delays = Vec::with_capacity(channels.len());
    for (at, (channel, shape)) in channels.iter().zip(&shapes).enumerate() {
        let blocking = foreign_block(sender, &shapes[at + 1..]);
        load.reservations = alloc::vec![ReservedLoad::once(wait(sender, shape, blocking))];
        load.tasks.push(message(channel, service(sender, shape, blocking)));
        delays.push(match response_time_of(&load, at, steps) {
            ResponseTime::AtMost(delay) => DelayBound::AtMost(delay),
            ResponseTime::Undecided { .. } => DelayBound::Undecided,
            ResponseTime::Unbounded => DelayBound::Unbounded,
        });
        // For the channels below, this channel meets the longest foreign block of all.
        load.tasks[at] = message(channel, service(sender, shape, any));
    }
    delays
}

/// Returns `T_service` of the largest message of `channel` on a host that also sends its best
/// effort, in nanoseconds of real time. The paper predicts throughput from it (§4.3).
pub fn service_time(sender: &Sender, channel: &Channel) -> Duration {
    let blocking = foreign_block(sender, &[]);
    Duration::from_nanos(service(sender, &Shape::of(sender, channel), blocking))
}

/// Returns the longest first block of these channels and of best effort.
fn foreign_block(sender: &Sender, shapes: &[Shape]) -> u64 {
    let best_effort = sender.best_effort.most().map(|bytes| Shape::new(sender, bytes));
    shapes.iter().chain(&best_effort).map(|shape| shape.first_block).max().unwrap_or(0)
}

/// Returns `L_xmit(S)` as §4 uses it: of a full packet.
fn full_packet(sender: &Sender) -> u64 {
    sender.link.transmission_time(sender.packetisation.packet_bytes()).as_nanos()
}

fn service(sender: &Sender, shape: &Shape, blocking: u64) -> u64 {
    let (cs, full) = (change(sender), full_packet(sender));
    let SendCosts { first_packet, packet, link_scheduling, .. } = sender.costs;
    let (prot, c_link) = (packet.as_nanos(), link_scheduling.as_nanos());
    let more = shape.packets - 1;
    match sender.link_scheduling {
        LinkScheduling::InInterrupt => {
            let preempt = (shape.blocks - 1).saturating_mul(cs);
            let link = shape.packets.saturating_mul(c_link);
            let overlapped = if prot < full {
                shape.transmission
            } else {
                sum(&[more.saturating_mul(prot), shape.last_packet])
            };
            sum(&[first_packet.as_nanos(), overlapped, link, preempt])
        }
        LinkScheduling::InThread => {
            let per_block = u64::from(sender.packetisation.packets_per_block());
            let block = sum(&[per_block.min(shape.packets).saturating_mul(prot), cs]);
            let link = shape.packets.saturating_mul(sum(&[c_link, cs]));
            let t_a = sum(&[shape.first_block, shape.transmission, link]);
            if block < full {
                return sum(&[t_a, shape.packets.saturating_mul(thread_wait(sender, blocking))]);
            }
            if shape.blocks == 1 {
                return t_a;
            }
            let last_block = match shape.packets % per_block {
                0 => block,
                left => sum(&[left.saturating_mul(prot), cs]),
            };
            sum(&[
                shape.first_block,
                (shape.blocks - 2).saturating_mul(block),
                last_block.max(full),
                (shape.packets - shape.blocks).saturating_mul(full),
                shape.last_packet,
                link,
            ])
        }
    }
}

fn wait(sender: &Sender, shape: &Shape, blocking: u64) -> u64 {
    let full = full_packet(sender);
    match sender.link_scheduling {
        LinkScheduling::InInterrupt => {
            let interrupts = match full {
                0 => 0,
                full => blocking.div_ceil(full),
            };
            let interrupts = interrupts.saturating_mul(sender.costs.link_scheduling.as_nanos());
            sum(&[blocking, interrupts, change(sender), full])
        }
        LinkScheduling::InThread => {
            let cpu = thread_wait(sender, blocking);
            if full <= shape.first_block { cpu } else { cpu.saturating_mul(2) }
        }
    }
}

/// Returns `T_wait^{O2,cpu}`: a foreign block, then the link thread, each with its change of
/// handler.
fn thread_wait(sender: &Sender, blocking: u64) -> u64 {
    sum(&[blocking, change(sender), change(sender), sender.costs.link_scheduling.as_nanos()])
}
