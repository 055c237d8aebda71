//! Tests programs with known parameters in virtual time, drawn from seeds.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, Reservation, Service};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::{Demand, Margin, NotPeriodic, Period, Sample, Sampler, find, propose};
use crate::cause::Observer;
use crate::kernel::{Class, KernelEvent, Left, Place, Record, Seen, Wake};

const SEEDS: u64 = 40;
const MS: u64 = 1_000_000;

fn instants(mut nanos: Vec<u64>) -> Vec<Instant> {
    nanos.sort_unstable();
    nanos.into_iter().map(Instant::from_nanos).collect()
}

fn only(nanos: Vec<u64>) -> Period {
    let found = find(&instants(nanos)).expect("periodic");
    assert_eq!(found.periods.len(), 1, "{:?}", found.periods);
    found.periods[0].clone()
}

/// Returns whether the period is within `truth / parts` of the truth.
fn near(period: &Period, truth: u64, parts: u64) -> bool {
    period.period.as_nanos().abs_diff(truth) <= truth / parts
}

#[test]
fn jitter_and_missed_wakeups_do_not_hide_a_period() {
    for seed in 0..SEEDS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let truth = rng.random_range(100_000..100 * MS);
        let jitter = truth * rng.random_range(0..15) / 100;
        let missed = rng.random_range(0..25);
        let jobs: u64 = rng.random_range(60..1500);
        let mut at: Vec<u64> = Vec::new();
        for n in 0..jobs {
            if rng.random_range(0..100) >= missed {
                at.push(n * truth + rng.random_range(0..=jitter));
            }
        }
        let period = only(at);
        assert!(near(&period, truth, 100), "seed {seed}: {truth} but {period:?}");
        assert!(!period.drifts, "seed {seed}: {period:?}");
        let hit = 1.0 - missed as f64 / 100.0;
        assert!((period.covered - hit).abs() < 0.2, "seed {seed}: {hit} but {period:?}");
    }
}

#[test]
fn a_relative_sleep_drifts_and_has_a_period() {
    let mut drifting = 0;
    for seed in 0..SEEDS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let sleep = rng.random_range(MS..50 * MS);
        let mut at = Vec::new();
        let mut now = 0;
        for _ in 0..800 {
            at.push(now);
            now += sleep + rng.random_range(sleep / 100..sleep / 20);
        }
        let period = only(at);
        assert!(near(&period, sleep + sleep * 3 / 100, 50), "seed {seed}: {period:?}");
        drifting += u64::from(period.drifts);
    }
    // A random walk may return to where it began.
    assert!(drifting > SEEDS / 2, "{drifting}");
}

#[test]
fn two_interleaved_periods_are_both_named() {
    for seed in 0..SEEDS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let short = rng.random_range(2 * MS..20 * MS);
        // Neither is a multiple of the other.
        let long = short * rng.random_range(230..280) / 100;
        let offset = rng.random_range(0..long);
        let mut at: Vec<u64> = (0..400).map(|n| n * short).collect();
        at.extend((0..400 * short / long).map(|n| offset + n * long));
        let found = find(&instants(at)).expect("periodic");
        assert_eq!(found.periods.len(), 2, "seed {seed}: {found:?}");
        assert!(near(&found.periods[0], short, 100), "seed {seed}: {short} {found:?}");
        assert!(near(&found.periods[1], long, 100), "seed {seed}: {long} {found:?}");
        assert_eq!(found.shortest(), found.periods.first());
    }
}

#[test]
fn a_burst_is_one_period() {
    for seed in 0..SEEDS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let truth = rng.random_range(5 * MS..50 * MS);
        let most = rng.random_range(2..12);
        let mut at = Vec::new();
        for n in 0..300 {
            let mut when = n * truth;
            for _ in 0..rng.random_range(1..=most) {
                at.push(when);
                when += rng.random_range(10_000..truth / 40);
            }
        }
        let period = only(at);
        assert!(near(&period, truth, 50), "seed {seed}: {truth} but {period:?}");
    }
}

#[test]
fn wakeups_at_random_have_no_period() {
    for seed in 0..SEEDS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let jobs = rng.random_range(60..2000);
        let mut now = 0;
        // A geometric distribution: the same probability at each tick.
        let at = (0..jobs).map(|_| {
            while rng.random_range(0..50) != 0 {
                now += 100_000;
            }
            now += 100_000;
            now + rng.random_range(0..100_000)
        });
        match find(&instants(at.collect())) {
            Err(NotPeriodic::Irregular { confidence, .. }) => assert!(confidence < super::SURE),
            other => panic!("seed {seed}: {other:?}"),
        }
    }
}

#[test]
fn a_few_jobs_are_too_few() {
    let at = instants((0..9).map(|n| n * MS).collect());
    assert_eq!(find(&at), Err(NotPeriodic::TooFew { jobs: 9 }));
    assert_eq!(find(&[]), Err(NotPeriodic::TooFew { jobs: 0 }));
    // A repeated instant is no period.
    assert!(find(&[Instant::ZERO; 100]).is_err());
}

/// Computes each period's demand once more, by adding up the jobs in it.
#[test]
fn demand_counts_the_jobs_in_each_period() {
    for seed in 0..SEEDS {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut samples = Vec::new();
        let mut sums = Vec::new();
        for n in 0..100 {
            let mut sum = 0;
            for burst in 0..rng.random_range(1..4) {
                let nanos = rng.random_range(1000..100_000);
                let release = Instant::from_nanos(n * 10 * MS + burst * 300_000);
                let end = release + Duration::from_nanos(nanos);
                samples.push(Sample { release, end, exec_time: Service::from_nanos(nanos) });
                sum += nanos;
            }
            sums.push(sum);
        }
        // The end of the last period is not observed.
        sums.pop();
        sums.sort_unstable();
        let releases: Vec<Instant> = samples.iter().map(|sample| sample.release).collect();
        let found = find(&releases).expect("periodic");
        let demand = Demand::of(&samples, &found.periods[0]);
        assert_eq!(demand.periods(), sums.len(), "seed {seed}");
        for (percent, rank) in [(50.0, 49), (99.0, 98), (100.0, 98), (0.0, 0)] {
            let quantile = demand.quantile(percent).map(Service::as_nanos);
            assert_eq!(quantile, Some(sums[rank]), "seed {seed}, {percent} %");
        }
        assert_eq!(demand.within(Service::from_nanos(sums[60])), 61);
        assert_eq!(Demand::late(&samples, Duration::from_nanos(1)), samples.len());
        assert_eq!(Demand::late(&samples, Duration::from_millis(1)), 0);
    }
}

#[test]
fn the_proposal_follows_its_formula() {
    let samples: Vec<Sample> = (0..100)
        .map(|n| {
            let release = Instant::from_nanos(n * 10 * MS + n);
            Sample { release, end: release, exec_time: Service::from_millis(2) }
        })
        .collect();
    let releases: Vec<Instant> = samples.iter().map(|sample| sample.release).collect();
    let period = find(&releases).expect("periodic").periods[0].clone();
    let demand = Demand::of(&samples, &period);
    let mut margin = Margin {
        quantile: 99.0,
        percent: 20,
        switch: Service::from_micros(5),
        relative_deadline: None,
    };
    let proposal = propose(&period, &demand, margin).expect("fits");
    assert_eq!(numbers(proposal.reservation), (2_412_000, 10_000_000));
    assert_eq!((proposal.switches.as_nanos(), proposal.margin.as_nanos()), (10_000, 402_000));
    // With a deadline within the period, the largest fraction that is no longer is used.
    margin.relative_deadline = Some(Duration::from_millis(4));
    let proposal = propose(&period, &demand, margin).expect("fits");
    assert_eq!(proposal.divisor, 3);
    assert_eq!(numbers(proposal.reservation), (2_412_000, 3_333_333));
    // This would need more than a CPU has.
    margin.relative_deadline = Some(Duration::from_millis(2));
    assert_eq!(propose(&period, &demand, margin), None);
}

fn numbers(reservation: Reservation) -> (u64, u64) {
    (reservation.budget().as_nanos(), reservation.period().as_nanos())
}

/// Checks that execution time is the growth of the scheduler's account, also across a preemption
/// and a wait in the middle of the job.
#[test]
fn jobs_match_the_kernels_records() {
    let seen = |tid| Seen { tid, comm: "x".into(), class: Class::Ordinary };
    let switch = |at, prev, left, prev_exec_ns, next, next_exec_ns| Record {
        at: Instant::from_nanos(at),
        cpu: 0,
        what: KernelEvent::Switch {
            prev: seen(prev),
            left,
            prev_exec_ns,
            next: seen(next),
            next_exec_ns,
        },
    };
    let place = Place::default();
    let asleep = |syscall| Left::Asleep { uninterruptible: false, syscall: Some(syscall), place };
    let record = |at, what| Record { at: Instant::from_nanos(at), cpu: 0, what };
    let wakes = |at| record(at, KernelEvent::Waking { tid: 7, waker: None, wake: Wake::ToRun });
    let due =
        |at, due| record(at, KernelEvent::TimerDue { due: Instant::from_nanos(due), of: None });
    let timer = |at, enter| {
        let vector = crate::kernel::Interrupt::LocalTimer;
        record(at, KernelEvent::HardIrq { vector, enter })
    };
    let mut records = Vec::new();
    let mut exec = 500;
    records.push(switch(0, 7, asleep(230), exec, 0, 0));
    for n in 0..20 {
        let base = 1_000_000 * (n + 1);
        records.extend([timer(base + 10, true), due(base + 11, base), wakes(base + 12)]);
        records
            .extend([timer(base + 13, false), switch(base + 20, 0, Left::Preempted, 0, 7, exec)]);
        // Preempted, and blocked in another system call, in the middle.
        records.push(switch(base + 120, 7, Left::Preempted, exec + 100, 9, 0));
        records.push(switch(base + 300, 9, Left::Preempted, 180, 7, exec + 100));
        records.push(switch(base + 350, 7, asleep(3), exec + 150, 0, 0));
        records
            .extend([wakes(base + 400), switch(base + 410, 0, Left::Preempted, 0, 7, exec + 150)]);
        exec += 200;
        records.push(switch(base + 460, 7, asleep(230), exec, 0, 0));
    }
    let mut observer = Observer::new(16);
    observer.watch(7, Instant::ZERO);
    let mut sampler = Sampler::new();
    sampler.add(7);
    let mut told = 0;
    for record in &records {
        let edges = observer.take(record);
        told += usize::from(sampler.take(record, edges).is_some());
    }
    let samples = sampler.of(7).expect("watched");
    // A job ends when the next begins, so the last is not reported.
    assert_eq!((samples.jobs.len(), told), (19, 19));
    for (n, job) in (1..).zip(&samples.jobs) {
        let release = Instant::from_nanos(1_000_000 * n);
        let end = release + Duration::from_nanos(460);
        assert_eq!(*job, Sample { release, end, exec_time: Service::from_nanos(200) });
    }
    assert_eq!((samples.wakeups, samples.by_timers), (40, 20));
    assert_eq!(samples.exec_time.as_nanos(), 20 * 200);
}
