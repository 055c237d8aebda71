//! The published estimate, with its printing errors corrected. **Not safe**: for experiments only.
//!
//! # The estimate
//! `wait + service + Σ ⌈R / I_j⌉·service_j`, with the service and wait times of real-time channels,
//! §4.1 and §4.2. With N packets, P packets between preemption points, P′ = min(N, P),
//! cs = C_switch + C_cache, C′ = C_link + cs, N_blocks = ⌊(N − 1)/P⌋ + 1, these lines differ from
//! what is printed:
//!
//! - C_block^first and C_block have P′ packets (printed: max(N, P), and P);
//! - a wait is for the first block of a lower-priority or best-effort message, not for one's own;
//! - C_preempt = ⌊(N − 1)/P⌋·cs; C_link^msg = N·C′ in O2; T^A + N·T_wait^{O2,cpu};
//! - T_wait^{O2,link} is zero if L_xmit(S) ≤ the own first block (printed: ≤ C_prot^first).
//!
//! # Why it is not safe
//! A higher-priority message costs the return to the handler it preempts too, and in O2 a packet
//! may find a foreign block running after its own last block: neither is in the sum.
//! `docs/channel-bounds.md` counts how often a simulation exceeds the estimate. [`super::sound`]
//! replaces it.

use alloc::vec::Vec;

use punctual_model::Duration;
use punctual_model::channel::{Channel, LinkScheduling, Sender};

use super::sender::{Sending, Shape, sum};
use super::window::{DelayBound, Recurring, Window};
use crate::steps::Steps;

/// The estimate for each of `channels`, the most urgent first.
pub fn delays(sender: &Sender, channels: &[Channel], steps: &mut Steps) -> Vec<DelayBound> {
    let shapes = sender.shapes_of(channels);
    let messages: Vec<Recurring> = channels
        .iter()
        .zip(&shapes)
        .map(|(channel, shape)| Recurring {
            work: service(sender, shape, foreign_block(sender, &shapes, 0)),
            period: channel.arrivals().min_inter_arrival().as_nanos(),
        })
        .collect();
    (0..channels.len())
        .map(|at| {
            let blocking = foreign_block(sender, &shapes, at + 1);
            let own = Recurring { work: service(sender, &shapes[at], blocking), ..messages[at] };
            let once = wait(sender, &shapes[at], blocking);
            let above = &messages[..at];
            Window { once, own, tail: 0, above, interference: &[] }.delay(steps)
        })
        .collect()
}

/// `T_service` of the largest message of `channel` on a host that also sends its best effort: what
/// the paper predicts throughput from (§4.3). In nanoseconds of real time.
pub fn service_time(sender: &Sender, channel: &Channel) -> Duration {
    let blocking = foreign_block(sender, &[], 0);
    Duration::from_nanos(service(sender, &sender.shape_of(channel), blocking))
}

/// The longest first block of a channel from `from` on, or of best effort.
fn foreign_block(sender: &Sender, shapes: &[Shape], from: usize) -> u64 {
    let best_effort = sender.best_effort_shape();
    shapes[from..].iter().chain(&best_effort).map(|shape| shape.first_block).max().unwrap_or(0)
}

/// `L_xmit(S)` as §4 uses it: of a full packet.
fn full_packet(sender: &Sender) -> u64 {
    sender.link.transmission_time(sender.packetisation.packet_bytes()).as_nanos()
}

fn service(sender: &Sender, shape: &Shape, blocking: u64) -> u64 {
    let (cs, full) = (sender.change(), full_packet(sender));
    let (prot, c_link) = (sender.packet(), sender.link_scheduling_cost());
    let more = shape.packets - 1;
    match sender.link_scheduling {
        LinkScheduling::InInterrupt => {
            let preempt = (shape.blocks - 1).saturating_mul(cs);
            let link = shape.packets.saturating_mul(c_link);
            let overlapped = if prot < full {
                shape.transmission()
            } else {
                sum(&[more.saturating_mul(prot), shape.last_packet])
            };
            sum(&[sender.first_packet(), overlapped, link, preempt])
        }
        LinkScheduling::InThread => {
            let per_block = u64::from(sender.packetisation.packets_per_block());
            let block = sum(&[per_block.min(shape.packets).saturating_mul(prot), cs]);
            let link = shape.packets.saturating_mul(sum(&[c_link, cs]));
            let t_a = sum(&[shape.first_block, shape.transmission(), link]);
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
            let interrupts = interrupts.saturating_mul(sender.link_scheduling_cost());
            sum(&[blocking, interrupts, sender.change(), full])
        }
        LinkScheduling::InThread => {
            let cpu = thread_wait(sender, blocking);
            if full <= shape.first_block { cpu } else { cpu.saturating_mul(2) }
        }
    }
}

/// `T_wait^{O2,cpu}`: a foreign block, then the link thread, each with its change.
fn thread_wait(sender: &Sender, blocking: u64) -> u64 {
    sum(&[blocking, sender.change(), sender.change(), sender.link_scheduling_cost()])
}
