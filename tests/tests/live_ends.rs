//! However upcalls end, their owner learns of it and never waits for a handler: stuck handlers,
//! panics and reservations that cannot be had twice, together. The tests check function only, no
//! times, because the host is shared.
//!
//! Without the right to real-time scheduling most of these tests print that and check nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use punctual_linux::clock;
use punctual_linux::sched::{Class, SchedError};
use punctual_model::{
    Duration, Handler, HostProfile, Instant, Reservation, Service, Upcall, UpcallSpec,
};
use punctual_runtime::level_order::RUNNING;
use punctual_runtime::{Activity, Placement, Running, StartError, Upcalls};
use system_tests::live::{eventually, may};

/// Serialises the tests: they share this host's CPUs, and one of them changes the panic hook.
static ALONE: Mutex<()> = Mutex::new(());

type Work = Box<dyn Handler + Send>;

/// The message of the panics here.
const SAID: &str = "as the test wants";

/// A handler that sleeps and does not return until it is released.
struct Stuck(Arc<AtomicBool>);

impl Handler for Stuck {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        while !self.0.load(Ordering::Acquire) {
            clock::sleep(Duration::from_millis(5));
        }
        pdus
    }
}

/// A handler that panics on command, and optionally again when it is dropped.
struct Panics {
    now: Arc<AtomicBool>,
    twice: bool,
}

impl Handler for Panics {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        if self.now.load(Ordering::Acquire) {
            std::panic::panic_any(SAID);
        }
        pdus
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        if self.twice && !std::thread::panicking() {
            panic!("dropped");
        }
    }
}

/// Sets the flag when dropped, even when the test fails: no stuck thread may stay.
struct Release(Arc<AtomicBool>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn flag(set: bool) -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(set))
}

fn upcall(period_ms: u64) -> Upcall {
    Upcall::new(UpcallSpec {
        name: format!("every {period_ms} ms"),
        period: Duration::from_millis(period_ms),
        batch: 1,
        quantum: 1,
        time_per_pdu: Service::from_micros(100),
    })
    .expect("valid")
}

/// Stops the upcalls and returns the message of the panic that is propagated.
fn panic_of<H>(running: Running<H>) -> Option<&'static str> {
    let stopped = catch_unwind(AssertUnwindSafe(|| running.stop().map(|_| ())));
    stopped.err().and_then(|panic| panic.downcast_ref::<&str>().copied())
}

#[test]
fn a_panic_beside_a_stuck_handler_is_propagated_to_the_owner() {
    let _alone = alone();
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    for asks in [true, false] {
        let release = Release(flag(false));
        let now = flag(false);
        let mut upcalls: Upcalls<Work> = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
        upcalls.create(upcall(20), Box::new(Stuck(Arc::clone(&release.0)))).expect("fits");
        let panics = Panics { now: Arc::clone(&now), twice: false };
        upcalls.create(upcall(10), Box::new(panics)).expect("fits");
        let running = upcalls.run(clock::now()).expect("has its class");
        assert!(eventually(|| running.activity(0) == Activity::Contained));
        now.store(true, Ordering::Release);
        assert!(eventually(|| running.has_ended()));
        // Nothing will change any more, so this returns; the handler that panicked may have been
        // contained.
        let inactive = running.wait(&[1], Instant::MAX);
        assert!(inactive.len() <= 1);
        if asks {
            assert_eq!(panic_of(running), Some(SAID));
        } else {
            drop(running);
        }
    }
}

#[test]
fn a_reservation_that_cannot_be_had_twice_ends_them_beside_a_stuck_handler() {
    let _alone = alone();
    let reservation: Reservation = "19ms/20ms".parse().expect("valid");
    if !may(Class::Fifo { priority: RUNNING })
        || !may(Class::Deadline { reservation, reset_on_fork: true })
    {
        return;
    }
    let release = Release(flag(false));
    let placement = Placement::Reserved(reservation);
    let mut upcalls: Upcalls<Work> = Upcalls::new(placement, HostProfile::ideal(1));
    upcalls.create(upcall(20), Box::new(Stuck(Arc::clone(&release.0)))).expect("fits");
    let panics = Panics { now: flag(false), twice: false };
    upcalls.create(upcall(10), Box::new(panics)).expect("fits");
    let running = match upcalls.run(clock::now()) {
        Ok(running) => running,
        Err(taken) => return println!("skipped: {taken}"),
    };
    // Two of them need more than two CPUs have; where there are more CPUs, they go on.
    assert!(eventually(|| running.has_ended() || running.activity(0) == Activity::Contained));
    match running.stop() {
        Ok(stopped) => assert_eq!(stopped.stuck, [0]),
        Err(StartError::Class(SchedError::NoBandwidth { .. })) => {}
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_panic_that_takes_longer_than_the_grace_is_propagated_to_the_owner() {
    let _alone = alone();
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    /// Restores the panic hook, even when the test fails.
    struct Slowly;
    impl Drop for Slowly {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                let _ = std::panic::take_hook();
            }
        }
    }
    std::panic::set_hook(Box::new(|_| clock::sleep(Duration::from_millis(50))));
    let hook = Slowly;
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    let first = Panics { now: flag(true), twice: false };
    upcalls.create(upcall(10), first).expect("fits");
    let running = upcalls.run(clock::now()).expect("has its class");
    let ended = eventually(|| running.has_ended());
    let said = panic_of(running);
    drop(hook);
    assert!(ended, "once it has come home");
    assert_eq!(said, Some(SAID));
}

#[test]
fn a_panic_still_in_progress_is_propagated_to_the_owner() {
    let _alone = alone();
    if !may(Class::Fifo { priority: RUNNING }) {
        return;
    }
    /// A handler that panics after it was contained.
    struct Late(Arc<AtomicBool>);
    impl Handler for Late {
        fn iterate(&mut self, _: Instant, _: u32) -> u32 {
            while !self.0.load(Ordering::Acquire) {
                clock::sleep(Duration::from_millis(5));
            }
            clock::sleep(Duration::from_millis(100));
            std::panic::panic_any(SAID);
        }
    }
    let release = Release(flag(false));
    let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    upcalls.create(upcall(10), Late(Arc::clone(&release.0))).expect("fits");
    let running = upcalls.run(clock::now()).expect("has its class");
    assert!(eventually(|| running.activity(0) == Activity::Contained));
    drop(release);
    assert_eq!(panic_of(running), Some(SAID));
}

#[test]
fn a_handler_that_panics_again_when_dropped_does_not_block_its_owner() {
    let _alone = alone();
    let mut upcalls = Upcalls::new(Placement::Ordinary, HostProfile::ideal(1));
    upcalls.create(upcall(10), Panics { now: flag(true), twice: true }).expect("no promise");
    let running = upcalls.run(clock::now()).expect("an ordinary thread");
    assert!(running.wait(&[0], Instant::MAX).is_empty(), "it ends");
    assert!(running.has_ended());
    assert_eq!(panic_of(running), Some(SAID), "the first of them");
}
