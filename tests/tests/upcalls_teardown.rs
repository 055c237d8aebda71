//! Nothing is left of upcalls that have ended: no thread, no shared memory, no scheduling class.
//!
//! The test is alone in its program, because it counts this process's threads, and the test harness
//! makes and ends one for each test. Without the right to real-time scheduling it prints that and
//! checks nothing.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::{self, Tid};
use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
use punctual_runtime::level_order::RUNNING;
use punctual_runtime::{Activity, Callback, Placement, Running, Upcalls};
use system_tests::live::{eventually, may};

/// A handler that records which thread it runs on.
struct Worker(Arc<AtomicI32>);

/// A handler that does not reach its first yield point in time, and is contained.
struct Sleeper(bool);

impl Handler for Sleeper {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        if !std::mem::replace(&mut self.0, true) {
            clock::sleep(Duration::from_millis(60));
        }
        pdus
    }
}

impl Handler for Worker {
    fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
        self.0.store(thread::current().as_raw(), Ordering::Relaxed);
        pdus
    }
}

/// Starts two upcalls of different rates, so that every resource that an upcall may need exists.
fn start(placement: Placement, ran_on: &Arc<AtomicI32>) -> Running<Worker> {
    let mut upcalls = Upcalls::new(placement, HostProfile::ideal(1));
    for period in [5, 20] {
        let upcall = Upcall::new(UpcallSpec {
            name: format!("every {period} ms"),
            period: Duration::from_millis(period),
            batch: 2,
            quantum: 1,
            time_per_pdu: Service::from_micros(50),
        });
        upcalls.create(upcall.expect("valid"), Worker(Arc::clone(ran_on))).expect("admitted");
    }
    upcalls.run(clock::now()).expect("has its class")
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").expect("mounted").count()
}

fn shared_memory() -> Vec<std::ffi::OsString> {
    let Ok(entries) = fs::read_dir("/dev/shm") else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect()
}

#[test]
fn teardown_leaves_no_thread_no_shared_memory_and_no_scheduling_change() {
    // Before any attempt: a thread that was joined is listed for a moment longer.
    let threads_before = threads();
    let reservation = "8ms/20ms".parse().expect("valid");
    if !may(Class::Fifo { priority: RUNNING })
        || !may(Class::Deadline { reservation, reset_on_fork: true })
    {
        return;
    }
    let before = (shared_memory(), sched::get(thread::current()).expect("our own"));
    for placement in [Placement::Ordinary, Placement::Upcalls, Placement::Reserved(reservation)] {
        let ran_on = Arc::new(AtomicI32::new(0));
        let running = start(placement, &ran_on);
        let callback = Callback::start(Duration::from_millis(1)).expect("has its class");
        assert!(eventually(|| ran_on.load(Ordering::Relaxed) != 0), "it runs");
        clock::sleep(Duration::from_millis(30));
        // Once by stopping, once by dropping.
        running.stop().expect("kept its class");
        drop(start(placement, &ran_on));
        assert!(callback.stop().count() > 0);
        let tid = Tid::from_raw(ran_on.load(Ordering::Relaxed)).expect("a thread's");
        assert!(eventually(|| sched::get(tid).is_err()), "the thread is gone");
    }
    // A contained thread ends with its handler, even if no thread waits for it any more.
    for waits in [true, false] {
        let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
        let upcall = Upcall::new(UpcallSpec {
            name: "sleeper".into(),
            period: Duration::from_millis(10),
            batch: 1,
            quantum: 1,
            time_per_pdu: Service::from_micros(50),
        });
        upcalls.create(upcall.expect("valid"), Sleeper(false)).expect("admitted");
        let running = upcalls.run(clock::now()).expect("has its class");
        assert_eq!(running.wait(&[0], clock::now() + Duration::from_secs(20)), [0]);
        if waits {
            assert!(eventually(|| running.activity(0) == Activity::Active), "it came back");
        }
        assert!(running.stop().expect("kept its class").stuck.is_empty());
    }
    assert!(eventually(|| threads() == threads_before), "no thread is left");
    // A file that another killed process had left may be gone now; a new one may not be there.
    let (files_before, class_before) = before;
    assert!(shared_memory().iter().all(|file| files_before.contains(file)));
    assert_eq!(class_before, sched::get(thread::current()).expect("our own"));
}
