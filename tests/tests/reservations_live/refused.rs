//! A refusal by the kernel for lack of bandwidth comes with a counter-offer.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_analysis::supply::TooCoarse;
use punctual_linux::bandwidth;
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, host, thread};
use punctual_model::reservation::Enforcement::Hard;
use punctual_model::{Duration, Service};
use punctual_runtime::reservation::{
    Backend, Refused, Reservations, Reserved, Settings, Unsuitable,
};
use system_tests::live::{PATIENCE, eventually, may};

use super::{alone, ms, reservations};

/// Releases the holders, however the test ends.
struct LetGo<'a>(&'a AtomicBool);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn a_hard_budget_that_slots_would_exceed_by_a_tenth_is_refused() {
    let _alone = alone();
    if reservations().is_none() {
        return;
    }
    let settings = Settings { context_switch: Service::from_micros(100), ..Settings::default() };
    let reservations = Reservations::with(settings).expect("forks");
    let asked = "999us/10ms".parse().expect("valid");
    let refused = reservations.spawn(&mut Command::new("true"), asked, Hard).map(drop);
    let Err(Refused::Unsuitable(Unsuitable::TooCoarse(TooCoarse { least, .. }))) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(least, Service::from_millis(1));
    let offered = format!("{least}/10ms").parse().expect("valid");
    let (mut child, held) =
        reservations.spawn(&mut Command::new("true"), offered, Hard).expect("as it was offered");
    child.wait().expect("ours");
    drop(held);
}

#[test]
fn a_refusal_of_the_kernel_offers_what_it_takes_then() {
    let _alone = alone();
    let Some(reservations) = reservations() else { return };
    if !may(Class::Deadline { reservation: ms(1, 100), reset_on_fork: true }) {
        return;
    }
    let gone = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _let_go = LetGo(gone);
        // Four fifths of each CPU, asleep.
        let held: Vec<_> = (0..host::cpus_online())
            .map(|_| {
                let (tell, told) = std::sync::mpsc::channel();
                scope.spawn(move || {
                    let class = Class::Deadline { reservation: ms(80, 100), reset_on_fork: true };
                    let _ = tell.send(sched::set(thread::current(), class).is_ok());
                    let until = clock::now() + PATIENCE;
                    while !gone.load(Ordering::Acquire) && clock::now() < until {
                        clock::sleep(Duration::from_millis(5));
                    }
                    let _ = sched::set(thread::current(), Class::Other { nice: 0 });
                });
                told
            })
            .collect();
        let held = held.iter().filter(|told| told.recv() == Ok(true)).count();
        println!("{held} threads hold 80 % each");
        let asked = ms(95, 100);
        let offer = match Reserved::current(&reservations, asked, Hard, false) {
            Err(Refused::NoBandwidth { error, offer }) => {
                println!("{error}; {offer}");
                offer
            }
            Ok(_) => return println!("skipped: this kernel gives more than all of its CPUs"),
            Err(other) => panic!("{other}"),
        };
        let fits = |reservation| {
            let given = Reserved::current(&reservations, reservation, Hard, false);
            given.is_ok_and(|given| given.choice().backend == Backend::Kernel)
        };
        if let Some(budget) = offer.largest_budget {
            assert_eq!(budget.period(), asked.period());
            assert!(budget.budget() < asked.budget());
            assert!(eventually(|| fits(budget)), "{budget}");
        }
        if let Some(period) = offer.shortest_period {
            assert_eq!(period.budget(), asked.budget());
            assert!(period.period() > asked.period());
            assert!(eventually(|| fits(period)), "{period}");
        }
        // There is something to offer, unless other programs take the rest at this moment.
        let left = bandwidth::largest_budget(asked.period()).expect("it may use the class");
        assert!(offer.largest_budget.is_some() || left.is_zero(), "{left} is left");
    });
}
