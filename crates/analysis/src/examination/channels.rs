//! Channels: their delays on the sending CPU and the link, and their load on that CPU.
//!
//! One thread sends the messages of all channels, above all tasks and below the reservations
//! ([`crate::channel::egress`]). So reservations delay the channels, and the channels delay the
//! tasks. The thread may do so on any CPU, because the channels' threads are not pinned, so the
//! tasks of each CPU are proven beneath the load of all channels. The same thread sends best effort
//! when no channel has a message to send.
//!
//! The delay of the threads themselves is computed as on the last CPU. They are delayed no more
//! elsewhere: they wait only while all CPUs have more urgent work, including the last.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::Service;
use punctual_model::channel::{Channel, ReadLimit};

use super::expanded::Expanded;
use super::{Failure, Findings};
use crate::channel::{DelayBound, channel_named, deadline_monotonic, late};
use crate::entry::Entry;
use crate::ratio::Utilisation;
use crate::reservation::ReservedLoad;
use crate::steps::Steps;
use crate::system::{Carrier, PROCESSOR, Request, System};
use crate::verdict::{Refusal, Resource};

const RECEIVING: &str = "receiving";

/// Enters all channels of `whole`, and their load on the tasks of each CPU, whether they are in
/// time or not.
pub(super) fn enter(
    whole: &Expanded<'_>,
    system: &mut System<Entry>,
    steps: &mut Steps,
) -> Option<Failure> {
    let contract = whole.contract();
    let last = contract.cpus - 1;
    if let (Some(sender), Some(egress)) = (whole.sender, whole.egress) {
        system.carry_with_nothing_set_aside(Carrier {
            egress,
            change: sender.costs.change_of_handler(),
            cpu: system.number_of(last),
            link: None,
            headers: 0,
            best_effort_ppm: 0,
            received_packet: whole.received_packet.unwrap_or_default(),
        });
    }
    let failure = enter_each(whole, system, steps).or_else(|| receiving_failure(whole, system));
    let load = load(whole, system);
    (0..contract.cpus).for_each(|cpu| system.put_above_tasks_of(cpu, &load));
    failure
}

fn enter_each(
    whole: &Expanded<'_>,
    system: &mut System<Entry>,
    steps: &mut Steps,
) -> Option<Failure> {
    let (contract, egress) = (whole.contract(), whole.egress?);
    let failure = |entry, refusal: Refusal| {
        let Refusal { test, resource, shortfall, why, .. } = refusal;
        Some(Failure { test, resource, entry, shortfall, why })
    };
    let names = (0..contract.channels.len()).map(Entry::Channel);
    if !contract.channels.is_empty()
        && let Err((at, refusal)) = system.send_all(names, &contract.channels, steps)
    {
        let refusal = match refusal.test {
            // Trials with a free processor and with a faster link show which of the two is short.
            late::TEST => {
                let above = above(whole, system);
                late::brief(late::binding(egress, &contract.channels, &above, steps))
            }
            _ => *refusal,
        };
        return failure(at.map(|at| whole.channel(at)), refusal);
    }
    contract.receiving.iter().enumerate().find_map(|(at, channel)| {
        let (entry, request) =
            (Entry::Receiving(at), Request::Receiving(contract.read_limit(channel)?));
        let refused = system.admit(entry, request, steps).err()?;
        failure(Some(entry), *refused)
    })
}

/// Reports the tests of the entered channels, with the `failure`, and returns the proven delay of
/// each channel. Delays that the verdict does not need are found within `bounds_within`.
pub(super) fn report(
    whole: &Expanded<'_>,
    system: &System<Entry>,
    mut failure: Option<Failure>,
    steps: &mut Steps,
    bounds_within: u64,
    findings: &mut Findings,
) -> Vec<DelayBound> {
    let mut failed = |test: &str| failure.take_if(|failure| failure.test == test);
    let received = receiving(whole, system).len();
    if received > 0 {
        let why = format!("{} can be received, beneath all else above the tasks", count(received));
        findings.add(RECEIVING, why, failed(RECEIVING));
    }
    let Some(egress) = whole.egress else {
        failure.into_iter().for_each(|failure| findings.fail(failure));
        return Vec::new();
    };
    let channels = &whole.contract().channels;
    let mut delays = Vec::new();
    if !channels.is_empty() {
        delays =
            egress.delays(channels, &above(whole, system), steps, &mut Steps::new(bounds_within));
        findings.add(
            late::TEST,
            in_time(channels, &delays),
            failed(late::TEST).map(|failure| {
                let Some(at) = late::most_urgent(channels, &delays) else { return failure };
                let (who, asked) = (channel_named(&channels[at]), channels[at].delay_bound());
                let refusal = late::refusal(&who, asked, delays[at], failure.resource);
                let Refusal { shortfall, why, .. } = refusal;
                Failure { entry: Some(whole.channel(at)), shortfall, why, ..failure }
            }),
        );
    }
    if received > 0 || !channels.is_empty() {
        let why = format!("the thread that sends keeps to {}", egress.cpu());
        findings.add(PROCESSOR, why, failed(PROCESSOR));
    }
    // A failure of any other test is reported too: a missing row must not admit.
    failure.into_iter().for_each(|failure| findings.fail(failure));
    delays
}

fn in_time(channels: &[Channel], delays: &[DelayBound]) -> String {
    let slacks = channels.iter().zip(delays).filter_map(|(channel, delay)| {
        Some((channel.delay_bound().saturating_sub(delay.bound()?), channel.name()))
    });
    let least = slacks.min_by_key(|found| found.0).map_or_else(String::new, |(slack, name)| {
        format!("; least slack {slack}, of channel \"{name}\"")
    });
    format!("every message of {} is sent in time{least}", count(channels.len()))
}

fn count(channels: usize) -> String {
    if channels == 1 { "1 channel".into() } else { format!("{channels} channels") }
}

/// Returns the load above the sending thread, including the cost of its interruptions.
fn above(whole: &Expanded<'_>, system: &System<Entry>) -> Vec<ReservedLoad> {
    let change = whole.sender.map_or(Service::ZERO, |sender| sender.costs.change_of_handler());
    system.above_carrier().loads(change)
}

/// Returns the rank of each channel among all; 0 is the most urgent.
pub(crate) fn rank_of_each(channels: &[Channel]) -> Vec<u32> {
    let mut ranks = alloc::vec![0; channels.len()];
    for (rank, at) in (0..).zip(deadline_monotonic(channels)) {
        ranks[at] = rank;
    }
    ranks
}

/// Returns a failure if the incoming messages cannot be received beneath the reservations and
/// beside the sending.
fn receiving_failure(whole: &Expanded<'_>, system: &System<Entry>) -> Option<Failure> {
    let received = receiving(whole, system);
    let above = system.above_tasks(whole.contract().cpus - 1);
    let mut needed = Utilisation::ZERO;
    above.iter().chain(&load(whole, system)).for_each(|load| load.add_to(&mut needed));
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

/// Returns the load of receiving on the channels' CPU: the datagrams that the receiver reads at
/// most of each channel with a promise to its sender. The thread may wake up for each of them, and
/// switch back to the interrupted thread.
fn receiving(whole: &Expanded<'_>, system: &System<Entry>) -> Vec<ReservedLoad> {
    let Some(per_packet) = whole.received_packet else { return Vec::new() };
    let work = per_packet.saturating_add(switch_back(whole, system)).as_nanos();
    let contract = whole.contract();
    let limits = contract.receiving.iter().filter_map(|channel| contract.read_limit(channel));
    let load = |limit: ReadLimit| {
        let (every, early) = (limit.spacing().as_nanos(), limit.tolerance().as_nanos());
        ReservedLoad::arrivals(work, every, early)
    };
    limits.map(load).collect()
}

/// Returns the cost of a switch from a thread of the channels back to the one that it interrupted:
/// the dearer kind.
fn switch_back(whole: &Expanded<'_>, system: &System<Entry>) -> Service {
    let change = whole.sender.map_or(Service::ZERO, |sender| sender.costs.change_of_handler());
    change.max(system.host().context_switch)
}

/// Returns the load of the channels on their CPU, as seen by the tasks there: each packet with the
/// switch back to the interrupted thread, the interruptions by threads above, and the incoming
/// messages ([`receiving`]).
fn load(whole: &Expanded<'_>, system: &System<Entry>) -> Vec<ReservedLoad> {
    let mut load = receiving(whole, system);
    let (Some(sender), Some(egress)) = (whole.sender, whole.egress) else { return load };
    let change = sender.costs.change_of_handler();
    let back = switch_back(whole, system);
    let taken = egress.takes(&whole.contract().channels, sender.best_effort, back);
    if !taken.is_empty() {
        load.extend(system.above_carrier().interruptions(change));
        load.extend(taken);
    }
    load
}
