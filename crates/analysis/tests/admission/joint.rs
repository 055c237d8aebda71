//! CPUs, link and buffers as one decision: the scarce resource is named, and the offers are
//! admitted.

use crate::common::{TICK, Ticks, contract, plain};
use punctual_analysis::{Axis, EntryKind, Refusal, Resource, Shortfall, admit};
use punctual_model::channel::{
    BestEffort, Channel, LinearBounded, Link, Packetisation, SendCosts, SenderSpec, Traffic,
};
use punctual_model::contract::ReceivingChannel;
use punctual_model::host::ReceiveCosts;
use punctual_model::{Contract, Duration, HostProfile, Policy, Service};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const KIB: u32 = 1024;

/// The sender of real-time channels, §5, with a processor ten times as fast and a link of
/// `nanos_per_byte`.
fn sender(nanos_per_byte: u64) -> SenderSpec {
    let us = Service::from_micros;
    SenderSpec {
        link: Link::new(Duration::from_micros(40), nanos_per_byte).expect("valid"),
        costs: Some(SendCosts {
            switch: us(5),
            cache: us(9),
            first_packet: us(42),
            packet: us(17),
            link_scheduling: us(4),
        }),
        packetisation: Packetisation::new(4 * KIB, 1).expect("valid"),
        cpu: None,
        allowance: SenderSpec::USUAL_ALLOWANCE,
        best_effort: BestEffort::up_to(32 * KIB),
        memory: None,
    }
}

fn channel(name: &str, bytes: u32, period_ms: u64, delay_ms: u64) -> Channel {
    let period = Duration::from_millis(period_ms);
    let arrivals = LinearBounded::fixed(bytes, period, 1).expect("valid");
    Channel::new(name, &Traffic::Bounded(arrivals), Duration::from_millis(delay_ms)).expect("valid")
}

fn with_channels(tasks: &[(u64, u64)], sender: SenderSpec, channels: Vec<Channel>) -> Contract {
    Contract { sender: Some(sender), channels, ..contract(Policy::Rm, 1, &plain(tasks), &[]) }
}

fn refused(contract: &Contract) -> Box<Refusal> {
    admit(contract, &HostProfile::ideal(1)).expect_err("must be refused")
}

fn each_offer_is_admitted(contract: &Contract, refusal: &Refusal) {
    assert!(!refusal.offers.is_empty(), "{refusal}");
    for offer in &refusal.offers {
        let changed = offer.taken(contract).expect("the offer makes a valid contract");
        assert!(admit(&changed, &HostProfile::ideal(1)).is_ok(), "{offer:?}");
    }
}

#[test]
fn channels_delay_tasks_and_reservations_delay_channels() {
    let film = || vec![channel("film", 32 * KIB, 100, 100)];
    let sender = SenderSpec { best_effort: BestEffort::None, ..sender(50) };
    let alone = admit(&with_channels(&[(30, 200)], sender, vec![]), &HostProfile::ideal(1));
    let both = with_channels(&[(30, 200)], sender, film());
    let grant = admit(&both, &HostProfile::ideal(1)).expect("light");
    let bound = grant.tasks[0].response_time_bound;
    // Eight packets, each with a change back, of the current message and of one a delay bound
    // earlier, and a look at a ring.
    let packets = 2 * 8 * (60 + 14) + 1;
    let own = 30 * TICK / 1_000;
    let alone = alone.expect("lighter").tasks[0].response_time_bound;
    assert!(alone < bound);
    assert_eq!(bound, Duration::from_micros(own + packets));

    let reserved = Contract {
        reservations: contract(Policy::Rm, 1, &[], &[(20, 100)]).reservations,
        ..both.clone()
    };
    let beneath = admit(&reserved, &HostProfile::ideal(1)).expect("still light");
    assert!(beneath.channels[0].proven_delay > grant.channels[0].proven_delay);
}

#[test]
fn the_binding_resource_is_named() {
    let channels = |count: u32| {
        (0..count).map(|at| channel(&format!("c{at}"), 32 * KIB, 100, 400)).collect::<Vec<_>>()
    };
    // A message takes 10.15 ms of the link, so ten of them take more than 100 ms.
    let slow_link = with_channels(&[], sender(300), channels(10));
    let refusal = refused(&slow_link);
    assert_eq!((refusal.test, refusal.resource), ("channel-delay", Resource::Link));

    let mut slow_cpu = with_channels(&[], sender(1), channels(100));
    let refusal = refused(&slow_cpu);
    assert_eq!((refusal.test, refusal.resource), ("channel-delay", Resource::Cpu));
    let packets = refusal.offers.iter().find(|offer| offer.axis == Axis::Packet);
    assert!(packets.is_some_and(|offer| offer.to > offer.from), "fewer packets: {refusal}");
    each_offer_is_admitted(&slow_cpu, &refusal);

    slow_cpu.sender = Some(sender(300));
    assert_eq!(refused(&slow_cpu).resource, Resource::CpuAndLink);
}

#[test]
fn a_task_beside_channels_is_refused_for_want_of_processor_time() {
    // The thread takes up to 45 % of the CPU.
    let channels = vec![channel("audio", 32 * KIB, 10, 10)];
    let both = with_channels(&[(80, 100)], sender(50), channels);
    let refusal = refused(&both);
    assert_eq!((refusal.test, refusal.resource), ("response-time", Resource::Cpu));
    assert!(refusal.offers.along("t0", Axis::Wcet).is_some(), "{refusal}");
    each_offer_is_admitted(&both, &refusal);
}

#[test]
fn messages_must_fit_the_memory() {
    // One message in its 100 ms, and one that begins just as it ends: two of 32 KiB.
    let memory = |bytes| SenderSpec { memory: Some(bytes), ..sender(50) };
    let film = || vec![channel("film", 32 * KIB, 100, 100)];
    let enough = with_channels(&[], memory(64 * 1024), film());
    let grant = admit(&enough, &HostProfile::ideal(1)).expect("just enough");
    assert_eq!(grant.channels[0].buffer, 64 * 1024);
    let small = with_channels(&[], memory(64 * 1024 - 1), film());
    let refusal = refused(&small);
    assert_eq!((refusal.test, refusal.resource), ("buffers", Resource::Buffers));
    assert_eq!(refusal.shortfall, Some(Shortfall::Bytes(1)));
    let memory = refusal.offers.iter().find(|offer| offer.kind == EntryKind::Sending);
    assert_eq!(memory.map(|offer| (offer.axis, offer.to)), Some((Axis::Memory, 64 * 1024)));
    each_offer_is_admitted(&small, &refusal);
}

#[test]
fn without_costs_nothing_is_promised() {
    let unknown = SenderSpec { costs: None, ..sender(50) };
    let contract = with_channels(&[], unknown, vec![channel("film", KIB, 100, 100)]);
    let refusal = refused(&contract);
    assert_eq!((refusal.test, refusal.resource), ("send-costs", Resource::Costs));
    let host = HostProfile { send_costs: sender(50).costs, ..HostProfile::ideal(1) };
    assert!(admit(&contract, &host).is_ok());
}

fn receiving(name: &str, bytes: u32, spacing: Duration) -> ReceivingChannel {
    let traffic = Traffic::Bounded(LinearBounded::fixed(bytes, spacing, 2).expect("valid"));
    let delay_bound = Some(Duration::from_millis(100));
    ReceivingChannel { name: name.into(), traffic, delay_bound }
}

/// A regression: a million messages a second beside a task of 9.99 ms every 10 ms.
#[test]
fn receiving_takes_processor_time() {
    let micros = Service::from_micros;
    let costs = ReceiveCosts {
        switch: micros(1),
        cache: micros(1),
        first_packet: micros(8),
        packet: micros(2),
    };
    let host = HostProfile { receive_costs: Some(costs), ..HostProfile::ideal(1) };
    let flood = receiving("flood", 100, Duration::from_micros(1));
    let alone = Contract { receiving: vec![flood], ..contract(Policy::Rm, 1, &[], &[]) };
    let refusal = admit(&alone, &host).expect_err("ten CPUs");
    assert_eq!((refusal.test, refusal.resource), ("receiving", Resource::Cpu), "{refusal}");

    // 10 us a packet, one a millisecond and two at once: a hundredth of the CPU.
    let voice = receiving("voice", 100, Duration::from_millis(1));
    let with = |wcet| Contract {
        receiving: vec![voice.clone()],
        ..contract(Policy::Rm, 1, &plain(&[(wcet, 1_000)]), &[])
    };
    let grant = admit(&with(900), &host).expect("there is room");
    let own = 900 * TICK / 1_000;
    // The window is the task's own time, the arrivals in it, and two earlier ones.
    let bound = grant.tasks[0].response_time_bound;
    assert!(bound > Duration::from_micros(own + own / 100), "{bound}");
    let refusal = admit(&with(999), &host).expect_err("991 of 1,000 fit at most");
    assert_eq!((refusal.test, refusal.resource), ("response-time", Resource::Cpu), "{refusal}");
}

/// Incoming messages count against the share of the channels' threads even if nothing is sent.
#[test]
fn receiving_stays_within_the_share_of_the_threads() {
    // 60 us every 100 us, on a CPU of which the threads may take half.
    let flood = receiving("flood", 100, Duration::from_micros(100));
    let contract = Contract {
        receiving: vec![flood],
        sender: Some(SenderSpec { best_effort: BestEffort::None, ..sender(50) }),
        ..contract(Policy::Rm, 1, &[], &[])
    };
    let refusal = refused(&contract);
    assert_eq!((refusal.test, refusal.resource), ("processor", Resource::Cpu), "{refusal}");
}

#[test]
fn without_costs_nothing_is_received_on_a_promise() {
    let voice = receiving("voice", 100, Duration::from_millis(20));
    let mut receives = Contract { receiving: vec![voice], ..contract(Policy::Rm, 1, &[], &[]) };
    let refusal = refused(&receives);
    assert_eq!((refusal.test, refusal.resource), ("receive-costs", Resource::Costs), "{refusal}");
    // The cost is that of sending, if it is known.
    receives.sender = Some(sender(50));
    assert!(admit(&receives, &HostProfile::ideal(1)).is_ok());
    // The sender of this channel has no promise.
    receives.sender = None;
    receives.receiving[0].delay_bound = None;
    assert!(admit(&receives, &HostProfile::ideal(1)).is_ok());
}

/// A CPU without tasks has no late one, even if the load above the tasks is too much.
#[test]
fn a_cpu_without_tasks_is_answered_under_every_policy() {
    for (_, policy) in Policy::NAMES {
        // Almost all of the sending CPU, twice: by the channels, and with the reservation.
        let channels = vec![channel("a", 32 * KIB, 1, 400), channel("b", 32 * KIB, 1, 400)];
        let mut both = with_channels(&[(1, 100)], sender(0), channels);
        both = Contract { policy, cpus: 2, ..both };
        both.reservations = contract(policy, 1, &[], &[(80, 100)]).reservations;
        let refusal = admit(&both, &HostProfile::ideal(2)).expect_err("far too much");
        assert_eq!(refusal.test, "channel-delay", "{refusal}");
    }
}

/// A reservation that interrupts handlers costs them a change, which delays the tasks too.
#[test]
fn reservations_that_interrupt_handlers_cost_tasks_a_change() {
    let bound = |channels: Vec<Channel>| {
        let sender = SenderSpec { best_effort: BestEffort::None, ..sender(50) };
        let mut all = with_channels(&[(30, 200)], sender, channels);
        all.reservations = contract(Policy::Rm, 1, &[], &[(2, 50)]).reservations;
        let grant = admit(&all, &HostProfile::ideal(1)).expect("light");
        grant.tasks[0].response_time_bound
    };
    let alone = bound(vec![]);
    let beside = bound(vec![channel("film", 32 * KIB, 100, 100)]);
    // The thread's load, and a change for each of three budgets in a window of a period.
    let packets = 2 * 8 * (60 + 14);
    let changes = 3 * 14;
    assert!(beside >= alone + Duration::from_micros(packets + changes), "{alone} {beside}");
}

/// Every partition of small systems, tried one by one, against admission.
#[test]
fn a_partition_is_found_if_there_is_one() {
    let mut rng = ChaCha8Rng::seed_from_u64(31);
    let host = HostProfile::ideal(4);
    let (mut admitted, mut refused, mut by_search) = (0, 0, 0);
    for round in 0..1_500 {
        let policy = [Policy::Rm, Policy::Edf, Policy::Rmdp][round % 3];
        let cpus = rng.random_range(2..=3u16);
        let count = 2 * usize::from(cpus) + rng.random_range(0..=1);
        let system: Vec<Ticks> = (0..count)
            .map(|_| {
                let period = rng.random_range(4..=20);
                let wcet = rng.random_range(period / 5..=period * 7 / 10).max(1);
                let quantum =
                    if policy == Policy::Rmdp { rng.random_range(0..=wcet / 2) } else { 0 };
                Ticks { quantum, ..Ticks::plain(wcet, period) }
            })
            .collect();
        let answer = admit(&contract(policy, cpus, &system, &[]), &host);
        let exists = some_partition_fits(policy, &system, cpus.into());
        assert_eq!(answer.is_ok(), exists, "round {round}: {system:?} on {cpus}");
        match answer {
            Ok(grant) => {
                admitted += 1;
                let why = &grant.tests.last().expect("a test").why;
                by_search += usize::from(why.contains("every partition"));
            }
            Err(refusal) => {
                refused += 1;
                assert!(refusal.why.contains("in any partition"), "{refusal}");
            }
        }
    }
    assert!(admitted > 200 && refused > 200, "{admitted} {refused}");
    assert!(by_search > 0, "{by_search} were placed by search alone");
}

fn some_partition_fits(policy: Policy, system: &[Ticks], cpus: usize) -> bool {
    let fits = |tasks: &[Ticks]| {
        tasks.is_empty() || admit(&contract(policy, 1, tasks, &[]), &HostProfile::ideal(1)).is_ok()
    };
    (0..cpus.pow(system.len() as u32)).any(|code| {
        (0..cpus).all(|cpu| {
            let here = |at: &usize| code / cpus.pow(*at as u32) % cpus == cpu;
            let tasks: Vec<Ticks> = (0..system.len()).filter(here).map(|at| system[at]).collect();
            // A quick refusal, to make the test fast.
            let share: f64 = tasks.iter().map(|t| t.wcet as f64 / t.period as f64).sum();
            share < 1.000_001 && fits(&tasks)
        })
    })
}
