//! Admission as a whole: the named entry, the offers, and the wording.

use std::collections::BTreeMap;

use crate::common::{Draw, TICK, Ticks, contract, draw, load, plain, response_ticks, utilisation};
use punctual_analysis::utilisation::{liu_layland, rmdp};
use punctual_analysis::{Axis, Offer, Refusal, Shortfall, admit, sensitivity};
use punctual_model::contract::NamedReservation;
use punctual_model::{Contract, Duration, HostProfile, Policy, Service};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const POLICIES: [Policy; 4] = [Policy::Rmdp, Policy::Rm, Policy::Fp, Policy::Edf];

fn refused(contract: &Contract) -> Box<Refusal> {
    admit(contract, &HostProfile::ideal(8)).expect_err("must be refused")
}

#[test]
fn a_counter_offer_taken_is_admitted() {
    let mut rng = ChaCha8Rng::seed_from_u64(21);
    let host = HostProfile { context_switch: Service::from_nanos(100), ..HostProfile::ideal(3) };
    let (mut along, mut none) = (BTreeMap::new(), 0);
    for round in 0..600 {
        let how = Draw {
            tasks: 6,
            longest: 60,
            jitter: rng.random(),
            quanta: rng.random(),
            any_deadline: rng.random(),
        };
        let system = draw(&mut rng, how);
        let reserved: &[(u64, u64)] = if rng.random() { &[] } else { &[(9, 20), (5, 10)] };
        let cpus = rng.random_range(1..=3);
        let contract = contract(POLICIES[round % 4], cpus, &system, reserved);
        let Err(refusal) = admit(&contract, &host) else { continue };
        none += usize::from(refusal.offers.is_empty());
        for offer in &refusal.offers {
            let changed = offer.taken(&contract).expect("the offer makes a valid contract");
            assert!(admit(&changed, &host).is_ok(), "round {round}: {refusal}\n{contract:?}");
            *along.entry(offer.axis.name()).or_insert(0) += 1;
            // Less work never hurts on one CPU, so there no larger number fits.
            if cpus == 1 && matches!(offer.axis, Axis::Wcet | Axis::Budget | Axis::Quantum) {
                let more = Offer { to: offer.to + 1, ..offer.clone() };
                let more = more.taken(&contract).expect("valid");
                assert!(admit(&more, &host).is_err(), "round {round}: not the largest: {refusal}");
            }
        }
    }
    for axis in ["wcet", "period", "relative_deadline", "cpus"] {
        assert!(along.get(axis).is_some_and(|&count| count > 8), "{axis}: {along:?}");
    }
    assert!(none > 0, "some contracts are beyond one change");
}

/// The slack of an admitted contract: the limit found still fits, and one unit more does not.
#[test]
fn sensitivity_is_the_exact_limit() {
    let mut rng = ChaCha8Rng::seed_from_u64(23);
    let host = HostProfile::ideal(1);
    let mut seen = 0;
    for round in 0..150 {
        let how = Draw {
            tasks: 4,
            longest: 40,
            jitter: rng.random(),
            quanta: rng.random(),
            any_deadline: rng.random(),
        };
        let contract = contract(POLICIES[round % 4], 1, &draw(&mut rng, how), &[]);
        if admit(&contract, &host).is_err() {
            continue;
        }
        for growth in sensitivity(&contract, &host, 100_000_000).numbers {
            if growth.to != growth.from {
                let grown = growth.taken(&contract).expect("valid");
                assert!(admit(&grown, &host).is_ok(), "round {round}: {growth:?}");
            }
            let further = if growth.to < growth.from || growth.axis == Axis::Period {
                growth.to - 1
            } else {
                growth.to + 1
            };
            let beyond = Offer { to: further, ..growth.clone() };
            let beyond = beyond.taken(&contract).filter(|contract| admit(contract, &host).is_ok());
            // A deadline may shrink below a jitter or a wcet, which makes the contract invalid.
            if growth.axis != Axis::RelativeDeadline {
                assert!(beyond.is_none(), "round {round}: {growth:?}");
            }
            seen += 1;
        }
    }
    assert!(seen > 300, "{seen}");
}

/// Random sets: liu-layland ⊂ rmdp-with-quanta-zero, rmdp ⊂ exact, and the inclusions are strict.
#[test]
fn sufficient_tests_admit_less_than_exact_analysis_and_nothing_else() {
    let mut rng = ChaCha8Rng::seed_from_u64(22);
    let (mut weak, mut with_quanta, mut exact) = (0, 0, 0);
    for _ in 0..4_000 {
        let how = Draw {
            tasks: 5,
            longest: 50,
            jitter: false,
            quanta: rng.random(),
            any_deadline: false,
        };
        let mut system = draw(&mut rng, how);
        system.sort_by_key(|task| task.period);
        let load = load(&system);
        let in_time = response_ticks(&load)
            .iter()
            .zip(&system)
            .all(|(response, task)| response.is_some_and(|response| response <= task.deadline));
        assert!(in_time || !rmdp(&load).admits, "{system:?}");
        assert!(rmdp(&load).admits || !liu_layland(&load).admits, "{system:?}");
        weak += usize::from(liu_layland(&load).admits);
        with_quanta += usize::from(rmdp(&load).admits);
        exact += usize::from(in_time);
    }
    assert!(0 < weak && weak < with_quanta && with_quanta < exact, "{weak} {with_quanta} {exact}");
}

#[test]
fn a_refusal_reads_as_a_sentence_with_its_numbers() {
    let system = plain(&[(100, 300), (100, 400), (120, 500)]);
    let refusal = refused(&contract(Policy::Rm, 1, &system, &[]));
    assert_eq!(
        refusal.to_string(),
        "refused by the response-time test for want of processor time: task \"t2\" can take 52ms, \
         which is 2ms more than its relative deadline of 50ms; it would be admitted if task \"t2\" \
         had a wcet of at most 10ms, or a period of at least 52ms, or a relative_deadline of at \
         least 52ms; or if [system] had cpus of at least 2"
    );
    assert_eq!(refusal.tasks[2].slack_ns(), Some(-2_000_000));
}

#[test]
fn without_a_finite_bound_there_is_no_shortfall_and_another_may_help() {
    let system = plain(&[(1, 2), (1, 3), (3, 9), (3, 18)]);
    let refusal = refused(&contract(Policy::Rm, 1, &system, &[]));
    assert_eq!((refusal.entry.as_deref(), refusal.shortfall), (Some("t2"), None));
    assert!(refusal.why.contains("no finite response time"), "{refusal}");
    assert!(!refusal.offers.is_empty(), "{refusal}");
}

/// No change of "t0" compensates a blocking of 12; "t1" with a wcet of 5 blocks for at most 5.
#[test]
fn an_offer_of_less_work_cuts_the_quantum_to_it() {
    let blocker = Ticks { quantum: 12, ..Ticks::plain(12, 20) };
    let blocked = Ticks { deadline: 10, ..Ticks::plain(5, 12) };
    let contract = contract(Policy::Rmdp, 1, &[blocked, blocker], &[]);
    let refusal = refused(&contract);
    assert_eq!(refusal.entry.as_deref(), Some("t0"));
    let offer = refusal.offers.along("t1", Axis::Wcet).expect("t1 can give way");
    assert_eq!(offer.to, 5 * TICK);
    let changed = offer.taken(&contract).expect("valid");
    assert_eq!(changed.tasks[1].quantum(), Service::from_nanos(5 * TICK));
    assert!(admit(&changed, &HostProfile::ideal(1)).is_ok());
}

/// "t0" is late by one tick, because "t1" cannot be preempted for eight.
#[test]
fn a_shorter_quantum_of_the_blocker_is_offered() {
    let blocker = Ticks { quantum: 8, ..Ticks::plain(10, 50) };
    let blocked = Ticks { deadline: 12, ..Ticks::plain(5, 20) };
    let refusal = refused(&contract(Policy::Rmdp, 1, &[blocked, blocker], &[]));
    let offer = refusal.offers.along("t1", Axis::Quantum).expect("t1 can give way");
    assert_eq!((offer.from, offer.to), (8 * TICK, 7 * TICK));
    assert_eq!(offer.to_string(), "a quantum of at most 700us");
    assert_eq!(refusal.offers.along("t0", Axis::Wcet).map(|offer| offer.to), Some(4 * TICK));
    let deadline = refusal.offers.along("t0", Axis::RelativeDeadline);
    assert_eq!(deadline.map(|offer| offer.to), Some(13 * TICK));
}

/// Twelve times 3 of 10: no change of one number is enough, but 27.7 % of all work fits.
#[test]
fn less_of_all_work_is_offered_if_no_single_number_helps() {
    let system = plain(&[(3_000, 10_000); 12]);
    for policy in [Policy::Edf, Policy::Rm, Policy::Fp] {
        let contract = contract(policy, 1, &system, &[]);
        let refusal = admit(&contract, &HostProfile::ideal(1)).expect_err("3.6 CPUs");
        let offer = refusal.offers.along("", Axis::Work).expect("less of everything");
        assert_eq!((refusal.offers.iter().count(), offer.from, offer.to), (1, 1_000, 277));
        let sentence = "it would be admitted if every task had at most 27.7 % of its wcet";
        assert!(refusal.to_string().contains(sentence), "{refusal}");
        let taken = offer.taken(&contract).expect("valid");
        assert_eq!(taken.tasks[7].wcet(), Service::from_nanos(831 * TICK));
        assert!(admit(&taken, &HostProfile::ideal(1)).is_ok());
    }
}

#[test]
fn reservations_are_bounded_by_reservable_ppm() {
    let contract = contract(Policy::Rm, 1, &[], &[(5, 10), (5, 10)]);
    let refusal = refused(&contract);
    assert_eq!((refusal.test, refusal.entry.as_deref()), ("reservable-bandwidth", Some("r1")));
    let along = |axis| refusal.offers.along("r1", axis).map(|offer| offer.to);
    assert_eq!(along(Axis::Budget), Some(4 * TICK), "40 % of 10 ticks are left");
    assert_eq!(along(Axis::Period), Some(25 * TICK / 2));
    assert_eq!(refusal.shortfall, Some(Shortfall::Time(Duration::from_nanos(TICK))));
    let host = HostProfile::ideal(2);
    let grant = admit(&Contract { cpus: 2, ..contract }, &host).expect("one each");
    assert_eq!(grant.reservations.iter().map(|r| r.cpu).collect::<Vec<_>>(), [0, 1]);
}

/// Within the whole bandwidth, but outside the limits of `sched_setattr`: budget and period too
/// short, period too long.
#[test]
fn requests_that_the_kernel_refuses_are_refused() {
    let refused = |text: &str| {
        let named = NamedReservation {
            name: "modem".into(),
            reservation: text.parse().expect("a reservation"),
        };
        let contract = Contract { reservations: vec![named], ..contract(Policy::Rm, 1, &[], &[]) };
        refused(&contract)
    };
    let often = refused("2us/50us");
    assert_eq!((often.test, often.entry.as_deref()), ("sched-deadline", Some("modem")));
    assert_eq!(
        often.to_string(),
        "refused by the sched-deadline test for want of reservable bandwidth: reservation \"modem\" of 2us/50us: it \
         wants a period of 50us, and the kernel takes only 100us to 4.194304s; it would be admitted if reservation \"modem\" had a \
         period of at least 100us"
    );
    assert_eq!(often.shortfall, Some(Shortfall::Time(Duration::from_micros(50))));
    let little = refused("1us/1ms");
    assert!(little.why.contains("wants a budget of 1us, and the kernel gives none below"));
    assert_eq!(little.shortfall, Some(Shortfall::Time(Duration::from_nanos(24))));
    let seldom = refused("10ms/5s");
    assert_eq!(seldom.test, "sched-deadline");
    let offer = seldom.offers.along("modem", Axis::Period).expect("a shorter one is taken");
    assert_eq!(offer.to_string(), "a period of at most 4.194304s");
}

/// A profile that promises more than the kernel's defaults does not override the kernel.
#[test]
fn the_kernel_has_the_last_word_on_bandwidth() {
    let host = HostProfile { reservable_ppm: 950_000, ..HostProfile::ideal(1) };
    let asked = |budget| contract(Policy::Rm, 1, &[], &[(budget, 100)]);
    assert!(admit(&asked(90), &host).is_ok());
    let refusal = admit(&asked(92), &host).expect_err("the fair server has 5 %");
    assert_eq!(refusal.test, "sched-deadline");
    assert!(refusal.why.contains("wants 920000 ppm of a CPU"), "{refusal}");
    assert!(refusal.why.contains("has 900000 ppm left"), "{refusal}");
    let offer = refusal.offers.along("r0", Axis::Budget).expect("less fits");
    assert_eq!(offer.to / TICK, 90);
}

#[test]
fn more_cpus_than_the_host_has_are_refused_by_name() {
    let contract = contract(Policy::Rm, 3, &plain(&[(1, 10)]), &[]);
    let refusal = admit(&contract, &HostProfile::ideal(2)).expect_err("three of two");
    assert_eq!(refusal.test, "cpus");
    assert!(refusal.to_string().contains("asks for 3 CPUs and the host has 2"), "{refusal}");
}

#[test]
fn each_policy_lists_its_tests_the_cheapest_first() {
    let names = |policy| {
        let contract = contract(policy, 1, &plain(&[(1, 10)]), &[(1, 10)]);
        let grant = admit(&contract, &HostProfile::ideal(1)).expect("light");
        grant.tests.iter().map(|test| test.name).collect::<Vec<_>>()
    };
    let (first, second) = ("reservable-bandwidth", "sched-deadline");
    assert_eq!(names(Policy::Rmdp), [first, second, "liu-layland", "rmdp", "sha", "response-time"]);
    assert_eq!(names(Policy::Rm), [first, second, "liu-layland", "hyperbolic", "response-time"]);
    assert_eq!(names(Policy::Fp), [first, second, "response-time"]);
    assert_eq!(names(Policy::Edf), [first, second, "density", "processor-demand"]);
}

#[test]
fn context_switches_are_charged() {
    let contract = contract(Policy::Rm, 1, &plain(&[(5, 10), (5, 10)]), &[]);
    assert!(admit(&contract, &HostProfile::ideal(1)).is_ok());
    let real = HostProfile { context_switch: Service::from_nanos(1), ..HostProfile::ideal(1) };
    assert!(admit(&contract, &real).is_err());
}

#[test]
fn one_task_may_use_all_of_a_cpu() {
    let whole = [Ticks::plain(10, 10)];
    assert!((utilisation(&whole) - 1.0).abs() < f64::EPSILON);
    for policy in POLICIES {
        assert!(admit(&contract(policy, 1, &whole, &[]), &HostProfile::ideal(1)).is_ok());
    }
}
