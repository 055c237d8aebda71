//! Tests with constructed records, whose causes are known.

use alloc::string::ToString as _;
use alloc::vec;
use alloc::vec::Vec;

use punctual_model::{Duration, Instant, JobId, Service};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::kernel::{Class, Comm, Interrupt, KernelEvent, Left, Place, Record, Seen, Wake};

const ME: Seen =
    Seen { tid: 10, comm: Comm(*b"me\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), class: Class::RealTime(50) };
const HOG: Seen =
    Seen { tid: 20, comm: Comm(*b"hog\0\0\0\0\0\0\0\0\0\0\0\0\0"), class: Class::RealTime(90) };
const SPIN: Seen =
    Seen { tid: 30, comm: Comm(*b"spin\0\0\0\0\0\0\0\0\0\0\0\0"), class: Class::Ordinary };
const IDLE: Seen = Seen { tid: 0, comm: Comm([0; 16]), class: Class::Idle };
const NOWHERE: Place = Place { first: 0, second: 0, stack: 0 };
const NAPS: Edge =
    Edge::Sleeps { tid: ME.tid, syscall: Some(230), uninterruptible: false, place: NOWHERE };
const NAP: Left = Left::Asleep { uninterruptible: false, syscall: Some(230), place: NOWHERE };

fn us(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1_000)
}

fn long(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn at(micros: u64, what: KernelEvent) -> Record {
    Record { at: us(micros), cpu: 1, what }
}

fn switch(micros: u64, prev: Seen, left: Left, exec: [u64; 2], next: Seen) -> Record {
    let [prev_exec_ns, next_exec_ns] = exec.map(|us| us * 1000);
    at(micros, KernelEvent::Switch { prev, left, prev_exec_ns, next, next_exec_ns })
}

fn waking(micros: u64, waker: Option<Seen>) -> Record {
    at(micros, KernelEvent::Waking { tid: ME.tid, waker, wake: Wake::ToRun })
}

fn hard(micros: u64, enter: bool) -> Record {
    at(micros, KernelEvent::HardIrq { vector: Interrupt::LocalTimer, enter })
}

/// Makes a job that is released at 1000 µs, with a relative deadline of 500 µs and a declared work
/// of 200 µs, and ends at `end`.
fn job(end: u64) -> LateJob {
    LateJob {
        job: JobId { task: 0, index: 1 },
        release: us(1000),
        absolute_deadline: us(1500),
        end: us(end),
        wcet: Some(Service::from_micros(200)),
    }
}

/// Observes ME, which sleeps from 500 µs on an idle CPU, and then `records`.
fn observe(records: impl IntoIterator<Item = Record>) -> Observer {
    let mut observer = Observer::new(1000);
    observer.watch(ME.tid, Instant::ZERO);
    observer.take(&switch(300, IDLE, Left::Preempted, [0, 0], ME));
    observer.take(&switch(500, ME, NAP, [200, 0], IDLE));
    for record in records {
        observer.take(&record);
    }
    observer
}

fn verdict(observer: &Observer, end: u64) -> Verdict {
    let late = job(end);
    let verdict = judge(late, &observer.stretches(ME.tid, late.release, late.end), |_| false);
    let sum: u64 = verdict.shares.iter().map(|share| share.share.as_nanos()).sum();
    assert_eq!(sum, late.tardiness().as_nanos(), "{verdict:#?}");
    verdict
}

#[test]
fn another_task_that_ran_instead_is_named() {
    let observer = observe([
        switch(900, IDLE, Left::Preempted, [0, 0], HOG),
        waking(1000, None),
        switch(1700, HOG, NAP, [800, 200], ME),
        switch(1900, ME, NAP, [400, 0], IDLE),
    ]);
    let verdict = verdict(&observer, 1900);
    let main = verdict.main().expect("late");
    assert_eq!((main.cause, main.took, main.share), (Spent::Other(HOG), long(700), long(400)));
    assert_eq!(verdict.own, long(200));
}

#[test]
fn its_own_overrun_is_its_own_fault() {
    let observer = observe([
        waking(1000, None),
        switch(1005, IDLE, Left::Preempted, [0, 200], ME),
        switch(1905, ME, NAP, [1100, 0], IDLE),
    ]);
    let verdict = verdict(&observer, 1905);
    let main = verdict.main().expect("late");
    assert_eq!((main.cause, main.took), (Spent::Own, long(900)));
    assert!(main.share >= long(400), "{main:?}");
}

#[test]
fn a_timer_that_came_late_is_told_from_a_wait_in_the_middle() {
    let observer = observe([
        waking(1450, None),
        switch(1455, IDLE, Left::Preempted, [0, 200], ME),
        switch(
            1555,
            ME,
            Left::Asleep { uninterruptible: true, syscall: Some(0), place: NOWHERE },
            [300, 0],
            IDLE,
        ),
        Record { cpu: 2, ..waking(1755, Some(SPIN)) },
        switch(1760, IDLE, Left::Preempted, [0, 300], ME),
        switch(1860, ME, NAP, [400, 0], IDLE),
    ]);
    let verdict = verdict(&observer, 1860);
    let blocked = Spent::Blocked { syscall: Some(0), uninterruptible: true, waker: Some(SPIN) };
    let seen: Vec<_> = verdict.shares.iter().map(|share| (share.cause, share.took)).collect();
    assert_eq!(
        seen,
        [(Spent::LateTimer, long(450)), (blocked, long(200)), (Spent::Switching, long(10))]
    );
}

#[test]
fn the_handler_that_delayed_a_timer_is_the_cause() {
    let observer = observe([
        hard(950, true),
        at(1390, KernelEvent::TimerDue { due: us(1000), of: None }),
        waking(1400, None),
        hard(1410, false),
        switch(1411, IDLE, Left::Preempted, [0, 200], ME),
        switch(1600, ME, NAP, [389, 0], IDLE),
    ]);
    let verdict = verdict(&observer, 1600);
    let main = verdict.main().expect("late");
    let timer = Spent::HardIrq(Interrupt::LocalTimer);
    assert_eq!((main.cause, main.took), (timer, long(410)));
    assert!(verdict.shares.iter().all(|share| share.cause != Spent::LateTimer));
}

#[test]
fn interrupts_nest_and_are_told_apart() {
    let soft = |micros, enter| at(micros, KernelEvent::SoftIrq { vector: 3, enter });
    let observer = observe([
        waking(1000, None),
        switch(1000, IDLE, Left::Preempted, [0, 200], ME),
        soft(1050, true),
        hard(1100, true),
        hard(1400, false),
        soft(1450, false),
        switch(1650, ME, NAP, [450, 0], IDLE),
    ]);
    let verdict = verdict(&observer, 1650);
    let took = |cause| verdict.shares.iter().find(|one| one.cause == cause).map(|one| one.took);
    assert_eq!(took(Spent::HardIrq(Interrupt::LocalTimer)), Some(long(300)));
    assert_eq!(took(Spent::SoftIrq(3)), Some(long(100)));
    assert_eq!(verdict.main().expect("late").cause, Spent::HardIrq(Interrupt::LocalTimer));
}

#[test]
fn a_wait_for_a_less_urgent_thread_is_throttling() {
    let observer = observe([
        waking(1000, None),
        switch(1000, IDLE, Left::Preempted, [0, 200], ME),
        switch(1100, ME, Left::Preempted, [300, 0], SPIN),
        switch(1700, SPIN, Left::Preempted, [600, 300], ME),
        switch(1800, ME, NAP, [400, 0], IDLE),
    ]);
    let main = *verdict(&observer, 1800).main().expect("late");
    assert_eq!((main.cause, main.took), (Spent::Throttled(Throttler::Kernel), long(600)));
    // It was put off while no other thread was there.
    let observer = observe([
        waking(1000, None),
        switch(1000, IDLE, Left::Preempted, [0, 200], ME),
        switch(1100, ME, Left::Preempted, [300, 0], IDLE),
        switch(1700, IDLE, Left::Preempted, [0, 300], ME),
        switch(1800, ME, NAP, [400, 0], IDLE),
    ]);
    let main = *verdict(&observer, 1800).main().expect("late");
    assert_eq!((main.cause, main.took), (Spent::Throttled(Throttler::Kernel), long(600)));
}

#[test]
fn a_thread_that_an_enforcer_wakes_was_throttled() {
    let mut observer = observe([]);
    observer.enforcer(99);
    let enforcer = Seen { tid: 99, comm: "punctual".into(), class: Class::RealTime(98) };
    for record in [
        waking(1000, None),
        switch(1000, IDLE, Left::Preempted, [0, 200], ME),
        switch(1100, ME, NAP, [300, 0], SPIN),
        Record { cpu: 2, ..waking(1700, Some(enforcer)) },
        switch(1701, SPIN, Left::Preempted, [601, 300], ME),
        switch(1800, ME, NAP, [400, 0], IDLE),
    ] {
        observer.take(&record);
    }
    let main = *verdict(&observer, 1800).main().expect("late");
    assert_eq!(main.cause, Spent::Throttled(Throttler::Punctual));
}

#[test]
fn cpu_time_that_no_thread_executed_was_stolen() {
    let observer = observe([
        waking(1000, None),
        switch(1000, IDLE, Left::Preempted, [0, 200], ME),
        // On the CPU for 900 µs, and executed for 180.
        switch(1900, ME, NAP, [380, 0], IDLE),
    ]);
    let verdict = verdict(&observer, 1900);
    assert_eq!(verdict.own, long(180));
    let main = verdict.main().expect("late");
    assert_eq!((main.cause, main.took, main.share), (Spent::Stolen, long(720), long(400)));
}

#[test]
fn page_faults_count_by_themselves() {
    let observer = observe([
        waking(1000, None),
        switch(1000, IDLE, Left::Preempted, [0, 200], ME),
        at(1610, KernelEvent::PageFault { tid: ME.tid, took: long(600) }),
        switch(1710, ME, NAP, [910, 0], IDLE),
    ]);
    let main = *verdict(&observer, 1710).main().expect("late");
    assert_eq!((main.cause, main.took), (Spent::PageFault, long(600)));
}

#[test]
fn unseen_time_is_unknown_and_counts() {
    let observer = observe([waking(1000, None), at(1600, KernelEvent::Gap { records: 1 })]);
    let verdict = verdict(&observer, 1800);
    let main = verdict.main().expect("late");
    assert_eq!((main.cause, main.took), (Spent::Unknown, long(800)));
    let stranger = observer.stretches(4711, us(0), us(5));
    assert_eq!(stranger, vec![Stretch { start: us(0), end: us(5), spent: Spent::Unknown }]);
}

#[test]
fn threads_of_the_contract_use_the_allowance_first() {
    let observer = observe([
        switch(900, IDLE, Left::Preempted, [0, 0], HOG),
        waking(1000, None),
        switch(1250, HOG, NAP, [350, 200], ME),
        hard(1250, true),
        hard(1500, false),
        switch(1700, ME, NAP, [400, 0], IDLE),
    ]);
    let late = job(1700);
    let stretches = observer.stretches(ME.tid, late.release, late.end);
    let shares = |reckoned: bool| {
        let verdict = judge(late, &stretches, |tid| reckoned && tid == HOG.tid);
        verdict.shares.iter().map(|one| (one.cause.word(), one.share)).collect::<Vec<_>>()
    };
    assert_eq!(shares(false), [("task", long(100)), ("hard-interrupt", long(100))]);
    assert_eq!(shares(true), [("hard-interrupt", long(200)), ("task", long(0))]);
}

#[test]
fn any_records_give_stretches_without_gaps_and_shares_that_add_up() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for _ in 0..2_000 {
        let mut observer = Observer::new(rng.random_range(1..40));
        observer.watch(ME.tid, Instant::ZERO);
        let mut now = 0;
        for _ in 0..rng.random_range(0..60) {
            now += rng.random_range(0..100);
            let who = |rng: &mut ChaCha8Rng| [ME, HOG, SPIN, IDLE][rng.random_range(0..4)];
            let enter = rng.random();
            let left = [
                NAP,
                Left::Preempted,
                Left::Throttled { levels: Some(1) },
                Left::Stopped { process: 1 },
                Left::Traced,
                Left::Frozen,
            ];
            let wake = [Wake::ToRun, Wake::OfFrozen, Wake::ToStop][rng.random_range(0..3)];
            let what = match rng.random_range(0..14) {
                0 | 1 => KernelEvent::Switch {
                    prev: who(&mut rng),
                    left: left[rng.random_range(0..left.len())],
                    prev_exec_ns: rng.random_range(0..500_000),
                    next: who(&mut rng),
                    next_exec_ns: rng.random_range(0..500_000),
                },
                2 => KernelEvent::Waking { tid: ME.tid, waker: None, wake },
                10 => KernelEvent::Waking { tid: ME.tid, waker: Some(who(&mut rng)), wake },
                13 => KernelEvent::WokenThrottled { tid: ME.tid, levels: None },
                11 => KernelEvent::StopSignal { process: rng.random_range(0..99), sender: HOG },
                12 => KernelEvent::InSystemCall {
                    tid: ME.tid,
                    syscall: Some(1),
                    took: long(rng.random_range(0..2000)),
                    until_now: enter,
                },
                6 => KernelEvent::Moves { tid: ME.tid, on: rng.random_range(0..2) },
                7 => KernelEvent::TimerDue {
                    due: us(rng.random_range(0..3000)),
                    of: rng.random::<bool>().then_some(ME.tid),
                },
                8 => KernelEvent::Gap { records: 1 },
                3 => KernelEvent::HardIrq { vector: Interrupt::FromCpu, enter },
                4 => KernelEvent::SoftIrq { vector: rng.random_range(0..3), enter },
                _ => KernelEvent::PageFault { tid: ME.tid, took: long(rng.random_range(0..2000)) },
            };
            observer.take(&Record { at: us(now), cpu: rng.random_range(0..2), what });
        }
        let (release, end) = (rng.random_range(0..1000), rng.random_range(1000..4000));
        let late = LateJob { release: us(release), absolute_deadline: us(1000), ..job(end) };
        let stretches = observer.stretches(ME.tid, late.release, late.end);
        let mut at = late.release;
        for stretch in &stretches {
            assert_eq!(stretch.start, at);
            at = stretch.end;
        }
        assert_eq!(at, late.end);
        let verdict = judge(late, &stretches, |tid| tid == HOG.tid);
        let sum: u64 = verdict.shares.iter().map(|share| share.share.as_nanos()).sum();
        assert_eq!(sum, late.tardiness().as_nanos());
    }
}

#[test]
fn a_threads_job_lasts_from_its_timer_to_the_next_wait() {
    let mut observer = Observer::new(1000);
    let mut jobs = ThreadJobs::new();
    observer.watch(ME.tid, Instant::ZERO);
    jobs.add(ME.tid, 4);
    let timer = |micros: u64, due: u64| {
        [
            hard(micros, true),
            at(micros, KernelEvent::TimerDue { due: us(due), of: None }),
            waking(micros + 1, None),
        ]
    };
    let lock = Left::Asleep { uninterruptible: false, syscall: Some(202), place: NOWHERE };
    let mut records =
        vec![switch(100, IDLE, Left::Preempted, [0, 0], ME), switch(200, ME, NAP, [100, 0], IDLE)];
    records.extend(timer(1010, 1000));
    records.extend([
        hard(1012, false),
        switch(1013, IDLE, Left::Preempted, [0, 100], ME),
        // It sleeps on a lock in the middle of the job until another thread releases it.
        switch(1100, ME, lock, [187, 0], IDLE),
        Record { cpu: 2, ..waking(1200, Some(HOG)) },
        switch(1201, IDLE, Left::Preempted, [0, 187], ME),
        switch(1300, ME, NAP, [286, 0], IDLE),
    ]);
    records.extend(timer(2050, 2000));
    let mut events = Vec::new();
    for record in &records {
        for edge in observer.take(record).into_iter().flatten() {
            events.extend(jobs.take(record.at, edge).into_iter().flatten());
        }
    }
    let seen: Vec<_> =
        events.iter().map(|event| (event.job.index, event.release, event.at, event.kind)).collect();
    assert_eq!(
        seen,
        [
            (0, us(1000), us(1011), crate::Kind::Start),
            (0, us(1000), us(1300), crate::Kind::Complete),
            (1, us(2000), us(2051), crate::Kind::Start),
        ]
    );
    assert!(events.iter().all(|event| event.job.task == 4));

    // If it sleeps when the watch or the thread ends, its job was complete when it fell asleep.
    let gone = switch(2100, ME, NAP, [336, 0], IDLE);
    observer.take(&switch(2052, IDLE, Left::Preempted, [0, 286], ME));
    assert_eq!(jobs.resting().count(), 0, "it runs");
    let [Some(edge), None] = observer.take(&gone) else { panic!("it sleeps") };
    assert_eq!(jobs.take(gone.at, edge), [None, None]);
    let end = |event: crate::Event| (event.job.index, event.release, event.at, event.kind);
    let complete = (1, us(2000), us(2100), crate::Kind::Complete);
    assert_eq!(jobs.resting().map(end).collect::<Vec<_>>(), [complete]);
    assert_eq!(jobs.clone().forget(ME.tid).map(end), Some(complete));

    // After a gap no job is known.
    jobs.gap();
    assert_eq!(jobs.resting().count(), 0);
    assert_eq!(jobs.forget(ME.tid), None);
}

/// Returns the threads that were lost while the observer took `records`.
fn losing(observer: &mut Observer, records: impl IntoIterator<Item = Record>) -> Vec<Lost> {
    let mut lost = Vec::new();
    for record in records {
        observer.take(&record);
        lost.extend(observer.take_lost());
    }
    lost
}

#[test]
fn a_thread_whose_sleep_is_missing_is_lost_until_it_is_woken() {
    // The switch from ME to the idle thread is missing.
    let hole = [
        waking(1000, None),
        switch(1005, IDLE, Left::Preempted, [0, 200], ME),
        switch(9000, IDLE, Left::Preempted, [0, 0], HOG),
    ];
    let woken = [waking(9500, None), switch(9600, HOG, NAP, [600, 250], ME)];
    let mut observer = observe([]);
    assert_eq!(losing(&mut observer, hole), []);
    assert_eq!(losing(&mut observer, woken), [Lost { tid: ME.tid, unseen: long(8495) }]);
    // The same, and it is woken before the CPU proves the hole.
    let mut observer = observe([]);
    let sooner = [hole[0], hole[1], waking(1100, None), hole[2]];
    assert_eq!(losing(&mut observer, sooner), [Lost { tid: ME.tid, unseen: long(7995) }]);
    assert_eq!(observer.holes(), 1);
    let spent = observer.stretches(ME.tid, us(1000), us(9000));
    let known = spent.iter().filter(|stretch| stretch.spent != Spent::Unknown);
    let waited = Stretch { start: us(1000), end: us(1005), spent: Spent::Switching };
    assert_eq!(known.collect::<Vec<_>>(), [&waited]);
}

#[test]
fn a_thread_that_is_seen_again_without_a_wake_up_did_not_sleep_unseen() {
    let begins = [waking(1000, None), switch(1005, IDLE, Left::Preempted, [0, 200], ME)];
    let own = |start, end| Stretch { start: us(start), end: us(end), spent: Spent::Own };
    let unknown = |start, end| Stretch { start: us(start), end: us(end), spent: Spent::Unknown };
    // ME was preempted unseen, and came back.
    let mut observer = observe(begins);
    let rest = [switch(2000, HOG, NAP, [600, 500], ME), switch(2100, ME, NAP, [600, 0], IDLE)];
    assert_eq!(losing(&mut observer, rest), []);
    let spent = observer.stretches(ME.tid, us(1005), us(2100));
    assert_eq!(spent, [unknown(1005, 2000), own(2000, 2100)]);
    // The switch to ME is missing, but the scheduler accounts for its execution.
    let mut observer = observe([begins[0]]);
    assert_eq!(losing(&mut observer, [switch(1900, ME, NAP, [600, 0], IDLE)]), []);
    let spent = observer.stretches(ME.tid, us(1000), us(1900));
    assert_eq!(spent, [unknown(1000, 1500), own(1500, 1900)]);
    // It was woken and waited, but it executed for 300 µs meanwhile.
    let mut observer = observe([begins[0]]);
    let comes = [switch(3000, IDLE, Left::Preempted, [0, 500], ME)];
    assert_eq!(losing(&mut observer, comes), []);
    assert_eq!(observer.stretches(ME.tid, us(1000), us(3000)), [unknown(1000, 3000)]);
    assert_eq!(observer.holes(), 1);
}

#[test]
fn a_sleep_without_a_wake_up_is_no_sleep() {
    let mut observer = observe([]);
    let lost = losing(&mut observer, [switch(3000, IDLE, Left::Preempted, [0, 200], ME)]);
    assert_eq!(lost, [Lost { tid: ME.tid, unseen: long(2500) }]);
    assert_eq!(observer.holes(), 1);
}

#[test]
fn a_waker_that_did_not_run_and_time_that_goes_back_prove_a_hole() {
    for proof in [
        at(1300, KernelEvent::Waking { tid: 99, waker: Some(SPIN), wake: Wake::ToRun }),
        hard(1002, true),
    ] {
        let mut observer = observe([]);
        let before = [waking(1000, None), switch(1005, IDLE, Left::Preempted, [0, 200], ME)];
        let after = [hard(1200, true), hard(1250, false), proof, waking(1400, None)];
        let lost = losing(&mut observer, before.into_iter().chain(after));
        assert_eq!(lost, [Lost { tid: ME.tid, unseen: long(395) }], "{proof:?}");
        assert_eq!(observer.holes(), 1);
    }
}

#[test]
fn whoever_waits_beside_a_hole_is_late_but_not_for_a_thread_that_was_not_there() {
    let observer = observe([
        switch(900, IDLE, Left::Preempted, [0, 0], HOG),
        waking(1000, None),
        // HOG left at some time before this.
        switch(1700, SPIN, Left::Preempted, [800, 200], ME),
        switch(1900, ME, NAP, [400, 0], IDLE),
    ]);
    let verdict = verdict(&observer, 1900);
    assert_eq!(
        verdict.main().map(|share| (share.cause, share.took)),
        Some((Spent::Unknown, long(700)))
    );
}

#[test]
fn a_wake_up_that_races_with_falling_asleep_is_no_hole() {
    let mut observer = observe([]);
    let before = [waking(1000, None), switch(1005, IDLE, Left::Preempted, [0, 200], ME)];
    for record in before {
        observer.take(&record);
    }
    let races = Record { cpu: 2, ..waking(1100, Some(SPIN)) };
    observer.take(&races);
    let asleep = observer.take(&switch(1102, ME, NAP, [297, 0], HOG));
    assert_eq!(asleep, [Some(NAPS), None]);
    let comes = observer.take(&switch(1300, HOG, NAP, [100, 297], ME));
    assert_eq!(comes, [None, Some(Edge::Wakes { tid: ME.tid, due: None, waker: Some(SPIN) })]);
    assert_eq!((observer.take_lost(), observer.holes()), (vec![], 0));
    let spent = observer.stretches(ME.tid, us(1102), us(1300));
    assert_eq!(spent, [Stretch { start: us(1102), end: us(1300), spent: Spent::Unknown }]);
}

#[test]
fn a_quota_that_is_exhausted_is_named_with_the_group_that_has_it() {
    let observer = observe([
        waking(1000, None),
        switch(1000, IDLE, Left::Preempted, [0, 200], SPIN),
        switch(1000, SPIN, Left::Preempted, [0, 200], ME),
        switch(1100, ME, Left::Throttled { levels: Some(2) }, [300, 0], HOG),
        switch(1700, HOG, NAP, [600, 300], ME),
        switch(1800, ME, NAP, [400, 0], IDLE),
    ]);
    let main = *verdict(&observer, 1800).main().expect("late");
    let quota = Spent::Throttled(Throttler::Quota { levels: Some(2) });
    assert_eq!((main.cause, main.took), (quota, long(600)));
    assert_eq!(
        quota.to_string(),
        "the CPU quota of the control group 2 levels above its own was exhausted"
    );
}

#[test]
fn a_thread_that_is_woken_while_its_quota_is_exhausted_waits_for_that() {
    let quota = Throttler::Quota { levels: Some(0) };
    let observer = observe([
        switch(900, ME, NAP, [200, 0], HOG),
        waking(1000, None),
        at(1001, KernelEvent::WokenThrottled { tid: ME.tid, levels: Some(0) }),
        switch(1700, HOG, NAP, [600, 200], ME),
        // One that runs is not held.
        at(1701, KernelEvent::WokenThrottled { tid: ME.tid, levels: Some(0) }),
        switch(1800, ME, NAP, [300, 0], IDLE),
    ]);
    let spent = observer.stretches(ME.tid, us(1001), us(1800));
    let of = |start, end, spent| Stretch { start: us(start), end: us(end), spent };
    let expected = [of(1001, 1700, Spent::Throttled(quota)), of(1700, 1800, Spent::Own)];
    assert_eq!(spent, expected);
}

#[test]
fn a_process_that_a_signal_stops_in_its_work_names_the_sender() {
    let mut observer = observe([]);
    let mut edges = Vec::new();
    for record in [
        waking(1000, None),
        switch(1000, IDLE, Left::Preempted, [0, 200], ME),
        Record { cpu: 2, ..at(1090, KernelEvent::StopSignal { process: 9, sender: SPIN }) },
        switch(1100, ME, Left::Stopped { process: 9 }, [300, 0], IDLE),
        Record { cpu: 2, ..waking(1700, Some(HOG)) },
        switch(1701, IDLE, Left::Preempted, [0, 300], ME),
        switch(1800, ME, NAP, [400, 0], IDLE),
    ] {
        edges.extend(observer.take(&record).into_iter().flatten());
    }
    // The job goes on: only its release and its end are edges.
    assert_eq!(edges.len(), 2, "{edges:?}");
    let main = *verdict(&observer, 1800).main().expect("late");
    assert_eq!((main.cause, main.took), (Spent::Stopped { by: Some(SPIN) }, long(600)));
    assert_eq!(main.cause.to_string(), "spin (30) had stopped it with a signal");
}

/// Returns the jobs of ME, which sleeps in `NAP` until its timer is due at 1000 µs.
fn jobs_of(
    observer: &mut Observer,
    records: impl IntoIterator<Item = Record>,
) -> Vec<(Instant, Instant)> {
    let mut jobs = ThreadJobs::new();
    jobs.add(ME.tid, 0);
    jobs.take(us(500), NAPS);
    let mut ends = Vec::new();
    for record in records {
        for edge in observer.take(&record).into_iter().flatten() {
            let events = jobs.take(record.at, edge).into_iter().flatten();
            ends.extend(events.filter(|event| event.kind == crate::Kind::Complete));
        }
    }
    ends.extend(jobs.resting());
    ends.iter().map(|event| (event.release, event.at)).collect()
}

#[test]
fn a_thread_that_is_stopped_asleep_is_late_by_its_timer() {
    let to_stop = KernelEvent::Waking { tid: ME.tid, waker: Some(SPIN), wake: Wake::ToStop };
    let stopped = Left::Stopped { process: 9 };
    let until_resumed = [
        Record { cpu: 2, ..at(700, KernelEvent::StopSignal { process: 9, sender: SPIN }) },
        Record { cpu: 2, ..at(700, to_stop) },
        switch(705, IDLE, Left::Preempted, [0, 200], ME),
        switch(710, ME, stopped, [205, 0], IDLE),
        Record { cpu: 2, ..waking(1900, Some(SPIN)) },
        switch(1905, IDLE, Left::Preempted, [0, 205], ME),
    ];
    // The timer is due at once: the wake-up comes before the sleep.
    let mut observer = observe([]);
    let over_at_once = [
        hard(1906, true),
        at(1907, KernelEvent::TimerDue { due: us(1000), of: Some(ME.tid) }),
        waking(1908, None),
        hard(1909, false),
        switch(2000, ME, NAP, [300, 0], IDLE),
    ];
    let jobs = jobs_of(&mut observer, until_resumed.into_iter().chain(over_at_once));
    assert_eq!(jobs, [(us(1000), us(2000))]);
    let main = *verdict(&observer, 2000).main().expect("late");
    assert_eq!((main.cause, main.took), (Spent::Stopped { by: Some(SPIN) }, long(900)));

    // The timer is not due yet when the thread goes on: it is in time.
    let mut observer = observe([]);
    let again = Left::Asleep { uninterruptible: false, syscall: Some(219), place: NOWHERE };
    let restarts = [
        switch(1910, ME, again, [210, 0], IDLE),
        hard(2500, true),
        at(2500, KernelEvent::TimerDue { due: us(2500), of: Some(ME.tid) }),
        waking(2501, None),
        hard(2502, false),
        switch(2503, IDLE, Left::Preempted, [0, 210], ME),
        switch(2600, ME, NAP, [300, 0], IDLE),
    ];
    let jobs = jobs_of(&mut observer, until_resumed.into_iter().chain(restarts));
    assert_eq!(jobs, [(us(2500), us(2600))]);
}

#[test]
fn a_timer_that_expires_while_its_thread_is_frozen_asleep_makes_it_late() {
    let mut observer = observe([]);
    let thawed = KernelEvent::Waking { tid: ME.tid, waker: Some(SPIN), wake: Wake::OfFrozen };
    let jobs = jobs_of(
        &mut observer,
        [
            hard(1001, true),
            at(1002, KernelEvent::TimerDue { due: us(1000), of: Some(ME.tid) }),
            hard(1003, false),
            Record { cpu: 2, ..at(1900, thawed) },
            switch(1905, IDLE, Left::Preempted, [0, 200], ME),
            switch(2000, ME, NAP, [295, 0], IDLE),
        ],
    );
    assert_eq!(jobs, [(us(1000), us(2000))]);
    let main = *verdict(&observer, 2000).main().expect("late");
    assert_eq!((main.cause, main.took), (Spent::Frozen, long(900)));
}

#[test]
fn work_in_system_calls_is_told_from_work_in_user_space() {
    let write = Some(1);
    let in_call = |micros, took, syscall, until_now| {
        at(micros, KernelEvent::InSystemCall { tid: ME.tid, syscall, took: long(took), until_now })
    };
    let observer = observe([
        waking(1000, None),
        switch(1000, IDLE, Left::Preempted, [0, 200], ME),
        // A long call, with an interrupt in it, and some short ones.
        hard(1300, true),
        hard(1350, false),
        in_call(1600, 500, write, true),
        in_call(1700, 60, None, false),
        switch(1900, ME, NAP, [1100, 0], IDLE),
    ]);
    let verdict = verdict(&observer, 1900);
    assert_eq!(verdict.own, long(850));
    let took = |cause| verdict.shares.iter().find(|one| one.cause == cause).map(|one| one.took);
    assert_eq!(took(Spent::System { syscall: write }), Some(long(450)));
    assert_eq!(took(Spent::System { syscall: None }), Some(long(60)));
    assert_eq!(took(Spent::Own), Some(long(340)));
    assert_eq!(took(Spent::HardIrq(Interrupt::LocalTimer)), Some(long(50)));
    assert_eq!(verdict.main().map(|share| share.cause), Some(Spent::System { syscall: write }));
}

#[test]
#[cfg(target_arch = "x86_64")]
fn system_calls_have_names() {
    let slept = Spent::Blocked { syscall: Some(202), uninterruptible: false, waker: None };
    assert_eq!(slept.to_string(), "it slept in futex, until an interrupt woke it");
    assert_eq!(
        Spent::System { syscall: Some(1) }.to_string(),
        "its own work in write, beyond what was declared"
    );
}
