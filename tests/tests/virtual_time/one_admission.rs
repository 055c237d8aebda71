//! One contract has one answer, from every component that admits.
//!
//! A contract of upcalls and of the kernel's reservations on one CPU is passed to
//! - `admit`, as a whole;
//! - [`System`], entry by entry, in a drawn order;
//! - the broker's [`AdmissionState`] in that order, each entry a grant, with a quota that nothing
//!   exceeds;
//! - the upcalls of a process ([`Upcalls::create`]), which know no reservations of others.
//!
//! The tests check these relations:
//! 1. `System` admits all if and only if `admit` does and all shares together are within the
//!    promisable share of the CPU. (`admit` applies that share to reservations, but only the
//!    deadlines to upcalls: work that meets its deadlines beneath the reservations of its own
//!    contract may use a whole CPU. A host keeps some of each for others.)
//! 2. `AdmissionState` gives the same answers as `System`, entry by entry, and names the same test.
//! 3. Without reservations and without containment, a process admits all upcalls if and only if
//!    `admit` does. With reservations `admit` admits no more than the process does.
//! 4. With containment, which adds blocking, a process admits no more than without.
//! 5. A refusal because of a late task names the task, its tardiness and the reason in the words of
//!    `admit`, except that a host names no task that it admitted before.
//!
//! On several CPUs, for which `System` has to choose when each entry comes:
//! 6. What `System` admits, `admit` admits. (It may find room for more, because it knows all tasks
//!    before it places the first.) `AdmissionState` gives the same answers, CPUs and refusals.
//! 7. A task that fits on no CPU is refused with the words and the shortfall that `admit` has for
//!    the nearest CPU with everything on it, and on no other CPU `admit` finds a smaller shortfall.
//!
//! With channels beside them, on a host whose broker carries channels and sets a reservation aside
//! for their threads:
//! 8. `AdmissionState` gives the same answers as `System` within the same steps, entry by entry,
//!    and in the same words.
//! 9. `System` admits all if and only if
//!    - `admit` admits the upcalls beneath the reservations and the reservation set aside;
//!    - `admit` admits the channels beneath the reservations;
//!    - the rates of the channels are within the link, and all shares with the reservation set
//!      aside within the CPU.
//!
//!    That holds where nothing is kept for best effort. `admit` keeps no processor time for it, but
//!    `System` does: with best effort `admit` admits no less.
//!    With best effort in the contract, its `receiving` test counts that as if it were always sent,
//!    so there `admit` may refuse more.
//! 10. A channel that is refused because of its delay or of the processor is refused by `admit`
//!     beside the channels and reservations that were admitted: by the same test, for want of the
//!     same resource, with the same shortfall and in the same words, except that a host names no
//!     channel that it admitted before.
//!
//! `admit` charges tasks only for the channels of their contract. A broker promises before it knows
//! which channels come, so it charges the whole reservation set aside.

use punctual_analysis::channel::egress::Egress;
use punctual_analysis::{BackEnd, Refusal, Request, Shortfall, Steps, System, UpcallOrder, admit};
use punctual_broker::admission::{AdmissionState, Requester, STEPS};
use punctual_broker::config::{ChannelsConfig, Quota, QuotaOf};
use punctual_client::grant::GrantId;
use punctual_client::want::{Guarantee, Kind, WantedChannel};
use punctual_model::channel::{
    BestEffort, BitRate, Channel, Direction, Framing, LinearBounded, Packetisation, ReadLimit,
    SendCosts, SenderSpec,
};
use punctual_model::contract::{NamedReservation, ReceivingChannel};
use punctual_model::{
    Contract, Duration, Handler, HostProfile, Instant, Reservation, Service, Task, Upcall,
    UpcallSpec,
};
use punctual_runtime::{Placement, Upcalls};
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

struct Idle;

impl Handler for Idle {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        pdus
    }
}

/// Draws periods, some with common factors and some without.
fn period(rng: &mut ChaCha8Rng) -> u64 {
    if rng.random() {
        [5_000, 10_000, 20_000, 40_000][rng.random_range(0..4)]
    } else {
        rng.random_range(2_000..50_000)
    }
}

fn upcall(rng: &mut ChaCha8Rng, at: u32, part: u64) -> Upcall {
    let period = period(rng);
    let batch = rng.random_range(1..6);
    let most = (1_000 * period / part / u64::from(batch)).max(2);
    Upcall::new(UpcallSpec {
        name: format!("u{at}"),
        period: Duration::from_micros(period),
        batch,
        quantum: rng.random_range(1..=batch),
        time_per_pdu: Service::from_nanos(rng.random_range(1..=most)),
    })
    .expect("valid")
}

fn reservation(rng: &mut ChaCha8Rng, part: u64) -> Reservation {
    // Sometimes a shorter budget, or a longer period, than the kernel accepts.
    let period = if rng.random_ratio(1, 40) { 5_000_000 } else { period(rng) };
    let most = (1_000 * period / part).max(2);
    let least = if rng.random_ratio(1, 40) { 1 } else { most.min(2_000) };
    let budget = Service::from_nanos(rng.random_range(least..=most));
    Reservation::new(budget, Duration::from_micros(period)).expect("valid")
}

fn contract(rng: &mut ChaCha8Rng, cpus: u16) -> Contract {
    let (upcalls, reservations) = (rng.random_range(1..8u32), rng.random_range(0..4u32));
    let reservations = if rng.random() { 0 } else { reservations };
    let upcalls = upcalls + 2 * u32::from(cpus - 1);
    // Together from about half of the CPUs to more than all of them.
    let all = u64::from(upcalls + reservations);
    let part = (all * rng.random_range(2..5) / 4 / u64::from(cpus)).max(1);
    let mut contract = Contract::of_upcalls((0..upcalls).map(|at| upcall(rng, at, part)).collect());
    let named =
        |at| NamedReservation { name: format!("r{at}"), reservation: reservation(rng, part) };
    contract.reservations = (0..reservations).map(named).collect();
    contract
}

/// Returns the entries of a contract as requests to the broker.
fn entries(contract: &Contract) -> Vec<Guarantee> {
    let upcalls = contract.upcalls.iter().map(|upcall| Guarantee::Upcalls(vec![upcall.clone()]));
    let reserved =
        contract.reservations.iter().map(|named| Guarantee::Reservation(named.reservation));
    upcalls.chain(reserved).collect()
}

fn asked<T>(what: &Guarantee, ask: impl FnOnce(Request<'_>) -> T) -> T {
    match what {
        Guarantee::Upcalls(upcalls) => {
            ask(Request::Executor(&upcalls.iter().map(Task::from).collect::<Vec<_>>()))
        }
        Guarantee::Reservation(reservation) => ask(Request::Deadline(*reservation)),
        Guarantee::Priority { .. } | Guarantee::Program { .. } => unreachable!("not drawn"),
    }
}

/// Returns the contract of `entries`, and the name of the last of them if that is an upcall.
fn contract_of(entries: &[&Guarantee]) -> (Contract, Option<String>) {
    let upcalls = entries.iter().filter_map(|what| match what {
        Guarantee::Upcalls(upcalls) => Some(upcalls[0].clone()),
        _ => None,
    });
    let mut contract = Contract::of_upcalls(upcalls.collect());
    let reserved = entries.iter().zip(0..).filter_map(|(what, at)| match what {
        Guarantee::Reservation(reservation) => {
            Some(NamedReservation { name: format!("r{at}"), reservation: *reservation })
        }
        _ => None,
    });
    contract.reservations = reserved.collect();
    let newest = match entries.last() {
        Some(Guarantee::Upcalls(upcalls)) => Some(upcalls[0].name().into()),
        _ => None,
    };
    (contract, newest)
}

/// Returns the answer of `admit` for `entries`, in which only the tasks of the last are named.
fn in_words_of_admit(entries: &[&Guarantee], host: &HostProfile) -> String {
    let (contract, newest) = contract_of(entries);
    let refusal = admit(&contract, host).expect_err("the last one was refused");
    let late = refusal.entry.expect("a task is late");
    let named = format!("task \"{late}\"");
    if Some(late) == newest {
        return refusal.why;
    }
    refusal.why.replacen(&named, "a task admitted before", 1)
}

fn created(contract: &Contract, host: HostProfile, contained: bool) -> bool {
    let upcalls = Upcalls::new(Placement::Upcalls, host);
    let mut upcalls = if contained { upcalls } else { upcalls.without_containment() };
    contract.upcalls.iter().all(|upcall| upcalls.create(upcall.clone(), Idle).is_ok())
}

fn without_limit() -> Requester {
    let quota = Quota {
        share_ppm: u64::MAX / 2,
        max_grants: u32::MAX,
        shortest_period: Duration::from_nanos(1),
        least_reservation_ppm: 0,
        allow: [Kind::Upcalls, Kind::Reservation, Kind::Channels].into(),
        link_ppm: u64::MAX,
        queue_memory: u64::MAX,
        ..Quota::default()
    };
    Requester { uid: 1, quota: QuotaOf { quota, group: None } }
}

/// Returns the number of draws. For more of them: `PUNCTUAL_DRAWS=100000 cargo test …`.
fn draws() -> u64 {
    let count = std::env::var("PUNCTUAL_DRAWS").ok().and_then(|count| count.parse().ok());
    count.unwrap_or(10_000)
}

#[test]
fn every_admission_gives_a_contract_the_same_answer() {
    let count = draws();
    let (requester, now) = (without_limit(), Instant::from_nanos(1));
    let (mut admitted, mut refused, mut by_share, mut in_processes) = (0, 0, 0, 0);
    // Late tasks of the request, and of an entry admitted before.
    let mut late = [0_u64; 2];
    for seed in 0..count {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let contract = contract(rng, 1);
        let context_switch = Service::from_micros(rng.random_range(0..4));
        let wake_up = Service::from_micros(rng.random_range(0..2) * rng.random_range(0..300));
        let host = HostProfile { context_switch, wake_up, ..HostProfile::ideal(1) };
        let whole = admit(&contract, &host).is_ok();

        let mut entries = entries(&contract);
        let together: u64 = entries.iter().map(Guarantee::share_ppm).sum();
        entries.shuffle(rng);
        let mut system = System::new(host, UpcallOrder::LevelOrder);
        let mut admission = AdmissionState::new(host, UpcallOrder::LevelOrder);
        let mut all = true;
        let mut entered: Vec<&Guarantee> = Vec::new();
        for (id, what) in (0..).zip(&entries) {
            let steps = &mut Steps::default();
            let one = asked(what, |request| system.admit(id, request, steps));
            let other = admission.admit(GrantId(id), &requester, what, now);
            entered.push(what);
            match (&one, &other) {
                (Err(one), Err(other)) => {
                    assert_eq!((one.test, &one.why), (other.test, &other.why), "seed {seed}");
                    if one.test == "response-time" {
                        assert_eq!(one.why, in_words_of_admit(&entered, &host), "seed {seed}");
                        late[usize::from(one.why.starts_with("a task"))] += 1;
                    }
                    entered.pop();
                }
                _ => assert_eq!(one.is_ok(), other.is_ok(), "seed {seed}: {what}"),
            }
            all &= one.is_ok();
        }
        let within = together <= host.reservable_ppm;
        assert_eq!(all, whole && within, "seed {seed}: {contract:?}");

        let process = created(&contract, host, false);
        if contract.reservations.is_empty() {
            assert_eq!(process, whole, "seed {seed}: {contract:?}");
            in_processes += u32::from(process);
        } else {
            assert!(process || !whole, "seed {seed}: {contract:?}");
        }
        assert!(process || !created(&contract, host, true), "seed {seed}: {contract:?}");
        admitted += u32::from(all);
        refused += u32::from(!whole);
        by_share += u32::from(whole && !within);
    }
    println!("{admitted} of {count} admitted, {refused} refused by all; late {late:?}");
    assert!(late.iter().all(|times| *times > count / 100), "{late:?}");
    let counts = format!("{admitted} {refused} {by_share} {in_processes}");
    assert!(
        u64::from(admitted.min(refused)) > count / 10 && by_share.min(in_processes) > 5,
        "{counts}"
    );
}

/// Compares the refusal of a task, which fits on no CPU, with those of `admit` for each CPU and
/// `what` there. `entered` are the others, each with the CPU of an upcall.
fn is_the_nearest(
    refusal: &Refusal,
    what: &Guarantee,
    entered: &[(&Guarantee, Option<u16>)],
    host: &HostProfile,
) -> bool {
    // The kernel may run the reservations on any CPU, so they are above the tasks of each.
    let alone = HostProfile { cpus: 1, reservable_ppm: 1_000_000, ..*host };
    let on = |cpu: u16| -> Vec<&Guarantee> {
        let here = entered.iter().filter(|(_, other)| other.is_none_or(|other| other == cpu));
        here.map(|(what, _)| *what).chain([what]).collect()
    };
    if refusal.test != "response-time" {
        return false;
    }
    let Some((_, nearest)) = refusal.why.split_once("; nearest on CPU ") else { return false };
    let (cpu, why) = nearest.split_once(", where ").expect("the reason");
    let cpu: u16 = cpu.parse().expect("a number");
    let shortfall = |cpu: u16| match admit(&contract_of(&on(cpu)).0, &alone) {
        Err(refusal) if refusal.test == "response-time" => refusal.shortfall,
        // All reservations together are too much for one CPU.
        _ => None,
    };
    let Some(Shortfall::Time(least)) = shortfall(cpu) else { return false };
    assert_eq!(refusal.shortfall, Some(Shortfall::Time(least)));
    assert_eq!(why, in_words_of_admit(&on(cpu), &alone));
    for other in 0..host.cpus {
        let executed = |one: &&&Guarantee| matches!(one, Guarantee::Upcalls(_));
        let share: u64 = on(other).iter().filter(executed).map(|one| one.share_ppm()).sum();
        // The share of one CPU that may be promised decides before any response time.
        if share <= host.reservable_ppm
            && let Some(Shortfall::Time(time)) = shortfall(other)
        {
            assert!(time >= least, "CPU {other} is nearer: {time}");
        }
    }
    true
}

#[test]
fn every_admission_gives_a_contract_on_several_cpus_the_same_answer() {
    // Each refusal is compared with one for every CPU.
    let count = draws() / 20;
    let (requester, now) = (without_limit(), Instant::from_nanos(1));
    let (mut admitted, mut refused, mut only_by_admit, mut compared) = (0, 0, 0, 0);
    for seed in 0..count {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let cpus = rng.random_range(2..=3);
        let contract = Contract { cpus, ..contract(rng, cpus) };
        let context_switch = Service::from_micros(rng.random_range(0..4));
        let host = HostProfile { context_switch, ..HostProfile::ideal(cpus) };
        let whole = admit(&contract, &host).is_ok();
        let mut entries = entries(&contract);
        entries.shuffle(rng);
        let mut system = System::new(host, UpcallOrder::LevelOrder);
        let mut admission = AdmissionState::new(host, UpcallOrder::LevelOrder);
        let mut entered: Vec<(&Guarantee, Option<u16>)> = Vec::new();
        for (id, what) in (0..).zip(&entries) {
            let steps = &mut Steps::new(STEPS);
            let one = asked(what, |request| system.admit(id, request, steps));
            let one = one.map(|back_end| match back_end {
                BackEnd::Executor { cpu } => Some(cpu),
                _ => None,
            });
            let other = admission.admit(GrantId(id), &requester, what, now);
            assert_eq!(one.clone().map(|cpu| cpu.map(u32::from)), other, "seed {seed}: {what}");
            match one {
                Ok(cpu) => entered.push((what, cpu)),
                Err(refusal) if matches!(what, Guarantee::Upcalls(_)) => {
                    compared += u64::from(is_the_nearest(&refusal, what, &entered, &host));
                }
                Err(_) => {}
            }
        }
        let all = entered.len() == entries.len();
        assert!(whole || !all, "seed {seed}: {contract:?}");
        admitted += u64::from(all);
        refused += u64::from(!whole);
        only_by_admit += u64::from(whole && !all);
    }
    let counts = format!(
        "{admitted} of {count} admitted, {refused} refused by all, {only_by_admit} admitted by admit only; \
         {compared} tasks refused in the words of the nearest CPU"
    );
    println!("{counts}");
    assert!(admitted.min(refused).min(compared) > count / 10 && only_by_admit > 5, "{counts}");
}

/// Draws the broker's configuration for channels.
fn carried(rng: &mut ChaCha8Rng) -> ChannelsConfig {
    let period = rng.random_range(1_000..20_000u64);
    let budget = Service::from_micros(period * rng.random_range(5..60) / 100);
    let link = [10, 100, 1_000][rng.random_range(0..3)] * 1_000_000;
    ChannelsConfig {
        headers: rng.random_range(0..2) * 118,
        cut: Packetisation::new(1_440, rng.random_range(1..=2)).expect("valid"),
        best_effort_ppm: if rng.random_ratio(1, 5) { 100_000 } else { 0 },
        cpu: Reservation::new(budget, Duration::from_micros(period)).expect("valid"),
        per_packet: Service::from_nanos(rng.random_range(2_000..60_000)),
        allowance: Duration::from_nanos(rng.random_range(0..300_000)),
        ..ChannelsConfig::of(BitRate::new(link).expect("a rate"))
    }
}

/// Returns the same as a contract states it.
fn sender(config: &ChannelsConfig, best_effort: BestEffort) -> SenderSpec {
    let (none, packet) = (Service::ZERO, config.per_packet);
    SenderSpec {
        link: config.reckoned_link(),
        costs: Some(SendCosts {
            switch: none,
            cache: none,
            first_packet: packet,
            packet,
            link_scheduling: none,
        }),
        packetisation: config.cut,
        cpu: Some(config.cpu),
        allowance: config.allowance,
        best_effort,
        memory: None,
    }
}

/// Draws channels that together ask for a twentieth of thread and link, up to twice of them.
fn channels(rng: &mut ChaCha8Rng, egress: &Egress, receives: bool) -> Vec<WantedChannel> {
    let count = rng.random_range(1..7u64);
    let part = count * rng.random_range(1..20);
    let one = |at: u64| {
        let bytes = rng.random_range(1..=6_000);
        let spacing = egress.time_of(bytes).as_nanos() * part * rng.random_range(5..15) / 10;
        let least = rng.random_range(1..=bytes);
        let burst = rng.random_range(1..4);
        let arrivals = LinearBounded::new(least, bytes, Duration::from_nanos(spacing), burst);
        let in_front = egress.looks_within().saturating_add(egress.once()).as_nanos();
        let bound =
            in_front * rng.random_range(8..14) / 10 + spacing * rng.random_range(1..20) / 10;
        let received = receives && rng.random_ratio(1, 3);
        let direction = if received { Direction::Receive } else { Direction::Send };
        let bound = Some(Duration::from_nanos(bound)).filter(|_| !rng.random_ratio(1, 10));
        let address = "192.0.2.7:9".parse().expect("an address");
        let sending =
            WantedChannel::sending(format!("c{at}"), arrivals.expect("valid"), bound, address);
        WantedChannel { direction, framing: Framing::Fragments, ..sending }
    };
    (0..count).map(one).collect()
}

fn sent(want: &WantedChannel) -> Option<Channel> {
    let bound = want.delay_bound.filter(|_| want.direction == Direction::Send)?;
    Channel::new(want.name.clone(), &want.arrivals.into(), bound).ok()
}

/// Passes `want` to `ask` in the terms of the analysis.
fn asked_for<T>(want: &WantedChannel, packet_bytes: u32, ask: impl FnOnce(Request<'_>) -> T) -> T {
    match (sent(want), want.direction, want.delay_bound) {
        (Some(channel), ..) => ask(Request::Sending(&channel)),
        (None, Direction::Receive, Some(_)) => {
            ask(Request::Receiving(ReadLimit::of(want.arrivals, want.framing, packet_bytes)))
        }
        (None, direction, _) => ask(Request::BestEffort(direction)),
    }
}

/// Returns the contract of `channels` beneath reservations.
fn messages<'a>(
    config: &ChannelsConfig,
    channels: impl Iterator<Item = &'a WantedChannel> + Clone,
    reservations: Vec<NamedReservation>,
) -> Contract {
    let is_received = |want: &&WantedChannel| want.direction == Direction::Receive;
    let unpromised =
        channels.clone().filter(|want| want.delay_bound.is_none() && !is_received(want));
    let longest = unpromised.map(|want| want.arrivals.max_message()).max();
    let mut contract = Contract::of_upcalls(Vec::new());
    contract.sender = Some(sender(config, longest.map_or(BestEffort::None, BestEffort::up_to)));
    contract.channels = channels.clone().filter_map(sent).collect();
    contract.receiving = channels
        .filter(is_received)
        .map(|want| ReceivingChannel {
            name: want.name.clone(),
            traffic: want.arrivals.into(),
            delay_bound: want.delay_bound,
        })
        .collect();
    contract.reservations = reservations;
    contract
}

/// Compares the refusal of the channel `newest` with that of `admit` for it beside `entered`, and
/// returns whether also in their words.
fn is_said_by_admit(
    refusal: &Refusal,
    config: &ChannelsConfig,
    newest: &WantedChannel,
    entered: &[&Wanted],
    host: &HostProfile,
) -> bool {
    let channels = entered.iter().filter_map(|one| match one {
        Wanted::Channel(want) => Some(want),
        Wanted::Grant(_) => None,
    });
    let reserved = entered.iter().zip(0..).filter_map(|(one, at)| match one {
        Wanted::Grant(Guarantee::Reservation(reservation)) => {
            Some(NamedReservation { name: format!("r{at}"), reservation: *reservation })
        }
        _ => None,
    });
    let contract = messages(config, channels.chain([newest]), reserved.collect());
    let by_admit = admit(&contract, host).expect_err("the newest was refused");
    let said = |refusal: &Refusal| (refusal.test, refusal.resource);
    assert_eq!(said(refusal), said(&by_admit), "{refusal}, {by_admit}");
    if refusal.why == "not every message would leave in time" {
        // A host bounds the search for the late channel more tightly.
        return false;
    }
    assert_eq!(refusal.shortfall, by_admit.shortfall, "{refusal}, {by_admit}");
    // A contract enters what is received last, and the sums are those of the entry that failed.
    if refusal.test == "processor" && sent(newest).is_some() && !contract.receiving.is_empty() {
        return false;
    }
    let name = by_admit.entry.as_deref().filter(|name| *name != newest.name);
    let why = match name {
        Some(name) => {
            by_admit.why.replacen(&format!("channel \"{name}\""), "a channel admitted before", 1)
        }
        None => by_admit.why.clone(),
    };
    assert_eq!(refusal.why, why);
    true
}

/// One entry of a broker.
enum Wanted {
    Grant(Guarantee),
    Channel(WantedChannel),
}

#[test]
fn every_admission_gives_a_contract_with_channels_the_same_answer() {
    let count = draws();
    let (requester, now) = (without_limit(), Instant::from_nanos(1));
    let (mut admitted, mut equal, mut only_by_admit, mut undecided) = (0, 0, 0, 0);
    let mut by_receiving = 0_u64;
    // Refused as by admit: by the same test, and in the same words.
    let mut said = [0_u64; 2];
    let mut by_test = std::collections::BTreeMap::<&str, u64>::new();
    for seed in 0..count {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let config = carried(rng);
        let receives = rng.random_ratio(1, 5);
        let wanted = channels(rng, &config.egress(), receives);
        let context_switch = Service::from_micros(if rng.random() { 0 } else { 3 });
        let host = HostProfile { context_switch, ..HostProfile::ideal(1) };
        let (mut others, upcalls) = (contract(rng, 1), rng.random_range(0..3));
        others.reservations.truncate(rng.random_range(0..3));
        others.upcalls.truncate(upcalls);
        others.tasks.truncate(upcalls);

        // The part of it that is passed to `admit`.
        let reserved = others.reservations.clone();
        let grants = entries(&others);
        let together: u64 = grants.iter().map(Guarantee::share_ppm).sum();
        let within = together + config.cpu.utilisation_ppm() <= host.reservable_ppm;
        let set_aside = NamedReservation { name: "channels".into(), reservation: config.cpu };
        others.reservations.push(set_aside);
        let messages = messages(&config, wanted.iter(), reserved);
        let spec = messages.sender.expect("said");
        assert_eq!(
            Egress::of(&spec, spec.costs.expect("said"), Service::ZERO),
            Ok(config.egress())
        );
        let rates = messages.channels.iter().map(|channel| {
            let rate = config.carrier().rate_of(channel.arrivals());
            rate.map_or(u64::MAX / 8, BitRate::bits_per_second)
        });
        let on_link = rates.sum::<u64>() < config.link.bits_per_second();
        let whole =
            within && on_link && admit(&others, &host).is_ok() && admit(&messages, &host).is_ok();

        let mut system = System::new(host, UpcallOrder::LevelOrder);
        let mut admission = AdmissionState::new(host, UpcallOrder::LevelOrder);
        let set_aside = system.carry(config.carrier(), &mut Steps::default());
        assert_eq!(set_aside, admission.carry_channels(config.clone()), "seed {seed}");
        let mut all = set_aside.is_ok();
        let channels = wanted.iter().cloned().map(Wanted::Channel);
        let mut entries: Vec<Wanted> =
            grants.into_iter().map(Wanted::Grant).chain(channels).collect();
        entries.shuffle(rng);
        if set_aside.is_err() {
            entries.clear();
        }
        let (mut decided, mut entered) = (true, Vec::new());
        for (id, wanted) in (0..).zip(&entries) {
            let ask = |system: &mut System<u64>, steps| match wanted {
                Wanted::Grant(what) => {
                    asked(what, |request| system.admit(id, request, &mut Steps::new(steps)))
                }
                Wanted::Channel(want) => asked_for(want, config.cut.packet_bytes(), |request| {
                    system.admit(id, request, &mut Steps::new(steps))
                }),
            };
            let one = ask(&mut system, STEPS).map(drop);
            let other = match wanted {
                Wanted::Grant(what) => {
                    admission.admit(GrantId(id), &requester, what, now).map(drop)
                }
                Wanted::Channel(want) => admission.admit_channel(GrantId(id), &requester, want),
            };
            assert_eq!(one, other, "seed {seed}");
            if let Err(refusal) = one {
                *by_test.entry(refusal.test).or_default() += 1;
                all = false;
                if let Wanted::Channel(newest) = wanted
                    && ["channel-delay", "processor"].contains(&refusal.test)
                    && config.best_effort_ppm == 0
                {
                    let same = is_said_by_admit(&refusal, &config, newest, &entered, &host);
                    said[usize::from(same)] += 1;
                }
                // Requests that are not decided within a broker's steps are refused.
                decided &= ask(&mut system.clone(), 10 * STEPS).is_err();
            } else {
                entered.push(wanted);
            }
        }
        undecided += u64::from(!decided);
        if !decided {
            continue;
        }
        let system_keeps_more = config.best_effort_ppm > 0;
        let those = || {
            let answers = [&messages, &others].map(|contract| admit(contract, &host).err());
            format!("seed {seed}: {answers:?} {on_link} {config:?} {messages:?} {others:?}")
        };
        assert!(all || !whole || system_keeps_more, "{}", those());
        if all && !whole {
            let refusal = admit(&messages, &host).expect_err("the others are admitted");
            let sends = messages.sender.map(|sender| sender.best_effort);
            let unpromised = sends != Some(BestEffort::None);
            assert!(unpromised && refusal.test == "receiving", "{refusal} {}", those());
            by_receiving += 1;
        }
        admitted += u64::from(all);
        equal += u64::from(!system_keeps_more && all);
        only_by_admit += u64::from(whole && !all);
    }
    let counts = format!(
        "{admitted} of {count} admitted, {equal} where both must say the same; {only_by_admit} by admit only; \
         {undecided} not decided; refused by {by_test:?}, channels as by admit {said:?}; \
         {by_receiving} by receiving in admit only"
    );
    println!("{counts}");
    let tests = ["reservable-bandwidth", "response-time", "link", "processor", "channel-delay"];
    let often = |test: &&str| by_test.get(*test).is_some_and(|times| *times > count / 1_000);
    assert!(tests.iter().all(often) && equal.min(said[1]) > count / 20, "{counts}");
    assert!(said[0] < said[1] / 4, "{counts}");
    assert!(by_receiving < count / 100, "{counts}");
    assert!(undecided <= count / 1_000, "{counts}");
}
