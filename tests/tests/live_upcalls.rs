//! The runtime on this kernel. These tests check what happens, never how fast, because the host is
//! shared.
//!
//! Without the right to real-time scheduling they print that and check nothing.

use std::sync::{Arc, Mutex};

use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::{self, Tid};
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::level_order::{Lowering, RUNNING, Turns, level_of, set_turns};
use punctual_runtime::{CreateError, Placement, Running, Upcalls};
use punctual_trace::{Event, Kind};
use system_tests::live::may;

/// Serialises the tests: they share this host's CPUs.
static ALONE: Mutex<()> = Mutex::new(());

/// A handler that works for a given processor time for each PDU, and records what it sees.
struct Worker {
    name: char,
    time_per_pdu: Service,
    diary: Arc<Mutex<Diary>>,
}

#[derive(Default)]
struct Diary {
    /// The beginnings and ends of iterations, by upcall, in the order they happened.
    iterations: Vec<(char, &'static str)>,
    /// The thread that ran the handlers, and its class while it did.
    ran_as: Option<(Tid, Option<Class>)>,
}

impl Handler for Worker {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        let this = thread::current();
        let class = sched::get(this).expect("our own").class();
        let mut diary = self.diary.lock().expect("diary");
        diary.ran_as = Some((this, class));
        diary.iterations.push((self.name, "begins"));
        drop(diary);
        let until = clock::thread_cpu_time() + self.time_per_pdu * u64::from(pdus);
        while clock::thread_cpu_time() < until {}
        pdus
    }

    fn commit(&mut self, _now: Instant) {
        self.diary.lock().expect("diary").iterations.push((self.name, "ends"));
    }
}

fn upcall(name: char, period_ms: u64, batch: u32, quantum: u32, pdu_us: u64) -> Upcall {
    Upcall::new(UpcallSpec {
        name: name.to_string(),
        period: Duration::from_millis(period_ms),
        batch,
        quantum,
        time_per_pdu: Service::from_micros(pdu_us),
    })
    .expect("valid")
}

/// Starts two upcalls: `s` works 12 ms every 60 ms in three quanta, `f` 0.2 ms every 5 ms.
fn start(placement: Placement, diary: &Arc<Mutex<Diary>>) -> Running<Worker> {
    // Without containment: where this host's CPU is taken away for longer than a grace, a handler
    // would be interrupted at another place than its yield points, and rightly so.
    let mut upcalls = Upcalls::new(placement, HostProfile::ideal(1)).without_containment();
    for (upcall, pdu_us) in
        [(upcall('s', 60, 12, 4, 1_000), 1_000), (upcall('f', 5, 1, 1, 200), 200)]
    {
        let worker = Worker {
            name: upcall.name().chars().next().expect("named"),
            time_per_pdu: Service::from_micros(pdu_us),
            diary: Arc::clone(diary),
        };
        upcalls.create(upcall, worker).expect("admitted");
    }
    upcalls.run(clock::now()).expect("has its class")
}

#[test]
fn an_upcall_gives_way_at_its_yield_points_and_nowhere_else() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    let diary = Arc::default();
    let running = start(Placement::Upcalls, &diary);
    clock::sleep(Duration::from_millis(400));
    let stopped = running.stop().expect("kept its class");

    let diary = diary.lock().expect("diary");
    // Every iteration ends before any other begins: no handler interrupts another.
    for pair in diary.iterations.chunks(2) {
        if let [(who, "begins"), (also, "ends")] = pair {
            assert_eq!(who, also);
        } else if pair.len() == 2 {
            panic!("interleaved: {pair:?}");
        }
    }
    // The slow upcall yielded between two quanta, the fast one ran there, and the slow one went on.
    let slow: Vec<&Event> = stopped.events.iter().filter(|e| e.job.task == 0).collect();
    let gave_way = slow.iter().position(|e| e.kind == Kind::GiveWay).expect("gave way");
    assert_eq!(slow[gave_way + 1].kind, Kind::Resume);
    assert_eq!(
        slow[gave_way].job,
        slow[gave_way + 1].job,
        "the same job, its batch not begun anew"
    );
    let between = |e: &&Event| e.at >= slow[gave_way].at && e.at <= slow[gave_way + 1].at;
    assert!(stopped.events.iter().filter(between).any(|e| e.job.task == 1));
    // Each handler ran at the running level.
    let (_, class) = diary.ran_as.expect("ran");
    assert_eq!(class, Some(Class::Fifo { priority: RUNNING }));
    assert_eq!(stopped.events_lost, 0);
}

#[test]
fn it_waits_at_the_priority_of_its_rate() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    let diary: Arc<Mutex<Diary>> = Arc::default();
    // If its successor had to lower it, it would wait at the running level, because there is none.
    set_turns(Turns { lowering: Lowering::ByItself, ..Turns::STRICT });
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    let worker =
        Worker { name: 'w', time_per_pdu: Service::from_micros(50), diary: Arc::clone(&diary) };
    upcalls.create(upcall('w', 20, 1, 1, 50), worker).expect("admitted");
    let running = upcalls.run(clock::now()).expect("has its class");
    set_turns(Turns::STRICT);
    let waiting = Some(Class::Fifo { priority: level_of(Duration::from_millis(20)) });
    // It is seen sooner or later, because it waits most of the time.
    let seen = (0..2_000).any(|_| {
        clock::sleep(Duration::from_millis(1));
        let ran_as = diary.lock().expect("diary").ran_as;
        ran_as.is_some_and(|(tid, _)| sched::get(tid).expect("lives").class() == waiting)
    });
    assert!(seen);
    running.stop().expect("kept its class");
}

#[test]
fn a_reservation_is_one_to_the_kernel() {
    let _alone = ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let reservation = "8ms/20ms".parse().expect("valid");
    let class = Class::Deadline { reservation, reset_on_fork: true };
    if !may(class) {
        return;
    }
    let diary: Arc<Mutex<Diary>> = Arc::default();
    let running = start(Placement::Reserved(reservation), &diary);
    clock::sleep(Duration::from_millis(150));
    let stopped = running.stop().expect("kept its class");
    let (_, ran_as) = diary.lock().expect("diary").ran_as.expect("ran");
    assert_eq!(ran_as, Some(class));
    assert!(stopped.exec_time > Service::from_millis(5), "{}", stopped.exec_time);
}

#[test]
fn upcalls_that_do_not_fit_are_refused_and_created_ones_stay() {
    let diary: Arc<Mutex<Diary>> = Arc::default();
    let worker =
        |name| Worker { name, time_per_pdu: Service::from_micros(1), diary: Arc::clone(&diary) };
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1)).without_containment();
    assert_eq!(upcalls.create(upcall('a', 10, 6, 6, 1_000), worker('a')).expect("fits"), 0);
    let refused = upcalls.create(upcall('b', 10, 5, 5, 1_000), worker('b')).expect_err("11 of 10");
    assert!(matches!(refused, CreateError::Refused(_)), "{refused}");
    assert_eq!(upcalls.create(upcall('c', 10, 4, 4, 1_000), worker('c')).expect("fits"), 1);

    let reservation = "2ms/8ms".parse().expect("valid");
    let mut reserved = Upcalls::new(Placement::Reserved(reservation), HostProfile::ideal(1));
    let refused = reserved.create(upcall('d', 10, 3, 3, 1_000), worker('d')).expect_err("30 > 25");
    let CreateError::Refused(refusal) = refused else { panic!("{refused}") };
    assert_eq!(refusal.test, "reservation-share", "{refusal}");
}
