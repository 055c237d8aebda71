//! Channels: their delays on the CPU that sends and on the link, and what they take of that CPU.
//!
//! One thread sends the messages of all channels, above all tasks and below the reservations
//! ([`crate::channel::egress`]). So reservations delay them, and they delay the tasks. Best effort is sent by the
//! same thread, where no channel has anything to send.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::channel::{Channel, Framing};
use punctual_model::contract::ReceivingChannel;
use punctual_model::{Duration, HostProfile, Reservation};

use super::whole::Whole;
use super::{Failure, Findings};
use crate::channel::egress::Egress;
use crate::channel::processor::Processor;
use crate::channel::{DelayBound, deadline_monotonic};
use crate::knobs::Entry;
use crate::reservation::ReservedLoad;
use crate::steps::Steps;
use crate::verdict::{Resource, Shortfall};

const TEST: &str = "channel-delay";
const RECEIVING: &str = "receiving";
const PROCESSOR: &str = "processor";

/// The bytes of a packet that a peer sends whose own are not known: what a broker takes that is not told otherwise.
const USUAL_PACKET: u32 = 1_420;

/// Whether every channel is certainly in time, and all that comes in can be received.
pub(super) fn fit(whole: &Whole<'_>, host: &HostProfile, steps: &mut Steps) -> bool {
    if receiving_failure(whole, host).is_some() || processor_failure(whole).is_some() {
        return false;
    }
    let channels = &whole.contract().channels;
    channels.is_empty()
        || whole
            .egress
            .is_some_and(|egress| egress.all_in_time(channels, &above(whole, host), steps))
}

fn meets(channel: &Channel, delay: DelayBound) -> bool {
    delay.bound().is_some_and(|bound| bound <= channel.delay_bound())
}

/// The proven delay of each channel; the verdict within `steps`, and what it does not need within `bounds_within`.
pub(super) fn examine(
    whole: &Whole<'_>,
    host: &HostProfile,
    steps: &mut Steps,
    bounds_within: u64,
    findings: &mut Findings,
) -> Vec<DelayBound> {
    let received = receiving(whole).len();
    if received > 0 {
        let why = format!("{} can be received, beneath all else above the tasks", count(received));
        findings.add(RECEIVING, why, receiving_failure(whole, host));
    }
    let channels = &whole.contract().channels;
    if channels.is_empty() {
        if received > 0 {
            examine_processor(whole, findings);
        }
        return Vec::new();
    }
    let delays = delays(whole, host, steps, &mut Steps::new(bounds_within));
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
    examine_processor(whole, findings);
    delays
}

/// Whether the threads of the channels keep to their share, where there is a sender that says what that is.
fn examine_processor(whole: &Whole<'_>, findings: &mut Findings) {
    if let Some(egress) = whole.egress {
        let why = format!("the thread that sends keeps to {}", egress.cpu());
        findings.add(PROCESSOR, why, processor_failure(whole));
    }
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
    let Some(egress) = whole.egress else { return Resource::Costs };
    let (channels, above) = (&whole.contract().channels, above(whole, host));
    let mut fits = |changed: Option<Egress>| {
        changed.is_some_and(|changed| changed.all_in_time(channels, &above, steps))
    };
    // Not infinitely fast: packets would then take no time.
    if [2, 4, 8, 16].into_iter().any(|factor| fits(egress.with_faster_link(factor))) {
        Resource::Link
    } else if fits(egress.with_free_processor()) {
        Resource::Cpu
    } else {
        Resource::CpuAndLink
    }
}

/// The proven delay of each channel, in the order of the contract.
fn delays(
    whole: &Whole<'_>,
    host: &HostProfile,
    steps: &mut Steps,
    for_bounds: &mut Steps,
) -> Vec<DelayBound> {
    let channels = &whole.contract().channels;
    let Some(egress) = whole.egress else { return Vec::new() };
    egress.delays(channels, &above(whole, host), steps, for_bounds)
}

/// What runs above the thread that sends: reservations, the slots of timetables, and the thread that receives.
fn above(whole: &Whole<'_>, host: &HostProfile) -> Vec<ReservedLoad> {
    let mut above = whole.above_channels(host).reservations;
    above.extend(receiving(whole));
    above.extend(interruptions(whole, host));
    above
}

/// What it costs that reservations and slots interrupt the thread that sends: the switch back to it costs what a change
/// of handler does, where that is more than what is charged to them.
fn interruptions(whole: &Whole<'_>, host: &HostProfile) -> Vec<ReservedLoad> {
    let Some(sender) = whole.sender else { return Vec::new() };
    let dearer = sender.costs.change_of_handler().saturating_sub(host.context_switch);
    // No budget is taken up more often than ⌈t/Y⌉ + 2 times in any t.
    let change = |period: Duration, times: u64| {
        let (work, period) = (dearer.as_nanos().saturating_mul(times), period.as_nanos());
        ReservedLoad::arrivals(work, period, period.saturating_mul(2))
    };
    let timetables = &whole.timetables;
    let others = timetables.others(whole.contract()).map(|one| change(one.period(), 1));
    let slots = timetables.on(whole.contract().cpus - 1);
    others.chain(slots.map(|slots| change(slots.taken.period(), slots.count))).collect()
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
    let mut all = whole.above_channels(host);
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

/// Why what is sent and received does not keep to what the thread that sends may take, if it does not.
fn processor_failure(whole: &Whole<'_>) -> Option<Failure> {
    let (contract, timetables) = (whole.contract(), &whole.timetables);
    let slots = timetables.on(contract.cpus - 1).map(|slots| slots.taken);
    let above: Vec<Reservation> = timetables.others(contract).chain(slots).collect();
    let mut processor = Processor::new(whole.egress?, 0, whole.received_packet.unwrap_or_default());
    let failure = |entry, why| {
        let (test, resource, shortfall) = (PROCESSOR, Resource::Cpu, None);
        Some(Failure { test, resource, entry: Some(entry), shortfall, why })
    };
    for (at, channel) in contract.channels.iter().enumerate() {
        if let Err(why) = processor.add(channel, &above) {
            return failure(whole.channel(at), why);
        }
    }
    for (at, channel) in contract.receiving.iter().enumerate() {
        if let Some(arrivals) = channel.arrivals()
            && let Err(why) = processor.add_receiving(arrivals, &above)
        {
            return failure(Entry::Receiving(at), why);
        }
    }
    None
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

/// What the channels take of their CPU, as seen by the tasks there: each packet with the switch back to what it
/// interrupted, of the dearer kind, what it costs that others interrupt them, and what comes in ([`receiving`]).
pub(super) fn load(whole: &Whole<'_>, host: &HostProfile) -> Vec<ReservedLoad> {
    let mut load = receiving(whole);
    let (Some(sender), Some(egress)) = (whole.sender, whole.egress) else { return load };
    let back = sender.costs.change_of_handler().max(host.context_switch);
    let taken = egress.takes(&whole.contract().channels, sender.best_effort, back);
    if !taken.is_empty() {
        load.extend(interruptions(whole, host));
        load.extend(taken);
    }
    load
}
