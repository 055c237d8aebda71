//! Handlers that do not return, on this kernel: they are contained, the other handlers go on, and
//! nothing is left behind. The tests check function only, no times, because the host is shared.
//!
//! Without the right to real-time scheduling these tests print that and check nothing.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::{
    BestEffort, BestEffortSpec, Duration, Handler, HostProfile, Instant, Reservation, Service,
    Upcall, UpcallSpec,
};
use punctual_runtime::level_order::{LOWEST, RUNNING};
use punctual_runtime::{Activity, NoticeKind, OrderError, Placement, Running, Upcalls};
use punctual_trace::Kind;
use system_tests::live::{PATIENCE, eventually, may};
use system_tests::stalls::Witness;

/// Serialises the tests: they share this host's CPUs.
static ALONE: Mutex<()> = Mutex::new(());

type Work = Box<dyn Handler + Send>;

/// A handler that counts its jobs.
struct Count(Arc<AtomicU64>);

impl Handler for Count {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        self.0.fetch_add(1, Ordering::Relaxed);
        pdus
    }
}

/// A handler that does not return from its first iteration until it is released; then it counts.
struct Stuck<F> {
    wait: F,
    released: Arc<AtomicBool>,
    jobs: Arc<AtomicU64>,
}

impl<F: FnMut()> Handler for Stuck<F> {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        while !self.released.load(Ordering::Acquire) {
            (self.wait)();
        }
        self.jobs.fetch_add(1, Ordering::Relaxed);
        pdus
    }
}

/// Releases a handler when dropped, even when the test fails: no spinning thread may stay.
struct Release(Arc<AtomicBool>, Option<PipeWriter>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
        if let Some(pipe) = &mut self.1 {
            let _ = pipe.write_all(b"x");
        }
    }
}

fn upcall(period_ms: u64, pdu_us: u64) -> Upcall {
    Upcall::new(UpcallSpec {
        name: format!("every {period_ms} ms"),
        period: Duration::from_millis(period_ms),
        batch: 1,
        quantum: 1,
        time_per_pdu: Service::from_micros(pdu_us),
    })
    .expect("valid")
}

fn more_of(jobs: &AtomicU64) -> bool {
    let before = jobs.load(Ordering::Relaxed);
    eventually(|| jobs.load(Ordering::Relaxed) > before + 3)
}

/// The declared time of the stuck upcall's job, which it gets once more when it is contained.
const ONCE_MORE: Duration = Duration::from_micros(100);

/// A stuck upcall of 20 ms beside a counting one of 10 ms.
struct Pair {
    running: Running<Work>,
    release: Release,
    others: Arc<AtomicU64>,
    came_back: Arc<AtomicU64>,
}

fn pair(
    placement: Placement,
    wait: impl FnMut() + Send + 'static,
    pipe: Option<PipeWriter>,
) -> Pair {
    let released = Arc::new(AtomicBool::new(false));
    let release = Release(Arc::clone(&released), pipe);
    let (others, came_back) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut upcalls: Upcalls<Work> = Upcalls::new(placement, HostProfile::ideal(1));
    upcalls.create(upcall(10, 100), Box::new(Count(Arc::clone(&others)))).expect("fits");
    let jobs = Arc::clone(&came_back);
    upcalls.create(upcall(20, 100), Box::new(Stuck { wait, released, jobs })).expect("fits");
    let running = upcalls.run(clock::now()).expect("has its class");
    Pair { running, release, others, came_back }
}

/// Checks the consequences of any handler that does not return.
fn is_contained_and_rejoins(mut pair: Pair) {
    let until = clock::now() + PATIENCE;
    assert_eq!(pair.running.wait(&[0, 1], until), [1], "it is put aside");
    assert_eq!(pair.running.activity(1), Activity::Contained);
    assert!(more_of(&pair.others), "the other one goes on");
    assert_eq!(pair.came_back.load(Ordering::Relaxed), 0);
    drop(pair.release);
    assert!(eventually(|| pair.running.activity(1) == Activity::Active), "it rejoins");
    assert!(more_of(&pair.came_back) && more_of(&pair.others));
    let notices: Vec<NoticeKind> = pair.running.notices().map(|notice| notice.kind).collect();
    assert!(notices.contains(&NoticeKind::Contained { times: 1 }), "{notices:?}");
    assert!(notices.contains(&NoticeKind::Returned), "{notices:?}");
    let stopped = pair.running.stop().expect("kept its class");
    assert_eq!((stopped.tasks, stopped.stuck), (vec![0, 1], vec![]));
    let contained = |e: &&punctual_trace::Event| e.kind == Kind::Contained;
    assert_eq!(stopped.events.iter().filter(contained).count(), 1);
}

#[test]
fn a_handler_that_spins_is_contained() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if may(Class::Fifo { priority: RUNNING }) {
        is_contained_and_rejoins(pair(Placement::Upcalls, std::hint::spin_loop, None));
    }
}

#[test]
fn a_handler_that_sleeps_is_contained() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if may(Class::Fifo { priority: RUNNING }) {
        let sleep = || clock::sleep(Duration::from_millis(50));
        is_contained_and_rejoins(pair(Placement::Upcalls, sleep, None));
    }
}

#[test]
fn a_handler_that_waits_for_a_pipe_is_contained() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if may(Class::Fifo { priority: RUNNING }) {
        let (mut reader, writer): (PipeReader, PipeWriter) = std::io::pipe().expect("a pipe");
        let read = move || {
            let _ = reader.read(&mut [0; 1]);
        };
        is_contained_and_rejoins(pair(Placement::Upcalls, read, Some(writer)));
    }
}

#[test]
fn inside_a_reservation_the_others_go_on_in_a_second_one() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let reservation: Reservation = "2ms/10ms".parse().expect("valid");
    if may(Class::Fifo { priority: RUNNING })
        && may(Class::Deadline { reservation, reset_on_fork: true })
    {
        is_contained_and_rejoins(pair(
            Placement::Reserved(reservation),
            std::hint::spin_loop,
            None,
        ));
    }
}

#[test]
fn a_contained_handler_gets_its_time_once_more_below_all_upcalls_and_then_the_least_weight() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    // Each class that it had, and the time before its first observation without an observation.
    let classes = Arc::new(Mutex::new(Vec::<(Option<Class>, Duration)>::new()));
    let seen = Arc::clone(&classes);
    let mut looked = clock::now();
    let note = move || {
        let class = sched::get(thread::current()).expect("our own").class();
        // The kernel reads a class without a lock: policy and priority may come from before and
        // after a change.
        if class == Some(Class::Fifo { priority: 0 }) {
            return;
        }
        let now = clock::now();
        let unseen = now.saturating_since(std::mem::replace(&mut looked, now));
        let mut seen = seen.lock().expect("whole");
        if seen.last().is_none_or(|(last, _)| *last != class) {
            seen.push((class, unseen));
        }
    };
    let pair = pair(Placement::Upcalls, note, None);
    let least = Some(Class::Other { nice: 19 });
    let is_least = || classes.lock().expect("whole").last().is_some_and(|(last, _)| *last == least);
    assert!(eventually(is_least));
    assert!(more_of(&pair.others));
    is_contained_and_rejoins(pair);
    let fifo = |priority| Some(Class::Fifo { priority });
    // Later jobs run at the running level, and end at once.
    let classes = classes.lock().expect("whole");
    let (first, rest) = classes.split_first().expect("it ran");
    assert_eq!(first.0, fifo(RUNNING), "{classes:?}");
    // Its extra time may elapse while a virtual CPU stands still, and not otherwise.
    let (second, unseen) = rest[0];
    let passed_unseen = second == least && unseen >= ONCE_MORE;
    let in_turn = second == fifo(LOWEST - 1) && rest[1].0 == least;
    assert!(in_turn || passed_unseen, "{classes:?}");
}

#[test]
fn a_demotion_ends_with_the_upcalls() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    let stuck = Arc::new(Mutex::new(None));
    let who = Arc::clone(&stuck);
    let sleep = move || {
        *who.lock().expect("whole") = Some(thread::current());
        clock::sleep(Duration::from_millis(5));
    };
    let Pair { running, release, .. } = pair(Placement::Upcalls, sleep, None);
    assert_eq!(running.wait(&[1], clock::now() + PATIENCE), [1]);
    drop(running);
    let stuck = stuck.lock().expect("whole").expect("it ran");
    let class = || sched::get(stuck).ok().and_then(|now| now.class());
    assert!(eventually(|| class() == Some(Class::Other { nice: 19 })), "{:?}", class());
    drop(release);
}

#[test]
fn a_handler_contained_for_the_first_time_rejoins_when_it_returns() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    /// A handler that sleeps in its third and sixth job, and records when it returned.
    struct Twice {
        jobs: u32,
        back: Vec<Instant>,
    }
    impl Handler for Twice {
        fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
            self.jobs += 1;
            if matches!(self.jobs, 3 | 6) {
                clock::sleep(Duration::from_millis(15));
                self.back.push(clock::now());
            }
            pdus
        }
    }
    const LONGEST: Duration = Duration::from_secs(2);
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    upcalls.create(upcall(20, 100), Twice { jobs: 0, back: Vec::new() }).expect("fits");
    let slow = Twice { jobs: 100, back: Vec::new() };
    upcalls.create(upcall(LONGEST.as_nanos() / 1_000_000, 100), slow).expect("fits");
    let mut running = upcalls.run(clock::now()).expect("has its class");
    let mut returned = 0;
    let both = eventually(|| {
        let is_return = |notice: &punctual_runtime::Notice| notice.kind == NoticeKind::Returned;
        returned += running.notices().filter(is_return).count();
        returned == 2
    });
    assert!(both, "{returned} times");
    let six = || running.activity(0) == Activity::Active;
    assert!(eventually(six));
    clock::sleep(LONGEST + Duration::from_millis(100));
    let stopped = running.stop().expect("kept its class");
    let back = &stopped.handlers[0].back;
    assert_eq!(back.len(), 2);
    let next_release = |after: Instant| {
        let mut starts = stopped.events.iter().filter(|event| {
            event.job.task == 0 && event.kind == Kind::Start && event.release > after
        });
        starts.next().expect("it goes on").release
    };
    assert!(next_release(back[0]) < back[0] + LONGEST / 2, "at once");
    // The second time it waits until the jobs that it held up are over.
    let mut contained = stopped.events.iter().filter(|event| event.kind == Kind::Contained);
    let last = contained.next_back().expect("two").at;
    assert!(next_release(back[1]) >= last + LONGEST);
}

#[test]
fn an_upcall_that_is_contained_repeatedly_is_closed_and_returns_its_handler() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    /// A handler that sleeps in every iteration.
    struct Slow;
    impl Handler for Slow {
        fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
            clock::sleep(Duration::from_millis(15));
            pdus
        }
    }
    let others = Arc::new(AtomicU64::new(0));
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&told);
    let mut upcalls: Upcalls<Work> = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1))
        .with_most_containments(2)
        .observe(move |notice| hears.lock().expect("whole").push((notice.task, notice.kind)));
    upcalls.create(upcall(20, 100), Box::new(Slow)).expect("fits");
    upcalls.create(upcall(10, 100), Box::new(Count(Arc::clone(&others)))).expect("fits");
    let mut running = upcalls.run(clock::now()).expect("has its class");
    assert!(eventually(|| running.activity(0) == Activity::Closed));
    assert!(more_of(&others));
    let closed = (0, NoticeKind::Closed);
    assert!(eventually(|| told.lock().expect("whole").contains(&closed)));
    assert!(matches!(running.suspend(0), Err(OrderError::NoSuchUpcall { task: 0 })));
    let stopped = running.stop().expect("kept its class");
    assert_eq!((stopped.tasks, stopped.stuck), (vec![0, 1], vec![]));
    let told = told.lock().expect("whole");
    assert!(told.contains(&(0, NoticeKind::Contained { times: 2 })), "{told:?}");
}

#[test]
fn stopping_does_not_wait_for_ever_for_a_handler_that_never_returns() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    let sleep = || clock::sleep(Duration::from_millis(5));
    let Pair { running, release, .. } = pair(Placement::Upcalls, sleep, None);
    assert_eq!(running.wait(&[1], clock::now() + PATIENCE), [1]);
    let stopped = running.stop().expect("kept its class");
    assert_eq!((stopped.tasks, stopped.stuck), (vec![0], vec![1]));
    drop(release);
}

#[test]
fn a_panic_is_propagated_to_the_owner() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    struct Panics;
    impl Handler for Panics {
        fn iterate(&mut self, _: Instant, _: u32) -> u32 {
            panic!("as asked");
        }
    }
    let mut upcalls = Upcalls::new(Placement::Ordinary, HostProfile::ideal(1));
    upcalls.create(upcall(10, 100), Panics).expect("everything is admitted");
    let mut running = upcalls.run(clock::now()).expect("an ordinary thread");
    // No command before this: one that suspended it in time would keep it from panicking.
    assert!(eventually(|| running.has_ended()));
    assert!(matches!(running.suspend(0), Err(OrderError::Ended)));
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| running.stop()));
    let panic = stopped.err().expect("it goes on");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"as asked"));
}

#[test]
fn best_effort_runs_as_an_ordinary_thread_and_delays_no_upcall() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    /// A handler that records its class and works half a millisecond.
    struct Background(Arc<Mutex<Vec<Option<Class>>>>);
    impl Handler for Background {
        fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
            let class = sched::get(thread::current()).expect("our own").class();
            self.0.lock().expect("whole").push(class);
            let until = clock::thread_cpu_time() + Service::from_micros(500);
            while clock::thread_cpu_time() < until {}
            pdus
        }
    }
    let (jobs, classes) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
    let mut upcalls: Upcalls<Work> = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    upcalls.create(upcall(20, 100), Box::new(Count(Arc::clone(&jobs)))).expect("fits");
    let background = BestEffort::new(BestEffortSpec {
        name: "background".into(),
        weight: 1,
        quantum: 1,
        time_per_pdu: Service::from_millis(1),
        poll: Duration::from_millis(5),
    });
    let handler = Box::new(Background(Arc::clone(&classes)));
    upcalls.create_best_effort(background.expect("valid"), handler).expect("fits");
    let witnesses: Vec<Witness> = thread::affinity().into_iter().map(Witness::of).collect();
    let running = upcalls.run(clock::now()).expect("has its class");
    let ran_enough = || classes.lock().expect("whole").len() > 50;
    assert!(eventually(ran_enough) && more_of(&jobs), "both go on");
    let stopped = running.stop().expect("kept its class");
    assert_eq!(stopped.tasks, [0, 1]);
    let classes = classes.lock().expect("whole");
    let ordinary = classes.iter().filter(|class| **class == Some(Class::Other { nice: 0 }));
    // The number that are raised before they begin depends on how busy the host is.
    assert!(ordinary.count() > 0, "{classes:?}");
    // The time that a hypervisor takes counts as the handler's own.
    let stood_still = witnesses.iter().any(|witness| !witness.stood_still().is_zero());
    assert!(stood_still || stopped.events.iter().all(|event| event.kind != Kind::Contained));
}
