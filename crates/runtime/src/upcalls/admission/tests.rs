//! Checks that step-by-step admission in any order answers as one examination of everything does.

use punctual_analysis::admit;
use punctual_model::{BestEffortSpec, Contract, Policy, Task, TaskSpec, UpcallSpec};

use super::*;

/// A pseudo-random generator that draws upcalls from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % n
    }

    fn upcall(&mut self, parts: u64) -> Upcall {
        let period = Duration::from_micros([10_000, 20_000, 25_000][self.below(3) as usize]);
        let period = if self.below(2) == 0 {
            period
        } else {
            period + Duration::from_micros(self.below(30_000))
        };
        let quantum = 1 + self.below(4) as u32;
        let batch = quantum * (1 + self.below(3) as u32);
        let most = period.as_nanos() / u64::from(batch) / parts;
        let time_per_pdu = Service::from_nanos(1 + self.below(most));
        let spec = UpcallSpec { name: "u".into(), period, batch, quantum, time_per_pdu };
        Upcall::new(spec).expect("valid")
    }

    fn best_effort(&mut self) -> BestEffort {
        let time_per_pdu = Service::from_micros(1 + self.below(300));
        let poll = Duration::from_millis(20);
        let spec = BestEffortSpec { name: "b".into(), weight: 1, quantum: 1, time_per_pdu, poll };
        BestEffort::new(spec).expect("valid")
    }
}

/// Decides by computing the blocking from its definition and examining everything at once.
fn fits_at_once(works: &BTreeMap<u32, Work>, host: &HostProfile, grace: Option<Duration>) -> bool {
    let put_aside = grace.map(|grace| grace.as_full_service() + TAKE_OVER);
    let upcalls: Vec<Upcall> = works.values().filter_map(Work::real_time).cloned().collect();
    let of_best_effort = works.values().filter(|work| work.real_time().is_none());
    let mut stretch =
        of_best_effort.map(|work| work.quantum_service() + put_aside.unwrap_or_default()).max();
    if let (true, Some(put_aside)) = (upcalls.len() > 1, put_aside) {
        let longest = upcalls.iter().map(Upcall::quantum_service).max().expect("two");
        stretch = stretch.max(Some(longest + put_aside));
    }
    let mut contract = Contract::of_upcalls(upcalls);
    assert_eq!(contract.policy, Policy::Rmdp);
    contract.tasks.extend(stretch.map(|stretch| {
        let spec = TaskSpec::periodic("blocking", Duration::from_secs(24 * 3600), stretch);
        Task::new(spec.non_preemptive()).expect("valid")
    }));
    admit(&contract, host).is_ok()
}

#[test]
fn admission_one_by_one_agrees_with_one_examination() {
    let (mut admitted, mut refused) = (0, 0);
    for seed in 0..30 {
        let mut draw = Draw(seed);
        let parts = [3, 10, 30][seed as usize % 3];
        let grace = (seed % 2 == 0).then_some(Duration::from_micros(400));
        let host =
            HostProfile { context_switch: Service::from_micros(seed % 4), ..HostProfile::ideal(1) };
        let mut promises = Promises::new(Placement::Upcalls, host, grace);
        let mut works: BTreeMap<u32, Work> = BTreeMap::new();
        for task in 0..60 {
            let some = works.keys().nth(draw.below(works.len().max(1) as u64) as usize).copied();
            let (answer, wished) = match (draw.below(8), some) {
                (0, Some(gone)) => {
                    assert!(promises.remove(gone, None) && !promises.remove(gone, None));
                    works.remove(&gone);
                    continue;
                }
                (1 | 2, Some(other)) if works[&other].real_time().is_some() => {
                    let upcall = draw.upcall(parts);
                    let answer = promises.change(other, upcall.clone(), None);
                    (answer, (other, Work::RealTime(upcall)))
                }
                (3, _) if grace.is_some() => {
                    let work = Work::BestEffort(draw.best_effort());
                    (promises.add(task, work.clone(), None), (task, work))
                }
                _ => {
                    let work = Work::RealTime(draw.upcall(parts));
                    (promises.add(task, work.clone(), None), (task, work))
                }
            };
            let before = works.insert(wished.0, wished.1);
            let expected = fits_at_once(&works, &host, grace);
            assert_eq!(answer.is_ok(), expected, "seed {seed}, request {task}");
            if expected {
                admitted += 1;
                continue;
            }
            refused += 1;
            match before {
                Some(before) => works.insert(wished.0, before),
                None => works.remove(&wished.0),
            };
        }
        let kept: Vec<u32> = promises.members.keys().copied().collect();
        assert_eq!(kept, works.keys().copied().collect::<Vec<_>>());
    }
    assert!(admitted > 500 && refused > 200, "{admitted} admitted, {refused} refused");
}

#[test]
fn a_change_that_is_refused_leaves_the_promise() {
    let mut draw = Draw(5);
    let grace = Some(Duration::from_micros(100));
    let mut promises = Promises::new(Placement::Upcalls, HostProfile::ideal(1), grace);
    let upcall = draw.upcall(100);
    promises.add(7, Work::RealTime(upcall.clone()), None).expect("alone");
    promises.add(8, Work::RealTime(upcall.clone()), None).expect("small");
    let spec = UpcallSpec {
        name: "all".into(),
        period: Duration::from_millis(10),
        batch: 1,
        quantum: 1,
        time_per_pdu: Service::from_millis(10),
    };
    let all = Upcall::new(spec).expect("valid");
    assert!(matches!(promises.change(7, all, None), Err(CreateError::Refused(_))));
    assert!(matches!(promises.of(7), Some(Work::RealTime(same)) if *same == upcall));
    assert!(matches!(promises.change(9, upcall, None), Err(CreateError::NoSuchUpcall { task: 9 })));
}

#[test]
fn inside_a_reservation_the_sum_follows_additions_and_removals() {
    let reservation: Reservation = "2ms/10ms".parse().expect("valid");
    let placement = Placement::Reserved(reservation);
    let mut promises = Promises::new(placement, HostProfile::ideal(1), None);
    let spec = |work| UpcallSpec {
        name: "u".into(),
        period: Duration::from_millis(10),
        batch: 1,
        quantum: 1,
        time_per_pdu: Service::from_millis(work),
    };
    let of = |work| Work::RealTime(Upcall::new(spec(work)).expect("valid"));
    for _ in 0..3 {
        promises.add(0, of(1), None).expect("a tenth of two");
        promises.add(1, of(1), None).expect("all of it");
        let needed = promises.add(2, of(1), None).expect_err("too much");
        let CreateError::Refused(refusal) = needed else { panic!("{needed}") };
        assert_eq!(refusal.test, "reservation-share");
        assert_eq!(refusal.shortfall, Some(Shortfall::Share(100_000)));
        assert!(refusal.why.contains("30.0 %") && refusal.why.contains("20.0 %"), "{refusal}");
        assert!(promises.remove(0, None) && promises.remove(1, None));
    }
}

/// 5 of 10 ms above 10 of 20 ms: at 5 ms, after its job, the first goes, and one like it comes. The second would wait for jobs
/// at 0, 5 and 15 ms.
#[test]
fn the_place_of_an_upcall_that_ran_is_free_when_the_others_feel_it_no_more() {
    let of = |period: u64, batch: u32| {
        let spec = UpcallSpec {
            name: "u".into(),
            period: Duration::from_millis(period),
            batch,
            quantum: 1,
            time_per_pdu: Service::from_millis(1),
        };
        Work::RealTime(Upcall::new(spec).expect("valid"))
    };
    let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
    let both = || {
        let host = HostProfile { reservable_ppm: 1_000_000, ..HostProfile::ideal(1) };
        let mut promises = Promises::new(Placement::Upcalls, host, None);
        promises.add(0, of(20, 9), None).expect("less than half");
        promises.add(1, of(10, 5), None).expect("beside it");
        promises
    };
    let mut promises = both();
    assert!(promises.remove(1, Some(at(5))));
    let CreateError::Refused(refusal) = promises.add(2, of(10, 5), Some(at(5))).expect_err("late")
    else {
        panic!("it is refused")
    };
    assert!(refusal.why.ends_with("; what has left counts for up to 32ms more"), "{refusal}");
    promises.add(2, of(10, 5), Some(at(37))).expect("nothing is felt of it any more");
    // Or after the CPU had nothing to do.
    let mut promises = both();
    assert!(promises.remove(1, Some(at(5))));
    promises.idle(at(4));
    assert!(promises.add(2, of(10, 5), Some(at(14))).is_err());
    promises.idle(at(14));
    promises.add(2, of(10, 5), Some(at(14))).expect("nothing is felt of it any more");
    // What an upcall gives back is free as late.
    let mut promises = both();
    let Work::RealTime(small) = of(10, 1) else { panic!("it is real-time") };
    promises.change(1, small, Some(at(5))).expect("less is never refused");
    assert!(promises.add(2, of(10, 4), Some(at(5))).is_err());
    promises.idle(at(14));
    promises.add(2, of(10, 4), Some(at(14))).expect("nothing is felt of it any more");
}
