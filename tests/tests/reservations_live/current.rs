//! The calling thread under a reservation or a time constraint, and restored afterwards.

use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, host, thread};
use punctual_model::reservation::Enforcement::{Hard, Soft};
use punctual_model::{Duration, Instant, Service};
use punctual_runtime::reservation::{Backend, Constraint, Refused, Reserved};

use super::{alone, groups, ms, reservations};

#[test]
fn the_calling_thread_is_reserved_by_either_back_end() {
    let _alone = alone();
    let Some(reservations) = reservations() else { return };
    let before = sched::get(thread::current()).expect("our own");
    for (enforcement, exact, backend) in [
        (Hard, false, Backend::Kernel),
        (Soft, false, Backend::Timetable),
        (Hard, true, Backend::Timetable),
    ] {
        let reserved = Reserved::current(&reservations, ms(2, 10), enforcement, exact);
        let mut reserved = match reserved {
            Ok(reserved) => reserved,
            Err(Refused::Class(refused)) if refused.is_privilege() => {
                println!("skipped: {refused}");
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        if backend == Backend::Timetable || reservations.facts().deadline.is_ok() {
            assert_eq!(reserved.choice().backend, backend, "{}", reserved.choice().because);
        }
        let mut last = Instant::ZERO;
        for _ in 0..5 {
            let start = reserved.wait_for_next_period();
            assert!(start > last && clock::now() >= start);
            last = start;
            let left = reserved.left();
            while reserved.used() < Service::from_micros(300) {}
            assert!(reserved.left() < left);
        }
        reserved.change(ms(1, 10)).expect("less fits");
        drop(reserved);
        assert_eq!(sched::get(thread::current()).expect("our own"), before);
        assert!(thread::affinity().len() > 1 || host::cpus_online() == 1);
    }
    assert!(groups().is_empty());
}

#[test]
fn a_thread_that_came_with_a_class_has_it_again_afterwards() {
    let _alone = alone();
    let Some(reservations) = reservations() else { return };
    let came = Class::Fifo { priority: 5 };
    let class = || sched::get(thread::current()).expect("our own").class();
    std::thread::scope(|scope| {
        let body = || {
            sched::set(thread::current(), came).expect("less than the dispatcher's");
            for (enforcement, exact) in [(Soft, false), (Hard, true)] {
                let reserved = Reserved::current(&reservations, ms(2, 10), enforcement, exact);
                drop(reserved.expect("admitted"));
                assert_eq!(class(), Some(came), "{enforcement:?}");
            }
            let soon = clock::now() + Duration::from_secs(4);
            let estimate = Service::from_millis(2);
            let begun = Constraint::begin(&reservations, clock::now(), estimate, soon);
            begun.expect("there is room").end();
            assert_eq!(class(), Some(came));
        };
        scope.spawn(body).join().expect("no panic");
    });
    assert!(groups().is_empty());
}
