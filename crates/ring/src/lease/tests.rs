use super::*;
use std::thread;

#[test]
fn it_is_seized_only_while_lent_and_only_with_the_ticket_of_that_loan() {
    let held = Held::new(7);
    let guard = held.seizer();
    assert_eq!(guard.lent(), None);
    assert!(guard.seize(0).is_none() && guard.seize(1).is_none());
    let lent = held.lend();
    let old = guard.lent().expect("lent");
    let lent = lent.take_back().expect("nobody seized it").lend();
    assert!(guard.seize(old).is_none(), "another loan");
    let ticket = guard.clone().lent().expect("lent");
    assert_eq!(guard.seize(ticket).as_deref(), Some(&7));
    assert!(lent.take_back().is_none());
}

#[test]
fn of_two_threads_that_want_it_one_gets_it_and_nothing_is_lost() {
    let mut held = Held::new(0u64);
    let guard = held.seizer();
    for round in 0..2_000 {
        let (lent, guard) = (held.lend(), guard.clone());
        let ticket = guard.lent().expect("lent");
        let rival = thread::spawn(move || {
            guard.seize(ticket).map(|mut held| {
                *held += 1;
                held
            })
        });
        let own = lent.take_back().map(|mut held| {
            *held += 1;
            held
        });
        let seized = rival.join().expect("no panic");
        assert_ne!(own.is_some(), seized.is_some());
        held = own.or(seized).expect("one of them");
        assert_eq!(*held, round + 1);
    }
}
