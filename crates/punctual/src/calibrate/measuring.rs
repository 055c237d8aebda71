//! Takes burst after burst, and discards and counts the samples that the hypervisor disturbed.

use std::net::SocketAddr;

use punctual_linux::{clock, host};
use punctual_model::host::{
    Absent, ArrivalCost, CacheRefill, Figure, MessageCost, Operation, Percentile, ReceiveCharge,
    Sampled, SendCharge, Spread, SwitchCharge,
};
use punctual_model::{Duration, Service};

use super::burst::{Bench, Kept};
use super::charge::{Charge, Covers};
use super::plan::{Measurement, Plan};
use super::seat::Reason;
use super::{receiving, sending};

/// Short enough that no thread waits long, that little is lost to one theft, and that real-time
/// throttling (95 % of a second) is never reached.
const BURST: Duration = Duration::from_millis(40);
const PAUSE: Duration = Duration::from_millis(4);

/// The number of samples beyond which more add nothing.
const ENOUGH: usize = 400_000;

/// The results of a plan.
pub(super) struct Measured {
    pub(super) figures: Vec<Figure>,
    pub(super) cache_refill: Vec<CacheRefill>,
    /// Empty if `sending` is `None`.
    pub(super) messages: Vec<MessageCost>,
    /// Empty if `receiving` is `None`.
    pub(super) arrivals: Vec<ArrivalCost>,
    pub(super) absent: Vec<Absent>,
    pub(super) switching: Option<SwitchCharge>,
    pub(super) sending: Option<SendCharge>,
    pub(super) receiving: Option<ReceiveCharge>,
}

/// All samples of one measurement.
struct Samples {
    /// A list for each thing measured in turn; each ascending and not empty.
    lists: Vec<(Vec<Duration>, Spread)>,
    /// The number of discarded samples of each list.
    discarded: Vec<u32>,
    stolen: Duration,
}

/// Measures everything in `plan`. `percentile` is charged. `to` is the destination of packets.
/// `progress` is called with the name of the measurement in progress and the time since the
/// beginning.
pub(super) fn run(
    plan: &Plan,
    percentile: Percentile,
    to: Option<SocketAddr>,
    progress: &dyn Fn(&str, Duration),
) -> Measured {
    let mut bench = Bench::here(to);
    let (mut switch, mut refill, mut complete) = (None, None, false);
    let (mut sent, mut received, mut pick) = (Charge::default(), Charge::default(), None);
    let mut measured = Measured {
        figures: Vec::new(),
        cache_refill: Vec::new(),
        messages: Vec::new(),
        arrivals: Vec::new(),
        absent: Vec::new(),
        switching: None,
        sending: None,
        receiving: None,
    };
    let mut done = Duration::ZERO;
    for &(what, length) in &plan.items {
        let name = what.name();
        let report = |spent: Duration| progress(&name, done + spent.min(length));
        report(Duration::ZERO);
        let outcome = samples(&mut bench, what, length, &report);
        done += length;
        let Samples { lists, discarded, stolen } = match outcome {
            Ok(samples) => samples,
            Err(why) => {
                measured.absent.push(Absent { what: what.name(), why: one_line(&why) });
                continue;
            }
        };
        let under = bench.under(what);
        let all = || {
            lists.iter().zip(discarded.iter().copied()).map(|((sorted, spread), discarded)| {
                (sorted, Sampled { under, spread: *spread, discarded, stolen })
            })
        };
        match what {
            Measurement::Operation(operation) => {
                for (sorted, sampled) in all() {
                    measured.figures.push(Figure { operation, sampled });
                    let charged = percentile.of(sorted).map(Duration::as_full_service);
                    switch = better(switch, operation, charged);
                    if operation == Operation::LinkScheduling {
                        pick = charged;
                    }
                }
            }
            Measurement::Refill(working_set) => {
                for (sorted, sampled) in all() {
                    measured.cache_refill.push(CacheRefill { working_set, sampled });
                    // A set that fits a cache can lose more than a larger one that never was in it.
                    // So the largest refill counts, of all sets up to the requested one.
                    if working_set <= plan.working_set {
                        refill = refill.max(percentile.of(sorted).map(Duration::as_full_service));
                    }
                }
                complete |= working_set == plan.working_set;
            }
            Measurement::Messages(packet_bytes) => {
                for ((_, sampled), (packets_per_block, packets)) in all().zip(sending::SHAPES) {
                    let cost = MessageCost { packet_bytes, packets_per_block, packets, sampled };
                    measured.messages.push(cost);
                }
                if packet_bytes <= plan.packet {
                    let sorted: Vec<_> = lists.into_iter().map(|(sorted, _)| sorted).collect();
                    sending::messages(&mut sent, &sorted, percentile);
                    sent.is_complete |= packet_bytes == plan.packet;
                }
            }
            Measurement::Arrivals(packet_bytes) => {
                for ((_, sampled), (framing, packets)) in all().zip(receiving::SHAPES) {
                    let cost = ArrivalCost { packet_bytes, framing, packets, sampled };
                    measured.arrivals.push(cost);
                }
                if packet_bytes <= plan.packet {
                    let sorted: Vec<_> = lists.into_iter().map(|(sorted, _)| sorted).collect();
                    receiving::packets(&mut received, &sorted, percentile);
                    received.is_complete |= packet_bytes == plan.packet;
                }
            }
        }
    }
    measured.switching =
        switch.zip(refill.filter(|_| complete)).map(|((by, switch), cache_refill)| SwitchCharge {
            switch,
            by,
            cache_refill,
            working_set: plan.working_set,
            percentile,
        });
    let (switching, largest_packet) = (measured.switching, plan.packet);
    let covers = |path| Covers { switching, percentile, path, largest_packet };
    match sending::charge(sent, pick, covers(bench.network.name())) {
        Ok(charge) => measured.sending = Some(charge),
        Err(why) => {
            measured.messages.clear();
            measured.absent.push(Absent { what: "sending".into(), why });
        }
    }
    match receiving::charge(received, covers(bench.source.name())) {
        Ok(charge) => measured.receiving = Some(charge),
        Err(why) => {
            measured.arrivals.clear();
            measured.absent.push(Absent { what: "receiving".into(), why });
        }
    }
    measured
}

/// Returns the operation that gives the cost of a switch: a switch between processes if it could be
/// measured, or else a hand-off, which contains two more system calls.
fn better(
    so_far: Option<(Operation, Service)>,
    operation: Operation,
    charged: Option<Service>,
) -> Option<(Operation, Service)> {
    match (operation, so_far) {
        (Operation::ProcessSwitch, _) | (Operation::HandOffSameCpu, None) => {
            charged.map(|charged| (operation, charged)).or(so_far)
        }
        _ => so_far,
    }
}

/// Takes bursts of `what` for `length`, and for as long again if no sample could be kept.
fn samples(
    bench: &mut Bench,
    what: Measurement,
    length: Duration,
    report: &impl Fn(Duration),
) -> Result<Samples, Reason> {
    let mut lists: Vec<Vec<Duration>> = Vec::new();
    let mut discarded: Vec<u32> = Vec::new();
    let (mut stolen, mut bursts) = (Duration::ZERO, 0u64);
    let mut kept = Kept::default();
    let started = clock::now();
    loop {
        let before = host::stolen();
        let burst = bench.burst(what, &mut kept, BURST)?;
        bursts += 1;
        lists.resize_with(burst.len(), Vec::new);
        discarded.resize(burst.len(), 0);
        let theft = before
            .zip(host::stolen())
            .map_or(Duration::ZERO, |(before, after)| after.saturating_sub(before));
        stolen += theft;
        for ((burst, list), discarded) in burst.into_iter().zip(&mut lists).zip(&mut discarded) {
            if theft.is_zero() {
                list.extend(burst);
            } else {
                *discarded += u32::try_from(burst.len()).unwrap_or(u32::MAX);
            }
        }
        // The pause is for everything that could not run on this CPU meanwhile.
        clock::sleep(PAUSE);
        let spent = clock::now() - started;
        report(spent);
        let missing = lists.iter().any(Vec::is_empty);
        let over = if missing { length * 2 } else { length };
        if spent >= over || lists.iter().any(|list| list.len() >= ENOUGH) {
            break;
        }
    }
    let spread = |mut list: Vec<Duration>| {
        list.sort_unstable();
        let spread = Spread::of(&list)?;
        Some((list, spread))
    };
    match lists.into_iter().map(spread).collect() {
        Some(lists) => Ok(Samples { lists, discarded, stolen }),
        None if discarded.iter().any(|discarded| *discarded > 0) => Err(format!(
            "the hypervisor took processor time ({stolen}) during each of {bursts} bursts; measure \
             again when the host is quieter"
        )),
        None => Err(format!("{bursts} bursts gave no sample: the threads never got to run")),
    }
}

/// Shortens a reason for its file, whose lines have at most 512 characters.
fn one_line(why: &str) -> String {
    why.chars().map(|c| if c.is_control() { ' ' } else { c }).take(512).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_between_processes_is_charged_where_it_is_known() {
        let time = |micros| Some(Service::from_micros(micros));
        let (process, hand_off) = (Operation::ProcessSwitch, Operation::HandOffSameCpu);
        let first = better(None, process, time(2));
        assert_eq!(better(first, hand_off, time(5)), Some((process, Service::from_micros(2))));
        let without = better(None, Operation::ThreadSwitch, time(1));
        assert_eq!(without, None);
        assert_eq!(better(without, hand_off, time(5)), Some((hand_off, Service::from_micros(5))));
    }
}
