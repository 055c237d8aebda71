//! Draws contracts with tasks, channels and reservations on one CPU.

use punctual_model::channel::{
    BestEffort, Channel, LinearBounded, Link, Packetisation, SendCosts, SenderSpec,
};
use punctual_model::contract::NamedReservation;
use punctual_model::{
    Contract, Duration, HostProfile, Policy, Reservation, Service, Stream, StreamClass, StreamSpec,
    Task, TaskSpec,
};
use rand::{Rng, RngExt};

use crate::draw::{self, Kind, POLICIES};

fn micros(rng: &mut impl Rng, from: u64, to: u64) -> Service {
    Service::from_micros(rng.random_range(from..=to))
}

/// Draws a sender: links from faster to slower than the processor, blocks of one to four packets.
pub(super) fn sender(rng: &mut impl Rng) -> SenderSpec {
    let startup = Duration::from_micros(rng.random_range(5..=60));
    let spec = SenderSpec {
        link: Link::new(startup, rng.random_range(0..=100)).expect("valid"),
        costs: Some(SendCosts {
            switch: micros(rng, 0, 40),
            cache: micros(rng, 0, 60),
            first_packet: micros(rng, 10, 300),
            packet: micros(rng, 10, 300),
            link_scheduling: micros(rng, 0, 60),
        }),
        packetisation: Packetisation::new(1024 * rng.random_range(1..=8), rng.random_range(1..=4))
            .expect("valid"),
        cpu: None,
        allowance: Duration::from_micros(rng.random_range(0..=100)),
        best_effort: if rng.random_bool(0.4) {
            BestEffort::None
        } else {
            BestEffort::up_to(rng.random_range(1..=16_384))
        },
        memory: None,
    };
    // From four to nine tenths of a CPU, in periods that hold enough packets for pacing.
    let packet = spec.costs.map_or(Service::ZERO, SendCosts::per_packet);
    let period = spec.cpu_for(packet).period();
    let budget = Service::from_nanos(period.as_nanos() / 10 * rng.random_range(4..=9));
    SenderSpec { cpu: Reservation::new(budget, period).ok(), ..spec }
}

/// Draws one to four channels that ask for up to 35 % of the capacity of `sender`.
pub(super) fn channels(sender: &SenderSpec, rng: &mut impl Rng) -> Vec<Channel> {
    let count = rng.random_range(1..=4);
    let load = rng.random_range(0.02..0.35);
    let sender = sender.sender(None).expect("it has costs");
    let (cut, costs) = (sender.packetisation, sender.costs);
    let draw = |at: u32, rng: &mut _| {
        let rng: &mut dyn Rng = rng;
        let most = rng.random_range(1..=16_384u32);
        let least = if rng.random_bool(0.8) { most } else { rng.random_range(1..=most) };
        let packets = u64::from(cut.packets_of(most));
        let full = sender.link.transmission_time(most.min(cut.packet_bytes())).as_nanos();
        let change = costs.change_of_handler().as_nanos();
        let packet = costs.packet.as_nanos() + costs.link_scheduling.as_nanos() + change;
        let work = packets * full.max(packet) + costs.first_packet.as_nanos();
        let share = load / f64::from(count) * rng.random_range(0.5..1.5);
        let period = Duration::from_nanos((work as f64 / share) as u64);
        let burst = if rng.random_bool(0.5) { 1 } else { rng.random_range(2..=4) };
        let arrivals = LinearBounded::new(least, most, period, burst).expect("valid");
        let delay = (period.as_nanos() as f64 * rng.random_range(0.6..2.0)) as u64;
        Channel::new(format!("c{at}"), &arrivals.into(), Duration::from_nanos(delay))
            .expect("valid")
    };
    (0..count).map(|at| draw(at, rng)).collect()
}

fn reservation(at: usize, rng: &mut impl Rng) -> NamedReservation {
    let period = rng.random_range(1_000..=20_000u64);
    let budget = rng.random_range(period / 50..=period / 8);
    let reservation = Reservation::new(Service::from_micros(budget), Duration::from_micros(period));
    NamedReservation { name: format!("r{at}"), reservation: reservation.expect("valid") }
}

/// Returns `task` with all its times multiplied by `factor`.
fn times(task: &Task, factor: u64) -> Task {
    let spec = task.spec().clone();
    let spec = TaskSpec {
        min_inter_arrival: spec.min_inter_arrival * factor,
        relative_deadline: spec.relative_deadline * factor,
        release_jitter: spec.release_jitter * factor,
        wcet: spec.wcet * factor,
        quantum: spec.quantum * factor,
        last_segment: spec.last_segment * factor,
        ..spec
    };
    Task::new(spec).expect("as valid as before")
}

/// Draws a system of all of them together, under any policy.
pub(super) fn system(rng: &mut impl Rng) -> (Contract, HostProfile) {
    let policy = POLICIES[rng.random_range(0..POLICIES.len())];
    let spread = if policy == Policy::Fifo { 3.0 } else { 20.0 };
    let kind = Kind { total: (0.05, 0.6), spread, latest_deadline: 2 };
    let longer = rng.random_range(1..=16);
    let tasks = draw::tasks(rng, kind).iter().map(|task| times(task, longer)).collect();
    let sender = sender(rng);
    let channels = channels(&sender, rng);
    let reservations = (0..rng.random_range(0..=2)).map(|at| reservation(at, rng)).collect();
    let switch = if rng.random_bool(0.5) { micros(rng, 1, 20) } else { Service::ZERO };
    let host = HostProfile {
        context_switch: switch,
        wake_up: crate::draw::wake_up(rng),
        ..HostProfile::ideal(1)
    };
    let contract = Contract {
        sender: Some(sender),
        channels,
        reservations,
        ..Contract::of_tasks(policy, 1, tasks)
    };
    (contract, host)
}

fn stream(at: usize, rng: &mut impl Rng) -> Stream {
    let frame_period = rng.random_range(10_000..=100_000u64);
    let delay = frame_period * rng.random_range(60..=300) / 100;
    Stream::new(StreamSpec {
        name: format!("s{at}"),
        class: StreamClass::NAMES[rng.random_range(0..StreamClass::NAMES.len())].1,
        frame_period: Duration::from_micros(frame_period),
        frame_size: rng.random_range(1..=20_000),
        burst: if rng.random_bool(0.5) { 1 } else { rng.random_range(2..=3) },
        delay: Duration::from_micros(delay),
        tolerated_loss_ppm: if rng.random() { 0 } else { rng.random_range(0..=500_000) },
        time_per_pdu: micros(rng, 5, 100),
    })
    .expect("valid")
}

/// Draws the same with one or two streams, and fewer other channels.
pub(super) fn system_with_streams(rng: &mut impl Rng) -> (Contract, HostProfile) {
    let (mut contract, host) = system(rng);
    contract.channels.truncate(rng.random_range(0..=1));
    contract.streams = (0..rng.random_range(1..=2)).map(|at| stream(at, rng)).collect();
    (contract, host)
}
