//! Channels: their delays on the CPU that sends and on the link, and what they take of that CPU.
//!
//! The handlers of all channels run above all tasks, in one thread or a few at one priority, and
//! below the reservations. So reservations delay them, and they delay the tasks of their CPU.
//! Best-effort messages are handled below all tasks, but a block of one that has begun is finished
//! first; and only so much best effort is made as one block while the link has not sent it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::channel::{BestEffort, Channel, Framing, LinkScheduling, SendCosts, Sender};
use punctual_model::contract::ReceivingChannel;
use punctual_model::{Duration, HostProfile, Service};

use super::whole::Whole;
use super::{Failure, Findings};
use crate::channel::sound;
use crate::channel::{DelayBound, Interference, deadline_monotonic};
use crate::reservation::ReservedLoad;
use crate::steps::Steps;
use crate::verdict::{Resource, Shortfall};

const TEST: &str = "channel-delay";
const RECEIVING: &str = "receiving";

/// The bytes of a packet that a peer sends whose own are not known: what a broker takes that is not told otherwise.
const USUAL_PACKET: u32 = 1_420;

/// Whether every channel is certainly in time, and all that comes in can be received.
pub(super) fn fit(whole: &Whole<'_>, host: &HostProfile, steps: &mut Steps) -> bool {
    if receiving_failure(whole, host).is_some() {
        return false;
    }
    let delays = delays(whole, whole.sender, host, steps);
    whole.contract().channels.iter().zip(delays).all(|(channel, delay)| meets(channel, delay))
}

fn meets(channel: &Channel, delay: DelayBound) -> bool {
    delay.bound().is_some_and(|bound| bound <= channel.delay_bound())
}

/// The proven delay of each channel.
pub(super) fn examine(
    whole: &Whole<'_>,
    host: &HostProfile,
    steps: &mut Steps,
    findings: &mut Findings,
) -> Vec<DelayBound> {
    let received = receiving(whole).len();
    if received > 0 {
        let why = format!("{} can be received, beneath all else above the tasks", count(received));
        findings.add(RECEIVING, why, receiving_failure(whole, host));
    }
    let channels = &whole.contract().channels;
    if channels.is_empty() {
        return Vec::new();
    }
    let delays = delays(whole, whole.sender, host, steps);
    // The most urgent that is late: those below it may be late because of it.
    let late = deadline_monotonic(channels)
        .into_iter()
        .find(|&at| !meets(&channels[at], delays[at]))
        .map(|at| {
            let (shortfall, why) = lateness(&channels[at], delays[at]);
            Failure {
                test: TEST,
                resource: binding(whole, host, steps),
                entry: Some(whole.channel(at)),
                shortfall: shortfall.map(Shortfall::Time),
                why,
            }
        });
    let slacks = channels.iter().zip(&delays).filter_map(|(channel, delay)| {
        Some((channel.delay_bound().saturating_sub(delay.bound()?), channel.name()))
    });
    let least = slacks.min_by_key(|found| found.0).map_or_else(String::new, |(slack, name)| {
        format!("; least slack {slack}, of channel \"{name}\"")
    });
    let why = format!("every message of {} is sent in time{least}", count(channels.len()));
    findings.add(TEST, why, late);
    delays
}

fn count(channels: usize) -> String {
    if channels == 1 { "1 channel".into() } else { format!("{channels} channels") }
}

fn lateness(channel: &Channel, delay: DelayBound) -> (Option<Duration>, String) {
    let (name, asked) = (channel.name(), channel.delay_bound());
    match delay {
        DelayBound::AtMost(bound) => {
            let excess = bound.saturating_sub(asked);
            let why = format!(
                "channel \"{name}\" may take {bound}, which is {excess} longer than its delay \
                 bound of {asked}"
            );
            (Some(excess), why)
        }
        DelayBound::Unbounded => {
            let why = format!(
                "no delay can be proven for channel \"{name}\": it and those above it ask for more than \
                 processor and link can do"
            );
            (None, why)
        }
        DelayBound::Undecided => {
            (None, format!("channel \"{name}\" was not decided within the bound on the analysis"))
        }
    }
}

/// The one resource of which more alone would make the channels fit: a link up to 16 times as
/// fast, or a processor that costs nothing.
fn binding(whole: &Whole<'_>, host: &HostProfile, steps: &mut Steps) -> Resource {
    let Some(sender) = whole.sender else { return Resource::Costs };
    let mut fits = |changed: Sender| {
        let delays = delays(whole, Some(changed), host, steps);
        whole.contract().channels.iter().zip(delays).all(|(channel, delay)| meets(channel, delay))
    };
    let free = SendCosts {
        switch: Service::ZERO,
        cache: Service::ZERO,
        first_packet: Service::ZERO,
        packet: Service::ZERO,
        link_scheduling: Service::ZERO,
    };
    // Not infinitely fast: link interrupts would then be as frequent as they like.
    let faster = [2, 4, 8, 16].map(|factor| sender.link.times_as_fast(factor));
    if faster.into_iter().any(|link| fits(Sender { link, ..sender })) {
        Resource::Link
    } else if fits(Sender { costs: free, ..sender }) {
        Resource::Cpu
    } else {
        Resource::CpuAndLink
    }
}

/// The proven delay of each channel, in the order of the contract.
fn delays(
    whole: &Whole<'_>,
    sender: Option<Sender>,
    host: &HostProfile,
    steps: &mut Steps,
) -> Vec<DelayBound> {
    let channels = &whole.contract().channels;
    let Some(sender) = sender.filter(|_| !channels.is_empty()) else { return Vec::new() };
    let order = deadline_monotonic(channels);
    let ranked: Vec<Channel> = order.iter().map(|&at| channels[at].clone()).collect();
    let change = sender.costs.change_of_handler();
    let received = receiving(whole);
    let above: Vec<Interference> = whole
        .above_handlers(host)
        .reservations
        .iter()
        .chain(&received)
        .map(|reservation| reservation.as_arrivals(change))
        .collect();
    let mut delays = Vec::from_iter(channels.iter().map(|_| DelayBound::Undecided));
    let found = sound::delays_beneath(&sender, &ranked, &above, steps);
    for (at, delay) in order.into_iter().zip(found) {
        delays[at] = delay;
    }
    delays
}

/// The place of each channel among all, 0 the most urgent.
pub(crate) fn rank_of_each(channels: &[Channel]) -> Vec<u32> {
    let mut ranks = alloc::vec![0; channels.len()];
    for (rank, at) in (0..).zip(deadline_monotonic(channels)) {
        ranks[at] = rank;
    }
    ranks
}

/// Whether all that comes in can be received, beneath the reservations and beside what is sent.
pub(super) fn receiving_failure(whole: &Whole<'_>, host: &HostProfile) -> Option<Failure> {
    let received = receiving(whole);
    let mut all = whole.above_handlers(host);
    all.reservations.extend(load(whole, host));
    let needed = all.reserved();
    if received.is_empty() || needed.is_at_most_one() {
        return None;
    }
    let why = format!(
        "reservations, what is sent and what channels receive need {} of the CPU together; a packet that comes \
         in costs {}",
        needed.above(),
        whole.received_packet.unwrap_or_default(),
    );
    Some(Failure { test: RECEIVING, resource: Resource::Cpu, entry: None, shortfall: None, why })
}

/// What receiving takes of the CPU of the channels: of each one whose sender was promised something a message each
/// spacing and a burst at once, by its policer's leave; each packet is one for which the thread wakes up.
fn receiving(whole: &Whole<'_>) -> Vec<ReservedLoad> {
    let Some(per_packet) = whole.received_packet else { return Vec::new() };
    let contract = whole.contract();
    let cut = whole.sender.map_or(USUAL_PACKET, |sender| sender.packetisation.packet_bytes());
    let of = |channel: &ReceivingChannel| {
        let arrivals = channel.arrivals()?;
        let route = contract.routes.iter().find(|route| route.channel == channel.name);
        let packets = match route.map(|route| route.framing) {
            Some(Framing::Datagram) => 1,
            _ => u64::from(arrivals.max_message().div_ceil(cut)),
        };
        let every = arrivals.min_inter_arrival().as_nanos();
        let burst = every.saturating_mul(arrivals.max_burst().into());
        let work = per_packet.as_nanos().saturating_mul(packets);
        Some(ReservedLoad::arrivals(work, every, burst))
    };
    contract.receiving.iter().filter_map(of).collect()
}

/// What the channels take of their CPU, as seen by the tasks there.
///
/// Each message is charged its packets, a change of handler when it begins and one back to what it
/// interrupted: nothing else makes handlers change. Its packets are handed to the link up to the
/// delay bound later, each at `C_link`, with O2 also a change to the link thread and one back. A
/// reservation may interrupt handlers: then its switch back costs what a change of handler does,
/// where that is more. What comes in is there too ([`receiving`]).
pub(super) fn load(whole: &Whole<'_>, host: &HostProfile) -> Vec<ReservedLoad> {
    let mut load = receiving(whole);
    let Some(sender) = whole.sender else { return load };
    let channels = &whole.contract().channels;
    load.extend(channels.iter().flat_map(|channel| {
        let arrivals = channel.arrivals();
        let period = arrivals.min_inter_arrival().as_nanos();
        let packets = u64::from(sender.packetisation.packets_of(arrivals.max_message()));
        let sent_until = channel.delay_bound().as_nanos();
        let made = ReservedLoad::arrivals(making(&sender, packets), period, 0);
        let handed = ReservedLoad::arrivals(handing(&sender, packets), period, sent_until);
        [made, handed]
    }));
    if !channels.is_empty() || sender.best_effort != BestEffort::None {
        // No budget is taken up more often than ⌈t/Y⌉ + 2 times in any t.
        let dearer = sender.costs.change_of_handler().saturating_sub(host.context_switch);
        let change = |period: Duration, times: u64| {
            let (work, period) = (dearer.as_nanos().saturating_mul(times), period.as_nanos());
            ReservedLoad::arrivals(work, period, period.saturating_mul(2))
        };
        let timetables = &whole.timetables;
        load.extend(timetables.others(whole.contract()).map(|one| change(one.period(), 1)));
        let slots = timetables.on(whole.contract().cpus - 1);
        load.extend(slots.map(|slots| change(slots.taken.period(), slots.count)));
    }
    let Some(largest) = sender.best_effort.most() else { return load };
    let cut = sender.packetisation;
    let block = u64::from(cut.packets_of(largest).min(cut.packets_per_block()));
    // A block in the middle of a message has no first packet.
    let dearest = sender.costs.first_packet.max(sender.costs.packet);
    let costs = SendCosts { first_packet: dearest, ..sender.costs };
    let made = making(&Sender { costs, ..sender }, block);
    load.push(ReservedLoad::once(made.saturating_add(handing(&sender, block))));
    load
}

/// A message's packets and its two changes of handler.
fn making(sender: &Sender, packets: u64) -> u64 {
    let costs = sender.costs;
    let further = costs.packet.as_nanos().saturating_mul(packets - 1);
    let changes = costs.change_of_handler().as_nanos().saturating_mul(2);
    costs.first_packet.as_nanos().saturating_add(further).saturating_add(changes)
}

/// Handing so many packets to the link.
fn handing(sender: &Sender, packets: u64) -> u64 {
    let costs = sender.costs;
    let changes = match sender.link_scheduling {
        LinkScheduling::InInterrupt => 0,
        LinkScheduling::InThread => costs.change_of_handler().as_nanos().saturating_mul(2),
    };
    costs.link_scheduling.as_nanos().saturating_add(changes).saturating_mul(packets)
}
