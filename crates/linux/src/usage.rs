//! Another thread of this process: its processor time, and whether it wants more.
#![allow(unsafe_code)]

use punctual_model::time::Service;

use crate::thread::Tid;

/// Returns the processor time that `thread`, one of this process, has received since it began, or
/// `None` if there is no such thread. It is exact to the clock even while the thread runs.
///
/// ```
/// use punctual_linux::{thread, usage};
///
/// assert!(usage::cpu_time_of(thread::current()).is_some());
/// ```
pub fn cpu_time_of(thread: Tid) -> Option<Service> {
    // clock_getcpuclockid(3): the clock of a thread is its id, inverted, above three bits that say
    // "of a thread" (4) and "as scheduled" (2). This is part of the kernel's interface
    // (posix-timers.h).
    let clock = (!thread.as_raw() << 3) | 6;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writes of a timespec during the call because it is a local
    // variable; the kernel checks the clock id and returns an error if it is not one.
    let refused = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let nanos = time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs();
    (refused == 0).then_some(Service::from_nanos(nanos))
}

/// Returns true if `thread`, one of this process, runs or waits for a CPU (proc(5), state R): any
/// processor time it lacks was withheld from it. Returns false if it sleeps, waits for a device or
/// is stopped. Returns `None` if the state cannot be read: the thread does not exist, /proc is not
/// mounted, or no file can be opened.
///
/// ```
/// use punctual_linux::{thread, usage};
///
/// assert_eq!(usage::wants_cpu(thread::current()), Some(true), "it runs");
/// ```
pub fn wants_cpu(thread: Tid) -> Option<bool> {
    let stat = crate::procfs::text(format!("/proc/self/task/{thread}/stat")).ok()?;
    // The name, in parentheses, may hold anything; the state is the next field.
    let (_, rest) = stat.rsplit_once(") ")?;
    Some(rest.starts_with('R'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread;
    use std::sync::mpsc;

    #[test]
    fn a_spinning_thread_gets_processor_time_and_a_sleeping_one_does_not_want_any() {
        let (tell, told) = mpsc::channel();
        let (end, ends) = mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            tell.send(thread::current()).expect("waited for");
            let _ = ends.recv();
        });
        let sleeping = told.recv().expect("sent");
        let until = crate::clock::now() + punctual_model::time::Duration::from_secs(20);
        while wants_cpu(sleeping) == Some(true) {
            assert!(crate::clock::now() < until, "it goes to sleep");
            std::thread::yield_now();
        }
        let before = cpu_time_of(sleeping).expect("lives");
        assert_eq!(wants_cpu(thread::current()), Some(true), "we run");
        let own = cpu_time_of(thread::current()).expect("our own");
        while cpu_time_of(thread::current()) == Some(own) {}
        assert_eq!(cpu_time_of(sleeping), Some(before));
        end.send(()).expect("waited for");
        sleeper.join().expect("no panic");
        while cpu_time_of(sleeping).is_some() {
            assert!(crate::clock::now() < until, "it is gone");
        }
        assert_eq!(wants_cpu(sleeping), None);
    }
}
