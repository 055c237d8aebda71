//! One contract, one answer: whoever is asked.
//!
//! A contract of upcalls and of the kernel's reservations on one CPU is asked of
//! - `admit`, as a whole;
//! - [`System`], entry by entry, in a drawn order;
//! - the broker's [`Books`] in that order, each entry a grant, with a quota that nothing exceeds;
//! - the upcalls of a process ([`Upcalls::create`]), which know no reservations of others.
//!
//! The relations, which are tested:
//! 1. `System` admits all if and only if `admit` does and all shares together are within what may be promised of the
//!    CPU. (`admit` holds reservations to that, and upcalls to their deadlines only: what is in time beneath the
//!    reservations of its own contract may use a whole CPU. A host keeps some of each for others.)
//! 2. `Books` say what `System` says, entry by entry, and name the same test.
//! 3. Without reservations and without containment, a process admits all upcalls if and only if `admit` does. With
//!    reservations `admit` admits no more than the process does.
//! 4. With containment, which adds blocking, a process admits no more than without.

use punctual_analysis::{Request, Steps, System, UpcallOrder, admit};
use punctual_broker::books::{Asker, Books};
use punctual_broker::config::{Quota, QuotaOf};
use punctual_broker::grant::GrantId;
use punctual_broker::want::{Kind, What};
use punctual_model::contract::NamedReservation;
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

/// Periods that share factors and periods that do not.
fn period(rng: &mut ChaCha8Rng) -> u64 {
    if rng.random() {
        [5_000, 10_000, 20_000, 40_000][rng.random_range(0..4)]
    } else {
        rng.random_range(2_000..50_000)
    }
}

fn upcall(rng: &mut ChaCha8Rng, part: u64) -> Upcall {
    let period = period(rng);
    let batch = rng.random_range(1..6);
    let most = (1_000 * period / part / u64::from(batch)).max(2);
    Upcall::new(UpcallSpec {
        name: "u".into(),
        period: Duration::from_micros(period),
        batch,
        quantum: rng.random_range(1..=batch),
        time_per_pdu: Service::from_nanos(rng.random_range(1..=most)),
    })
    .expect("valid")
}

fn reservation(rng: &mut ChaCha8Rng, part: u64) -> Reservation {
    // Now and then a shorter one, or a longer period, than the kernel takes.
    let period = if rng.random_ratio(1, 40) { 5_000_000 } else { period(rng) };
    let most = (1_000 * period / part).max(2);
    let least = if rng.random_ratio(1, 40) { 1 } else { most.min(2_000) };
    let budget = Service::from_nanos(rng.random_range(least..=most));
    Reservation::new(budget, Duration::from_micros(period)).expect("valid")
}

fn contract(rng: &mut ChaCha8Rng) -> Contract {
    let (upcalls, reservations) = (rng.random_range(1..8u32), rng.random_range(0..4u32));
    let reservations = if rng.random() { 0 } else { reservations };
    // Together from about half of the CPU to more than all of it.
    let part = (u64::from(upcalls + reservations) * rng.random_range(2..5) / 4).max(1);
    let mut contract = Contract::of_upcalls((0..upcalls).map(|_| upcall(rng, part)).collect());
    let named =
        |at| NamedReservation { name: format!("r{at}"), reservation: reservation(rng, part) };
    contract.reservations = (0..reservations).map(named).collect();
    contract
}

/// What a contract asks for, as the broker is asked for it.
fn entries(contract: &Contract) -> Vec<What> {
    let upcalls = contract.upcalls.iter().map(|upcall| What::Upcalls(vec![upcall.clone()]));
    let reserved = contract.reservations.iter().map(|named| What::Reservation(named.reservation));
    upcalls.chain(reserved).collect()
}

fn created(contract: &Contract, host: HostProfile, contained: bool) -> bool {
    let upcalls = Upcalls::new(Placement::Upcalls, host);
    let mut upcalls = if contained { upcalls } else { upcalls.without_containment() };
    contract.upcalls.iter().all(|upcall| upcalls.create(upcall.clone(), Idle).is_ok())
}

fn without_limit() -> Asker {
    let quota = Quota {
        share_ppm: u64::MAX / 2,
        max_grants: u32::MAX,
        shortest_period: Duration::from_nanos(1),
        least_reservation_ppm: 0,
        allow: [Kind::Upcalls, Kind::Reservation].into(),
        ..Quota::default()
    };
    Asker { uid: 1, quota: QuotaOf { quota, group: None } }
}

/// More of them: `PUNCTUAL_DRAWS=100000 cargo test …`.
#[test]
fn a_contract_gets_one_answer_whoever_is_asked() {
    let count = std::env::var("PUNCTUAL_DRAWS").ok().and_then(|count| count.parse().ok());
    let count: u64 = count.unwrap_or(600);
    let (asker, now) = (without_limit(), Instant::from_nanos(1));
    let (mut admitted, mut refused, mut by_share, mut in_processes) = (0, 0, 0, 0);
    for seed in 0..count {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let contract = contract(rng);
        let context_switch = Service::from_micros(rng.random_range(0..4));
        let wake_up = Service::from_micros(rng.random_range(0..2) * rng.random_range(0..300));
        let host = HostProfile { context_switch, wake_up, ..HostProfile::ideal(1) };
        let whole = admit(&contract, &host).is_ok();

        let mut entries = entries(&contract);
        let together: u64 = entries.iter().map(What::share_ppm).sum();
        entries.shuffle(rng);
        let mut system = System::new(host, UpcallOrder::Ceiling);
        let mut books = Books::new(host, UpcallOrder::Ceiling);
        let mut all = true;
        for (id, what) in (0..).zip(&entries) {
            let tasks: Vec<Task>;
            let request = match what {
                What::Upcalls(upcalls) => {
                    tasks = upcalls.iter().map(Task::from).collect();
                    Request::Executor(&tasks)
                }
                What::Reservation(reservation) => Request::Deadline(*reservation),
                What::Priority { .. } => unreachable!("not drawn"),
            };
            let one = system.admit(id, request, &mut Steps::default()).map_err(|no| no.test);
            let other = books.admit(GrantId(id), &asker, what, now).map_err(|no| no.test);
            assert_eq!(one.map(drop), other.map(drop), "seed {seed}: {what}");
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
    println!("{admitted} of {count} admitted, {refused} refused by all");
    let counts = format!("{admitted} {refused} {by_share} {in_processes}");
    assert!(
        u64::from(admitted.min(refused)) > count / 10 && by_share.min(in_processes) > 5,
        "{counts}"
    );
}
