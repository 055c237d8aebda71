//! Tests on live threads. Without the privilege, a test says so and stops.

use std::thread as std_thread;

use super::*;
use crate::{host, thread};

/// Runs `body` on its own thread, so that a failure leaves no other test's thread real-time.
fn on_a_thread(body: impl FnOnce() + Send + 'static) {
    std_thread::spawn(body).join().expect("no panic");
}

/// Returns true if this process may use `class`; otherwise prints the reason.
fn may(class: Class) -> bool {
    match try_out(class) {
        Err(refused) if refused.is_privilege() => {
            println!("skipped: {refused}");
            false
        }
        _ => true,
    }
}

fn class_now() -> Option<Class> {
    get(thread::current()).expect("a live thread").class()
}

fn deadline(text: &str) -> Class {
    Class::Deadline { reservation: text.parse().expect("valid"), reset_on_fork: true }
}

const FIFO_2: Class = Class::Fifo { priority: 2 };

#[test]
fn each_class_is_set_and_read_back() {
    if !may(FIFO_2) || !may(deadline("1ms/100ms")) {
        return;
    }
    on_a_thread(|| {
        let me = thread::current();
        for class in [
            FIFO_2,
            Class::Fifo { priority: 99 },
            deadline("1ms/100ms"),
            deadline("1500us/50ms"),
            Class::Other { nice: 5 },
            Class::Other { nice: 0 },
        ] {
            set(me, class).expect("within the limits");
            assert_eq!(class_now(), Some(class));
        }
    });
}

#[test]
fn another_threads_priority_is_set_only_while_it_is_real_time() {
    if !may(FIFO_2) {
        return;
    }
    on_a_thread(|| {
        let me = thread::current();
        let refused = set_fifo_priority(me, 3).expect_err("an ordinary thread");
        assert_eq!(refused, SchedError::NotFifo { thread: me, priority: 3 });
        set(me, FIFO_2).expect("within the limits");
        std_thread::spawn(move || set_fifo_priority(me, 3).expect("real-time by now"))
            .join()
            .expect("no panic");
        assert_eq!(class_now(), Some(Class::Fifo { priority: 3 }));
    });
}

#[test]
fn a_guard_leaves_the_thread_as_it_found_it() {
    if !may(FIFO_2) || !may(deadline("1ms/100ms")) {
        return;
    }
    on_a_thread(|| {
        let me = thread::current();
        set(me, Class::Other { nice: 7 }).expect("nicer needs no privilege");
        let (cpus, before) = (thread::affinity(), get(me));
        {
            let _restore = Restore::current().expect("a live thread");
            thread::set_timer_slack(Duration::from_nanos(1));
            thread::pin_to(cpus[0]).expect("our own");
            set(me, FIFO_2).expect("within the limits");
        }
        assert_eq!(get(me), before, "the slice is as it was, too");
        assert_eq!(thread::affinity(), cpus);
        assert_eq!(thread::timer_slack(), Duration::from_micros(50));

        let restore = Restore::current().expect("a live thread");
        set(me, deadline("1ms/100ms")).expect("within the limits");
        restore.restore().expect("no privilege needed");
        assert_eq!(get(me), before);
    });
}

#[test]
fn a_guard_gives_back_a_real_time_class_too() {
    if !may(FIFO_2) || !may(deadline("1ms/100ms")) {
        return;
    }
    on_a_thread(|| {
        for class in [FIFO_2, deadline("1ms/100ms")] {
            set(thread::current(), class).expect("within the limits");
            let restore = Restore::current().expect("a live thread");
            set(thread::current(), Class::Other { nice: 3 }).expect("needs no privilege");
            drop(restore);
            assert_eq!(class_now(), Some(class));
        }
    });
}

#[test]
fn bad_parameters_are_refused_before_the_kernel_sees_them() {
    let me = thread::current();
    for priority in [0, 100, 255] {
        let refused = set(me, Class::Fifo { priority });
        assert_eq!(refused, Err(SchedError::PriorityOutOfRange { priority }));
    }
    for nice in [-21, 20, i32::MIN] {
        assert_eq!(set(me, Class::Other { nice }), Err(SchedError::NiceOutOfRange { nice }));
    }
    for text in ["1023ns/1ms", "10us/50us", "1s/10s"] {
        assert!(!set(me, deadline(text)).expect_err(text).is_privilege());
    }
}

#[test]
fn a_thread_that_is_gone_is_named() {
    let gone = std_thread::spawn(thread::current).join().expect("no panic");
    // Joining waits for the thread's memory; the kernel's record may go a moment later.
    let until = clock::now() + Duration::from_secs(5);
    while get(gone).is_ok() && clock::now() < until {
        clock::sleep(Duration::from_millis(1));
    }
    assert_eq!(get(gone), Err(SchedError::NoSuchThread { thread: gone }));
}

#[test]
fn a_pinned_thread_learns_why_it_gets_no_reservation() {
    if !may(deadline("1ms/100ms")) || thread::affinity().len() < 2 {
        return;
    }
    on_a_thread(|| {
        let cpu = thread::affinity()[0];
        thread::pin_to(cpu).expect("our own");
        match set(thread::current(), deadline("1ms/100ms")) {
            Err(SchedError::AffinityTooNarrow { allowed, online }) => {
                assert_eq!((allowed, online), (vec![cpu], host::cpus_online()));
            }
            // With kernel.sched_rt_runtime_us = -1 pinning is allowed.
            other => assert_eq!((other, bandwidth_cap()), (Ok(()), None)),
        }
    });
}

#[test]
fn a_reserved_thread_learns_why_it_cannot_be_pinned() {
    if !may(deadline("1ms/100ms")) || thread::affinity().len() < 2 {
        return;
    }
    on_a_thread(|| {
        let cpu = thread::affinity()[0];
        set(thread::current(), deadline("1ms/100ms")).expect("within the limits");
        match thread::pin_to(cpu) {
            Err(refused) => assert_eq!(refused, thread::AffinityError::Reserved),
            Ok(()) => assert_eq!(bandwidth_cap(), None),
        }
    });
}

#[test]
fn a_reserved_thread_makes_ordinary_threads() {
    if !may(deadline("1ms/100ms")) {
        return;
    }
    on_a_thread(|| {
        set(thread::current(), deadline("1ms/100ms")).expect("within the limits");
        let child = std_thread::spawn(class_now).join().expect("no panic");
        assert_eq!(child, Some(Class::Other { nice: 0 }));
    });
}

#[test]
fn another_thread_cannot_end_a_reservation_in_its_sleep() {
    if !may(deadline("1ms/100ms")) {
        return;
    }
    on_a_thread(|| {
        let me = thread::current();
        set(me, deadline("1ms/100ms")).expect("within the limits");
        let refused = std_thread::spawn(move || set(me, Class::Other { nice: 0 }));
        assert_eq!(
            refused.join().expect("no panic"),
            Err(SchedError::MustLeaveItself { thread: me })
        );
        set(me, Class::Other { nice: 0 }).expect("by itself");
    });
}

#[test]
fn reset_on_fork_holds_whatever_class_the_thread_gets_later() {
    if !may(FIFO_2) {
        return;
    }
    on_a_thread(|| {
        let me = thread::current();
        let made = || std_thread::spawn(class_now).join().expect("no panic");
        set(me, FIFO_2).expect("may");
        assert_eq!(made(), Some(FIFO_2), "inherited");
        reset_on_fork().expect("needs no right");
        assert_eq!(class_now(), Some(FIFO_2));
        let ordinary = Some(Class::Other { nice: 0 });
        assert_eq!(made(), ordinary);
        set_fifo_priority(me, 3).expect("may");
        assert_eq!(made(), ordinary);
        set(me, Class::Other { nice: 0 }).expect("giving up needs no right");
        set(me, FIFO_2).expect("may");
        assert_eq!(made(), ordinary);
    });
}

#[test]
fn a_class_that_resets_is_not_passed_on_and_the_nice_value_outlives_it() {
    if !may(FIFO_2) {
        return;
    }
    on_a_thread(|| {
        let me = thread::current();
        set(me, Class::Other { nice: 5 }).expect("lower is allowed");
        set_resetting(me, FIFO_2).expect("may");
        assert_eq!(class_now(), Some(FIFO_2));
        assert_eq!(nice_of(me).expect("we live"), 5);
        let made = || std_thread::spawn(class_now).join().expect("no panic");
        assert_eq!(made(), Some(Class::Other { nice: 0 }), "sched(7): with the nice value zero");
        set_without_retry(me, FIFO_2).expect("may");
        assert_eq!(made(), Some(FIFO_2), "forgotten");
        set_without_retry(me, Class::Other { nice: 5 }).expect("may");
        assert_eq!(class_now(), Some(Class::Other { nice: 5 }));
    });
}
