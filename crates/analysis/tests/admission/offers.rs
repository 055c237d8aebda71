//! Offers and room to grow along every number of every kind of entry: each offer is admitted.

use punctual_analysis::{Axis, EntryKind, Offer, Steps, admit, admit_within, sensitivity};
use punctual_model::channel::{
    AtmContract, BestEffort, BitRate, Channel, LinearBounded, Link, Packetisation, SendCosts,
    SenderSpec, ServiceClass, Traffic, TrafficSpec,
};
use punctual_model::command::{Backend, Holding};
use punctual_model::contract::NamedReservation;
use punctual_model::reservation::Enforcement;
use punctual_model::{
    Command, CommandSpec, Contract, Duration, HostProfile, Policy, Reservation, Service, Stream,
    StreamClass, StreamSpec, Task, TaskSpec, Upcall, UpcallSpec,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn micros(rng: &mut ChaCha8Rng, from: u64, to: u64) -> u64 {
    rng.random_range(from..=to)
}

fn sender(rng: &mut ChaCha8Rng) -> SenderSpec {
    let us = |rng: &mut ChaCha8Rng, to| Service::from_micros(rng.random_range(0..=to));
    SenderSpec {
        link: Link::new(Duration::from_micros(micros(rng, 1, 40)), micros(rng, 0, 60))
            .expect("valid"),
        costs: Some(SendCosts {
            switch: us(rng, 20),
            cache: us(rng, 20),
            first_packet: us(rng, 100),
            packet: us(rng, 100),
            link_scheduling: us(rng, 20),
        }),
        packetisation: Packetisation::new(1 << rng.random_range(9..=13), rng.random_range(1..=4))
            .expect("valid"),
        cpu: None,
        allowance: Duration::from_micros(micros(rng, 0, 300)),
        best_effort: if rng.random() { BestEffort::None } else { BestEffort::up_to(4096) },
        memory: rng.random_bool(0.5).then(|| rng.random_range(10_000..1_000_000)),
    }
}

fn task(at: usize, rng: &mut ChaCha8Rng) -> Task {
    let period = micros(rng, 1_000, 100_000);
    let wcet = micros(rng, 1, period / 2);
    let deadline = micros(rng, wcet, period);
    let quantum = if rng.random() { 0 } else { micros(rng, 0, wcet) };
    let jitter = if rng.random() { 0 } else { micros(rng, 0, deadline / 4) };
    let spec = TaskSpec {
        name: format!("t{at}"),
        min_inter_arrival: Duration::from_micros(period),
        relative_deadline: Duration::from_micros(if rng.random() { period } else { deadline }),
        release_jitter: Duration::from_micros(jitter),
        wcet: Service::from_micros(wcet),
        wcet_high: None,
        quantum: Service::from_micros(quantum),
        last_segment: Service::from_micros(if rng.random() { 0 } else { quantum }),
    };
    Task::new(if rng.random_bool(0.1) { spec.non_preemptive() } else { spec }).expect("valid")
}

fn upcall(at: usize, rng: &mut ChaCha8Rng) -> Upcall {
    let batch = rng.random_range(1..=64);
    let spec = UpcallSpec {
        name: format!("u{at}"),
        period: Duration::from_micros(micros(rng, 6_500, 100_000)),
        batch,
        quantum: rng.random_range(1..=batch),
        time_per_pdu: Service::from_micros(micros(rng, 1, 100)),
    };
    Upcall::new(spec).expect("a batch fits in a period")
}

fn channel(at: usize, rng: &mut ChaCha8Rng) -> Channel {
    let bytes = rng.random_range(1..=32_768);
    let traffic = if rng.random() {
        let period = Duration::from_micros(micros(rng, 2_000, 200_000));
        let least = rng.random_range(1..=bytes);
        let arrivals = LinearBounded::new(least, bytes, period, rng.random_range(1..=4));
        Traffic::from(arrivals.expect("valid"))
    } else {
        let sustained = rng.random_range(10_000..20_000_000);
        let constant = rng.random_bool(0.3);
        let peak = if constant { sustained } else { sustained * 2 };
        let spec = TrafficSpec {
            class: if constant { ServiceClass::Cbr } else { ServiceClass::RtVbr },
            peak_rate: BitRate::new(peak).expect("valid"),
            sustained_rate: BitRate::new(sustained).expect("valid"),
            max_sdu: bytes,
            delay_variation_tolerance: Duration::from_micros(micros(rng, 0, 20_000)),
        };
        Traffic::from(AtmContract::new(spec).expect("valid"))
    };
    let delay = Duration::from_micros(micros(rng, 500, 100_000));
    Channel::new(format!("c{at}"), &traffic, delay).expect("valid")
}

fn stream(at: usize, rng: &mut ChaCha8Rng) -> Stream {
    let class = StreamClass::NAMES[rng.random_range(0..4)].1;
    Stream::new(StreamSpec {
        name: format!("s{at}"),
        class,
        frame_period: Duration::from_micros(micros(rng, 10_000, 200_000)),
        frame_size: rng.random_range(1..=65_536),
        burst: rng.random_range(1..=3),
        delay: Duration::from_micros(micros(rng, 5_000, 400_000)),
        tolerated_loss_ppm: if rng.random() { 0 } else { rng.random_range(0..300_000) },
        time_per_pdu: Service::from_micros(micros(rng, 1, 200)),
    })
    .expect("valid")
}

fn reservation(at: usize, rng: &mut ChaCha8Rng) -> NamedReservation {
    let period = micros(rng, 500, 50_000);
    let budget = micros(rng, 2, period * 2 / 3);
    let reservation = Reservation::new(Service::from_micros(budget), Duration::from_micros(period));
    NamedReservation { name: format!("r{at}"), reservation: reservation.expect("valid") }
}

/// Draws some of everything, more or less too much of it.
fn draw(seed: u64) -> (Contract, HostProfile) {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let policy = Policy::NAMES[rng.random_range(0..Policy::NAMES.len())].1;
    let cpus = if rng.random_bool(0.7) { 1 } else { rng.random_range(2..=3) };
    let mut tasks: Vec<Task> = (0..rng.random_range(0..=3)).map(|at| task(at, rng)).collect();
    let upcalls: Vec<Upcall> = (0..rng.random_range(0..=2)).map(|at| upcall(at, rng)).collect();
    tasks.extend(upcalls.iter().map(Task::from));
    let contract = Contract {
        upcalls,
        reservations: (0..rng.random_range(0..=2)).map(|at| reservation(at, rng)).collect(),
        sender: Some(sender(rng)),
        channels: (0..rng.random_range(0..=2)).map(|at| channel(at, rng)).collect(),
        streams: (0..rng.random_range(0..=2)).map(|at| stream(at, rng)).collect(),
        ..Contract::of_tasks(policy, cpus, tasks)
    };
    let context_switch = Service::from_micros(micros(rng, 0, 10));
    (contract, HostProfile { context_switch, ..HostProfile::ideal(4) })
}

/// Each offer makes a contract that is admitted, and each number is offered once.
#[test]
fn every_offer_of_every_kind_is_admitted() {
    let (mut refused, mut seen) = (0, Vec::<(EntryKind, Axis, u32)>::new());
    for seed in 0..OFFERS {
        let (contract, host) = draw(seed);
        let Err(refusal) = admit(&contract, &host) else { continue };
        refused += 1;
        for (at, offer) in refusal.offers.iter().enumerate() {
            let Offer { entry, kind, axis, from, to } = offer;
            let changed = offer.taken(&contract).expect("the offer makes a valid contract");
            assert!(admit(&changed, &host).is_ok(), "seed {seed}: {offer:?} of {contract:#?}");
            assert_ne!(from, to, "seed {seed}");
            let again =
                |other: &&Offer| (&other.entry, other.kind, other.axis) == (entry, *kind, *axis);
            assert_eq!(refusal.offers.iter().filter(again).count(), 1, "seed {seed} {at}");
            match seen.iter_mut().find(|(of, along, _)| (of, along) == (kind, axis)) {
                Some((.., count)) => *count += 1,
                None => seen.push((*kind, *axis, 1)),
            }
        }
    }
    println!("{refused} refused: {seen:?}");
    for kind in [
        EntryKind::Task,
        EntryKind::Upcall,
        EntryKind::Reservation,
        EntryKind::Channel,
        EntryKind::Stream,
        EntryKind::Sending,
        EntryKind::System,
    ] {
        assert!(seen.iter().any(|(of, ..)| *of == kind), "no offer of a {kind:?}");
    }
}

const OFFERS: u64 = 150;

/// If no number helps without being halved or doubled, each offered pair helps, and the offered
/// part fits.
#[test]
fn every_pair_and_every_part_that_is_offered_is_admitted() {
    let (mut pairs, mut parts) = (0, 0);
    for seed in 0..3 * OFFERS {
        let (contract, host) = draw(seed);
        let Err(refusal) = admit(&contract, &host) else { continue };
        for [first, second] in refusal.offers.pairs() {
            let changed = first.taken(&contract).and_then(|changed| second.taken(&changed));
            let changed = changed.expect("the offers make a valid contract");
            assert!(admit(&changed, &host).is_ok(), "seed {seed}: {first:?} {second:?}");
            pairs += 1;
        }
        if !refusal.offers.without().is_empty() {
            let rest = without(&contract, refusal.offers.without());
            assert!(admit(&rest, &host).is_ok(), "seed {seed}: {:?}", refusal.offers.without());
            parts += 1;
        }
    }
    println!("{pairs} pairs, {parts} parts");
    assert!(pairs > 5 && parts > 100, "{pairs} {parts}");
}

/// Returns `contract` without the entries of these names.
fn without(contract: &Contract, out: &[(EntryKind, String)]) -> Contract {
    let stays = |kinds: &[EntryKind], name: &str| {
        !out.iter().any(|(kind, of)| kinds.contains(kind) && of == name)
    };
    let mut rest = contract.clone();
    let tasks = &[EntryKind::Task, EntryKind::Upcall];
    rest.tasks.retain(|task| stays(tasks, task.name()));
    rest.upcalls.retain(|upcall| stays(tasks, upcall.name()));
    rest.reservations.retain(|one| stays(&[EntryKind::Reservation], &one.name));
    for command in &mut rest.commands {
        let held = command.held().and_then(|held| {
            let name = &contract.reservations[held.reservation].name;
            let reservation = rest.reservations.iter().position(|one| one.name == *name)?;
            Some(Holding { reservation, ..held })
        });
        *command = command.under(held);
    }
    rest.channels.retain(|channel| stays(&[EntryKind::Channel], channel.name()));
    rest.streams.retain(|stream| stays(&[EntryKind::Stream], stream.name()));
    rest
}

/// Commands whose reservations do not all fit: the part that stays is offered, with the tasks
/// beneath their slots.
#[test]
fn a_part_of_commands_with_reservations_is_offered() {
    let (mut offered, mut refused, mut by_kernel) = (0, 0, 0);
    for seed in 0..120 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let cpus = rng.random_range(1..=2);
        let backend = rng.random_bool(0.3).then_some(Backend::Kernel);
        let count = rng.random_range(3..7);
        let reservations: Vec<_> = (0..count).map(|at| reservation(at, rng)).collect();
        let command = |at: usize| {
            let enforcement = if backend.is_some() { Enforcement::Hard } else { Enforcement::Soft };
            let cpu = None;
            let held = Some(Holding {
                reservation: at,
                enforcement,
                backend,
                cpu,
                adapt: None,
                memory: None,
            });
            let run = vec!["true".into()];
            let (directory, environment, channel) = (None, Vec::new(), None);
            let name = format!("p{at}");
            Command::new(CommandSpec { name, run, directory, environment, held, channel })
                .expect("valid")
        };
        // One of the reservations is not a command's.
        let commands = (1..count).map(command).collect();
        let tasks = (0..rng.random_range(0..2)).map(|at| task(at, rng)).collect();
        let contract =
            Contract { reservations, commands, ..Contract::of_tasks(Policy::Rm, cpus, tasks) };
        let host =
            HostProfile { slot_allowance: Service::from_micros(20), ..HostProfile::ideal(2) };
        let Err(refusal) = admit(&contract, &host) else { continue };
        refused += 1;
        if refusal.offers.without().is_empty() {
            continue;
        }
        offered += 1;
        by_kernel += u32::from(backend.is_some());
        let rest = without(&contract, refusal.offers.without());
        assert_eq!(
            rest.reservations.len() + rest.tasks.len() + refusal.offers.without().len(),
            contract.reservations.len() + contract.tasks.len()
        );
        assert!(admit(&rest, &host).is_ok(), "seed {seed}: {:?}", refusal.offers.without());
    }
    println!("{offered} of {refused}, {by_kernel} by the kernel");
    assert!(2 * offered > refused && by_kernel > 5, "{offered} of {refused}, {by_kernel}");
}

/// Against every subset: few entries are left out, and mostly the fewest.
#[test]
fn the_part_that_fits_is_mostly_the_largest() {
    let (mut offered, mut largest, mut worst) = (0, 0, 0);
    for seed in 0..400 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let named = |at: usize| {
            let period = rng.random_range(4..40u64);
            let wcet = rng.random_range(1..=period * 2 / 3);
            let (period, wcet) = (Duration::from_millis(period), Service::from_millis(wcet));
            Task::new(TaskSpec::periodic(&format!("t{at}"), period, wcet)).expect("valid")
        };
        let tasks: Vec<Task> = (0..8).map(named).collect();
        let policy = [Policy::Rm, Policy::Edf][seed as usize % 2];
        let contract = Contract::of_tasks(policy, 1, tasks.clone());
        let host = HostProfile::ideal(1);
        let Err(refusal) = admit(&contract, &host) else { continue };
        let left_out = refusal.offers.without().len();
        if left_out == 0 {
            continue;
        }
        let fewest = (0u32..1 << tasks.len())
            .filter(|subset| {
                let kept = tasks.iter().zip(0..).filter(|(_, at)| subset >> at & 1 == 1);
                let kept = kept.map(|(task, _)| task.clone()).collect();
                admit_within(&Contract::of_tasks(policy, 1, kept), &host, &mut Steps::default())
                    .is_ok()
            })
            .map(|subset| tasks.len() - subset.count_ones() as usize)
            .min()
            .expect("nothing fits always");
        offered += 1;
        largest += u32::from(left_out == fewest);
        worst = worst.max(left_out - fewest);
    }
    println!("{largest} of {offered} the largest, at worst {worst} more left out");
    assert!(offered > 50 && 10 * largest >= 8 * offered && worst <= 2, "{largest} of {offered}");
}

#[test]
fn the_fitting_part_of_thousands_of_tasks_is_found() {
    let task = |at: u64| {
        let period = Duration::from_millis(20 + at % 200);
        let wcet = Service::from_micros(20 + at % 7);
        Task::new(TaskSpec::periodic(&format!("t{at}"), period, wcet)).expect("valid")
    };
    let contract = Contract::of_tasks(Policy::Rm, 1, (0..5_000).map(task).collect());
    let host = HostProfile::ideal(1);
    let refusal = admit(&contract, &host).expect_err("1.5 CPUs");
    let left_out = refusal.offers.without();
    assert!((500..2_500).contains(&left_out.len()), "{}", left_out.len());
    assert!(admit(&without(&contract, left_out), &host).is_ok());
    let said = refusal.to_string();
    assert!(said.contains("; or if there were no task \"t"), "{said}");
    assert!(said.ends_with(" of 5000 would stay)"), "{said}");
}

/// Channels alone on a link that is much too slow: a faster one is offered, and it is enough.
#[test]
fn a_faster_link_is_offered_if_the_link_is_too_slow() {
    let mut offered = 0;
    for seed in 0..40 {
        let (drawn, host) = draw(seed);
        let slow = Link::new(Duration::from_micros(5), 2_000).expect("valid");
        let contract = Contract {
            sender: drawn.sender.map(|sender| SenderSpec { link: slow, memory: None, ..sender }),
            tasks: Vec::new(),
            upcalls: Vec::new(),
            reservations: Vec::new(),
            streams: Vec::new(),
            ..drawn
        };
        let Err(refusal) = admit(&contract, &host) else { continue };
        let Some(offer) = refusal.offers.along("", Axis::Bandwidth) else { continue };
        assert_eq!((offer.kind, offer.from), (EntryKind::Sending, 4_000_000), "seed {seed}");
        let faster = offer.taken(&contract).expect("valid");
        assert!(admit(&faster, &host).is_ok(), "seed {seed}: {offer:?} of {contract:#?}");
        assert!(offer.to > offer.from);
        offered += 1;
    }
    println!("{offered} offered");
    assert!(offered > 10, "{offered}");
}

/// At the limit found by [`sensitivity`] the contract is still admitted, and with one unit more it
/// is not.
#[test]
fn a_number_grows_to_its_limit_and_no_further() {
    let mut compared = 0;
    for seed in 0..GROWTH {
        let (contract, host) = draw(seed);
        if admit_within(&contract, &host, &mut Steps::default()).is_err() {
            continue;
        }
        for offer in sensitivity(&contract, &host, Steps::ADMISSION).numbers {
            let taken = offer.taken(&contract).expect("valid");
            let answer = admit_within(&taken, &host, &mut Steps::default());
            assert!(answer.is_ok(), "seed {seed}: {offer:?}: {answer:?}");
            let Some(to) = one_more(&offer) else { continue };
            let more = Offer { to, ..offer.clone() };
            let Some(more) = more.taken(&contract) else { continue };
            if more.cpus > host.cpus || !is_within_limits(&offer, to) {
                continue;
            }
            compared += 1;
            let further = admit_within(&more, &host, &mut Steps::default());
            assert!(further.is_err(), "seed {seed}: {offer:?} of {contract:#?}");
        }
    }
    println!("{compared} compared");
    assert!(compared > 100, "{compared}");
}

const GROWTH: u64 = 200;

/// Returns the number one unit further in the direction with less room, or `None` at the end of
/// that direction.
fn one_more(offer: &Offer) -> Option<u64> {
    match offer.axis {
        Axis::Wcet
        | Axis::Batch
        | Axis::Quantum
        | Axis::Budget
        | Axis::ReleaseJitter
        | Axis::Size
        | Axis::Burst
        | Axis::Rate
        | Axis::Tolerance => offer.to.checked_add(1),
        _ => offer.to.checked_sub(1),
    }
}

/// Returns whether the number is within the limits; some numbers end before they become invalid.
fn is_within_limits(offer: &Offer, to: u64) -> bool {
    match (offer.kind, offer.axis) {
        (EntryKind::Reservation, Axis::Period) => to >= 100_000,
        (EntryKind::System, _) => to >= 1,
        _ => true,
    }
}

/// For tasks of two criticalities, a smaller `wcet_high` is offered, and its growth is reported.
#[test]
fn the_wcet_of_high_criticality_is_offered_and_grows_to_its_limit() {
    let mut rng = ChaCha8Rng::seed_from_u64(41);
    let host = HostProfile::ideal(1);
    let (mut offered, mut grown) = (0, 0);
    for round in 0..300 {
        let task = |at: usize, rng: &mut ChaCha8Rng| {
            let period = micros(rng, 1_000, 20_000);
            let wcet = micros(rng, 1, period / 3);
            let high = rng.random::<bool>().then(|| micros(rng, wcet, period));
            let (period, wcet) = (Duration::from_micros(period), Service::from_micros(wcet));
            let wcet_high = high.map(Service::from_micros);
            let spec =
                TaskSpec { wcet_high, ..TaskSpec::periodic(&format!("t{at}"), period, wcet) };
            Task::new(spec).expect("valid")
        };
        let tasks = (0..rng.random_range(2..5)).map(|at| task(at, &mut rng)).collect();
        let contract = Contract::of_tasks(Policy::EdfVd, 1, tasks);
        match admit(&contract, &host) {
            Err(refusal) => {
                for offer in &refusal.offers {
                    let taken = offer.taken(&contract).expect("a valid contract");
                    assert!(admit(&taken, &host).is_ok(), "round {round}: {offer:?} of {refusal}");
                    offered += usize::from(offer.axis == Axis::WcetHigh);
                }
            }
            Ok(_) => {
                let room = sensitivity(&contract, &host, 5 * Steps::ADMISSION);
                for offer in room.numbers.iter().filter(|offer| offer.axis == Axis::WcetHigh) {
                    let taken = offer.taken(&contract).expect("a valid contract");
                    assert!(admit(&taken, &host).is_ok(), "round {round}: {offer:?}");
                    let more = Offer { to: offer.to + 1, ..offer.clone() }.taken(&contract);
                    let fits = more.is_some_and(|more| admit(&more, &host).is_ok());
                    assert!(!fits, "round {round}: {offer:?}");
                    grown += usize::from(offer.to > offer.from);
                }
            }
        }
    }
    assert!(offered > 20 && grown > 20, "{offered} {grown}");
}

/// Tasks that need more than the three CPUs that they ask for, on hosts with more, as many, and
/// fewer CPUs.
#[test]
fn more_than_three_cpus_can_do_gets_offers_and_each_is_admitted() {
    let mut kinds = std::collections::BTreeMap::<(u16, &str), u32>::new();
    for seed in 0..60 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let task = |at: usize, rng: &mut ChaCha8Rng| {
            let period = micros(rng, 5_000, 50_000);
            let wcet = micros(rng, period / 5, period / 2);
            let (period, wcet) = (Duration::from_micros(period), Service::from_micros(wcet));
            Task::new(TaskSpec::periodic(&format!("t{at}"), period, wcet)).expect("valid")
        };
        let policy = [Policy::Rm, Policy::Edf, Policy::Rmdp][seed as usize % 3];
        let mut tasks: Vec<Task> = Vec::new();
        while tasks.iter().map(Task::utilisation_ppm).sum::<u64>() < 3_200_000 {
            tasks.push(task(tasks.len(), rng));
        }
        let contract = Contract::of_tasks(policy, 3, tasks);
        for cpus in [4, 3, 2] {
            let host = HostProfile::ideal(cpus);
            let refusal = admit(&contract, &host).expect_err("more than three CPUs");
            let offers = &refusal.offers;
            assert!(!offers.is_empty(), "seed {seed}, {cpus} CPUs: {refusal}");
            for offer in offers {
                let changed = offer.taken(&contract).expect("valid");
                assert!(admit(&changed, &host).is_ok(), "seed {seed}, {cpus} CPUs: {offer:?}");
                *kinds.entry((cpus, offer.axis.name())).or_default() += 1;
            }
            for [first, second] in offers.pairs() {
                let changed = first.taken(&contract).and_then(|changed| second.taken(&changed));
                let changed = changed.expect("valid");
                assert!(admit(&changed, &host).is_ok(), "seed {seed}: {first:?} {second:?}");
                *kinds.entry((cpus, "two")).or_default() += 1;
            }
            if !offers.without().is_empty() {
                let rest = without(&contract, offers.without());
                assert!(admit(&rest, &host).is_ok(), "seed {seed}: {:?}", offers.without());
                *kinds.entry((cpus, "without")).or_default() += 1;
            }
        }
    }
    println!("{kinds:?}");
}
