//! Compares a system of admitted entries with one examination of all of them, over random sequences
//! of requests.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use punctual_model::channel::{BitRate, Channel, Direction, LinearBounded, Link, Packetisation};
use punctual_model::contract::NamedReservation;
use punctual_model::{
    Contract, Duration, HostProfile, Policy, Reservation, Service, Task, TaskSpec,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{BackEnd, Carrier, Request, System, UpcallOrder};
use crate::admit;
use crate::channel::egress::Egress;
use crate::channel::processor::Processor;
use crate::fixed_priority::all_in_time;
use crate::load::CpuLoad;
use crate::reservation::of_the_kernel;
use crate::steps::Steps;

#[derive(Clone, Debug)]
enum Wanted {
    Executor(Vec<Task>),
    Deadline(Reservation),
    Share(u64),
}

impl Wanted {
    fn draw(rng: &mut ChaCha8Rng, part: u64, reserving: bool) -> Self {
        let period = rng.random_range(5_000..60_000u64);
        let most = (period / part).max(2);
        match rng.random_range(0..8) {
            0 if reserving => {
                let budget = Service::from_micros(rng.random_range(1..=most));
                let period = Duration::from_micros(period);
                Self::Deadline(Reservation::new(budget, period).expect("valid"))
            }
            1 => Self::Share(rng.random_range(1_000..30_000)),
            _ => {
                let count = rng.random_range(1..4);
                Self::Executor((0..count).map(|_| task(rng, period, most)).collect())
            }
        }
    }

    fn request(&self) -> Request<'_> {
        match self {
            Self::Executor(tasks) => Request::Executor(tasks),
            Self::Deadline(reservation) => Request::Deadline(*reservation),
            Self::Share(ppm) => Request::Share(*ppm),
        }
    }
}

fn task(rng: &mut ChaCha8Rng, period: u64, most: u64) -> Task {
    let period = if rng.random() { period } else { rng.random_range(period..2 * period) };
    let wcet = rng.random_range(1..=most);
    let quantum = Service::from_micros(rng.random_range(1..=wcet));
    let (period, wcet) = (Duration::from_micros(period), Service::from_micros(wcet));
    Task::new(TaskSpec { quantum, ..TaskSpec::periodic("t", period, wcet) }).expect("valid")
}

/// All requests for one CPU or for all of them together.
#[derive(Default)]
struct Whole {
    tasks: Vec<Task>,
    reservations: Vec<NamedReservation>,
}

impl Whole {
    fn of<'a>(all: impl IntoIterator<Item = &'a Wanted>) -> Self {
        let mut whole = Self::default();
        for wanted in all {
            match wanted {
                Wanted::Executor(tasks) => whole.tasks.extend(tasks.iter().cloned()),
                Wanted::Deadline(reservation) => whole.reservations.push(NamedReservation {
                    name: format!("r{}", whole.reservations.len()),
                    reservation: *reservation,
                }),
                Wanted::Share(_) => {}
            }
        }
        whole
    }

    fn fits(self, host: HostProfile) -> bool {
        let mut contract = Contract::of_tasks(Policy::Rmdp, 1, self.tasks);
        contract.reservations = self.reservations;
        admit(&contract, &host).is_ok()
    }

    fn keeps_time(mut self, context_switch: Service) -> bool {
        self.tasks.sort_by_key(Task::min_inter_arrival);
        let reservations = self.reservations.iter().map(|named| named.reservation);
        let load = CpuLoad::new(&self.tasks, reservations, context_switch);
        all_in_time(&load, &mut Steps::default())
    }
}

fn share<'a>(all: impl IntoIterator<Item = &'a Wanted>) -> u64 {
    all.into_iter().map(|wanted| wanted.request().share_ppm()).sum()
}

fn host(cpus: u16, seed: u64) -> HostProfile {
    HostProfile { context_switch: Service::from_micros(seed % 4), ..HostProfile::ideal(cpus) }
}

/// On one CPU: all entries are within the share that may be reserved of it, and are admitted as one
/// contract.
#[test]
fn a_system_of_one_cpu_admits_what_one_examination_of_all_of_it_admits() {
    let (mut admitted, mut refused) = (0, 0);
    for seed in 0..60 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let host = host(1, seed);
        let part = [4, 12, 40][seed as usize % 3];
        // Beneath a reservation bands prove nothing.
        let reserving = seed % 2 == 0;
        let mut system = System::new(host, UpcallOrder::LevelOrder);
        let mut live: BTreeMap<u64, Wanted> = BTreeMap::new();
        for id in 0..60 {
            let ids: Vec<u64> = live.keys().copied().collect();
            let mut wished = live.clone();
            let mut leaving: Vec<u64> =
                ids.iter().copied().filter(|_| rng.random_ratio(1, 12)).collect();
            leaving.truncate(2);
            leaving.iter().for_each(|id| _ = wished.remove(id));
            let mut entering = vec![(id, Wanted::draw(rng, part, reserving))];
            if let Some(&again) = leaving.first()
                && rng.random()
            {
                entering.push((again, Wanted::draw(rng, part, reserving)));
            }
            wished.extend(entering.iter().cloned());
            let expected = share(wished.values()) <= host.reservable_ppm
                && Whole::of(wished.values()).fits(host);
            let requests: Vec<_> = entering.iter().map(|(id, one)| (*id, one.request())).collect();
            let steps = &mut Steps::default();
            let answer = system.exchange(&leaving, &requests, None, steps);
            assert_eq!(answer.is_ok(), expected, "seed {seed}, request {id}: {answer:?}");
            match answer {
                Ok(_) => {
                    admitted += 1;
                    live = wished;
                }
                Err(_) => refused += 1,
            }
            let kept: Vec<_> = live.keys().map(|id| system.back_end(*id).is_some()).collect();
            assert!(kept.iter().all(|kept| *kept));
            assert_eq!(system.granted_ppm(), share(live.values()), "seed {seed}, request {id}");
            if let Some((&gone, _)) = live.iter().next()
                && rng.random_ratio(1, 4)
            {
                live.remove(&gone);
                assert!(system.release(gone) && !system.release(gone));
            }
        }
    }
    assert!(admitted > 500 && refused > 500, "{admitted} admitted, {refused} refused");
}

/// On several CPUs: beneath all reservations of the host, and on the fullest CPU that has room.
#[test]
fn tasks_are_refused_only_where_no_cpu_has_room_for_them() {
    let (mut admitted, mut refused) = (0, 0);
    for seed in 0..40 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let host = host(3, seed);
        let mut system = System::new(host, UpcallOrder::LevelOrder);
        let mut live: BTreeMap<u64, Wanted> = BTreeMap::new();
        for id in 0..60 {
            let wanted = Wanted::draw(rng, 6, true);
            let on = |system: &System<u64>, cpu| {
                let here = |id: &u64| match system.back_end(*id) {
                    Some(BackEnd::Executor { cpu: other }) => cpu == other,
                    Some(BackEnd::Deadline) => true,
                    _ => false,
                };
                live.iter().filter(|(id, _)| here(id)).map(|(_, one)| one).collect::<Vec<_>>()
            };
            let fits = |cpu: u16| {
                let mut here = on(&system, cpu);
                here.push(&wanted);
                let is_executor = |one: &&Wanted| matches!(one, Wanted::Executor(_));
                let share = share(here.iter().copied().filter(is_executor));
                share <= host.reservable_ppm && Whole::of(here).keeps_time(host.context_switch)
            };
            let mut fit = (0..host.cpus).filter(|&cpu| fits(cpu)).collect::<Vec<_>>();
            if share(live.values().chain([&wanted])) > system.capacity_ppm() {
                fit.clear();
            }
            let expected = match wanted {
                Wanted::Executor(_) => !fit.is_empty(),
                Wanted::Deadline(_) => fit.len() == usize::from(host.cpus),
                Wanted::Share(_) => share(live.values().chain([&wanted])) <= system.capacity_ppm(),
            };
            let answer = system.admit(id, wanted.request(), &mut Steps::default());
            assert_eq!(answer.is_ok(), expected, "seed {seed}, request {id}: {answer:?}");
            let Ok(back_end) = answer else {
                refused += 1;
                continue;
            };
            if let BackEnd::Executor { cpu } = back_end {
                assert!(fit.contains(&cpu));
            }
            assert_eq!(system.back_end(id), Some(back_end));
            live.insert(id, wanted);
            admitted += 1;
        }
    }
    assert!(admitted > 400 && refused > 400, "{admitted} admitted, {refused} refused");
}

#[test]
fn whoever_only_asks_changes_nothing() {
    let mut system = System::new(HostProfile::ideal(1), UpcallOrder::FixedLevel);
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    for id in 0..200u64 {
        let (wanted, steps) = (Wanted::draw(rng, 8, true), &mut Steps::default());
        let before = system.granted_ppm();
        let asked = system.would_admit(id, wanted.request(), steps);
        assert_eq!((system.back_end(id), system.granted_ppm()), (None, before));
        assert_eq!(system.admit(id, wanted.request(), steps), asked);
    }
}

fn carrier() -> Carrier {
    let link = BitRate::new(100_000_000).expect("a rate");
    // 80 ns a byte.
    let wire = Link::with_picos(Duration::from_micros(10), 80_000).expect("fast enough");
    let cut = Packetisation::new(1_440, 1).expect("valid");
    let (packet, cpu) = (Service::from_micros(5), "4ms/10ms".parse().expect("valid"));
    let egress = Egress::new(wire, cut, packet, cpu, Duration::from_micros(100));
    let egress = egress.expect("fast enough");
    Carrier {
        egress,
        change: Service::ZERO,
        cpu: None,
        link: Some(link),
        headers: 118,
        best_effort_ppm: 0,
        received_packet: packet,
    }
}

fn channel(rng: &mut ChaCha8Rng) -> Channel {
    let (bytes, spacing) = (rng.random_range(1..=3_000), rng.random_range(500..20_000));
    let arrivals = LinearBounded::fixed(bytes, Duration::from_micros(spacing), 1).expect("valid");
    let bound = Duration::from_micros(rng.random_range(300..10_000));
    Channel::new("c", &arrivals.into(), bound).expect("valid")
}

/// Channels and reservations come, go and are exchanged. A request is admitted exactly if a new
/// examination of everything admits it, and a refusal leaves link, processor and reservations as
/// they were.
#[test]
fn a_system_admits_the_channels_that_one_examination_of_all_of_them_admits() {
    let (mut admitted, mut by_test) = (0, BTreeMap::<(&str, bool), u32>::new());
    for seed in 0..60 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let mut system = System::new(HostProfile::ideal(2), UpcallOrder::LevelOrder);
        let refused = system.admit(0, Request::BestEffort(Direction::Send), &mut Steps::default());
        assert_eq!(refused.expect_err("nothing carries it").test, "link");
        system.carry(carrier(), &mut Steps::default()).expect("alone");
        let figures = |system: &System<u64>| {
            format!("{:?} {:?} {}", system.carried, system.of_the_kernel, system.granted_ppm)
        };
        let mut channels: BTreeMap<u64, Channel> = BTreeMap::new();
        let mut reserved: BTreeMap<u64, Reservation> = BTreeMap::new();
        for id in 0..80 {
            let all: Vec<u64> = channels.keys().chain(reserved.keys()).copied().collect();
            let leaving: Vec<u64> =
                all.into_iter().filter(|_| rng.random_ratio(1, 20)).take(2).collect();
            let (mut sent, mut above) = (channels.clone(), reserved.clone());
            leaving.iter().for_each(|id| {
                sent.remove(id);
                above.remove(id);
            });
            let (one, budget) = (channel(rng), rng.random_range(50..2_000));
            let period = Duration::from_micros(budget * rng.random_range(5..40));
            let reservation = Reservation::new(Service::from_micros(budget), period);
            let reservation = reservation.expect("valid");
            let request = if rng.random_ratio(1, 6) {
                above.insert(id, reservation);
                Request::Deadline(reservation)
            } else {
                sent.insert(id, one.clone());
                Request::Sending(&one)
            };
            let list: Vec<Channel> = sent.values().cloned().collect();
            let beneath: Vec<Reservation> = above.values().copied().collect();
            let share: u64 = beneath.iter().map(|one| one.utilisation_ppm()).sum();
            let rates = list.iter().filter_map(|one| carrier().rate_of(one.arrivals()));
            let mut processor = Processor::new(carrier().egress, 0, carrier().received_packet);
            let expected = share + 400_000 <= system.capacity_ppm()
                && rates.map(BitRate::bits_per_second).sum::<u64>() < 100_000_000
                && list.iter().all(|one| processor.add(one, &beneath).is_ok())
                && carrier().egress.all_in_time(
                    &list,
                    &of_the_kernel(beneath.iter().copied()),
                    &mut Steps::default(),
                );
            let before = figures(&system);
            let answer = system.exchange(&leaving, &[(id, request)], None, &mut Steps::default());
            assert_eq!(answer.is_ok(), expected, "seed {seed}, request {id}: {answer:?}");
            match answer {
                Ok(_) => {
                    admitted += 1;
                    (channels, reserved) = (sent, above);
                }
                Err(refusal) => {
                    let is_beneath = refusal.why.starts_with("beneath it, ");
                    *by_test.entry((refusal.test, is_beneath)).or_default() += 1;
                    assert_eq!(figures(&system), before, "seed {seed}, request {id}");
                }
            }
        }
        channels.keys().chain(reserved.keys()).for_each(|id| assert!(system.release(*id)));
        let mut empty = System::<u64>::new(HostProfile::ideal(2), UpcallOrder::LevelOrder);
        empty.carry(carrier(), &mut Steps::default()).expect("alone");
        assert_eq!(figures(&system), figures(&empty), "seed {seed}");
    }
    let often =
        |is_beneath| by_test.get(&("channel-delay", is_beneath)).is_some_and(|times| *times > 20);
    assert!(often(true) && often(false) && admitted > 1_000, "{admitted} {by_test:?}");
}

/// A host names the nearest CPU with its numbers, as `admit` does for a whole contract.
#[test]
fn tasks_that_fit_on_no_cpu_are_refused_in_the_words_of_admit() {
    let task = |name: &str, wcet, period, deadline| {
        let spec =
            TaskSpec::periodic(name, Duration::from_millis(period), Service::from_millis(wcet));
        let relative_deadline = Duration::from_millis(deadline);
        Task::new(TaskSpec { relative_deadline, ..spec }).expect("valid")
    };
    let tasks = [task("a", 7, 10, 10), task("b", 6, 10, 10), task("c", 3, 20, 8)];
    let host = HostProfile::ideal(2);
    let whole = admit(&Contract::of_tasks(Policy::Rm, 2, tasks.to_vec()), &host);
    let whole = whole.expect_err("a CPU has 9 ms of work within 8 ms");
    let mut system = System::new(host, UpcallOrder::LevelOrder);
    let mut admit = |at: usize| {
        let request = Request::Executor(&tasks[at..=at]);
        system.admit(at, request, &mut Steps::default())
    };
    assert_eq!([0, 1].map(|at| admit(at).is_ok()), [true; 2]);
    let refusal = admit(2).expect_err("likewise");
    let nearest = "; nearest on CPU 1, where task \"c\" ";
    for why in [&whole.why, &refusal.why] {
        assert!(why.starts_with("task \"c\" fits on none of the 2 CPUs"), "{why}");
        assert!(why.contains(nearest), "{why}");
    }
    let [one, other] = [&whole.why, &refusal.why].map(|why| why.split(nearest).nth(1));
    assert_eq!(one, other);
    assert_eq!((refusal.test, refusal.shortfall), ("response-time", whole.shortfall));
}
