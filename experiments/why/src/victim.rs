//! The thread that is made late.

use std::fs::File;
use std::io::Read as _;
use std::sync::{Arc, Mutex, mpsc};

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant, Reservation, Service};

use crate::injection::Kind;

pub(crate) const PERIOD: Duration = Duration::from_millis(10);
pub(crate) const DEADLINE: Duration = Duration::from_millis(3);
pub(crate) const WORK: Duration = Duration::from_micros(500);
/// The additional work where it makes itself late.
const BEYOND: Duration = Duration::from_millis(4);
/// The most by which a timer may come late, where that is the cause.
const SLACK: Duration = Duration::from_millis(8);
/// The number of jobs of which one is made late.
const EACH: u64 = 2;
/// How long it runs at most, whatever happens to its parent.
const LENGTH: Duration = Duration::from_secs(90);

pub(crate) fn run(kind: Kind) {
    if let Err(why) = prepare(kind) {
        eprintln!("why-study: the victim cannot run: {why}");
        return;
    }
    let lock = Arc::new(Mutex::new(()));
    let end = clock::now() + LENGTH;
    let mut due = clock::now();
    for job in 0.. {
        due += PERIOD;
        let now = clock::now();
        if now >= end {
            return;
        }
        // A job that came too late skips the releases it has missed. Otherwise a timer that was
        // already due when it was set would count as a sleep in the middle of a job instead of a
        // late timer.
        if due < now {
            due = now + PERIOD;
        }
        clock::sleep_until(due);
        spin(WORK);
        if job % EACH == 0 {
            harm_itself(kind, &lock);
        }
    }
}

fn prepare(kind: Kind) -> Result<(), String> {
    let set = |class| sched::set(thread::current(), class).map_err(|why| why.to_string());
    match kind {
        // The kernel accepts no SCHED_DEADLINE thread that may not run everywhere (sched(7)).
        Kind::ThrottledByKernel => {
            let reservation =
                Reservation::new(Service::from_millis(1), PERIOD).map_err(|why| why.to_string())?;
            return set(Class::Deadline { reservation, reset_on_fork: false });
        }
        // The timetable decides where and how it runs.
        Kind::Throttled => return Ok(()),
        _ => thread::pin_to(0).map_err(|why| why.to_string())?,
    }
    if kind == Kind::LateTimer {
        thread::set_timer_slack(SLACK);
        return Ok(());
    }
    thread::set_timer_slack(Duration::from_nanos(1));
    if matches!(kind, Kind::Quota | Kind::QuotaAbove) {
        // A quota is for ordinary threads.
        return set(Class::Other { nice: -20 });
    }
    set(Class::Fifo { priority: 30 })
}

fn harm_itself(kind: Kind, lock: &Arc<Mutex<()>>) {
    match kind {
        Kind::Own | Kind::Throttled | Kind::ThrottledByKernel | Kind::Quota | Kind::QuotaAbove => {
            spin(BEYOND)
        }
        Kind::System => read_zeros(2 << 20, clock::now() + BEYOND),
        Kind::ShortSystem => read_zeros(16 << 10, clock::now() + BEYOND),
        Kind::PageFault => faults(clock::now() + BEYOND),
        Kind::Blocked => {
            let other = Arc::clone(lock);
            let (holds, held) = mpsc::channel();
            std::thread::spawn(move || {
                let _guard = other.lock();
                // No thread waits any more: the victim ends.
                let _ = holds.send(());
                clock::sleep(BEYOND);
            });
            // The other thread has ended: then there is nothing to wait for.
            let _ = held.recv();
            drop(lock.lock());
        }
        _ => {}
    }
}

fn spin(length: Duration) {
    let end = clock::now() + length;
    while clock::now() < end {
        std::hint::spin_loop();
    }
}

/// Reads this many zeros at once, again and again.
fn read_zeros(bytes: usize, end: Instant) {
    let mut zeros = vec![0_u8; bytes];
    // Without it there is nothing to do.
    let Ok(mut from) = File::open("/dev/zero") else { return };
    while clock::now() < end {
        // A short read is as good.
        let _ = from.read(&mut zeros);
    }
    std::hint::black_box(&zeros);
}

fn faults(end: Instant) {
    while clock::now() < end {
        // An allocation that comes from the kernel each time (mallopt(3), M_MMAP_THRESHOLD), and
        // brings a page when it is touched.
        let mut fresh = vec![0_u8; 64 << 20];
        let pages = fresh.iter_mut().step_by(4096);
        pages.take_while(|_| clock::now() < end).for_each(|byte| *byte = 1);
        std::hint::black_box(&fresh);
    }
}
