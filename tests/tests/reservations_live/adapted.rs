//! An adaptive reservation follows its thread's use, within its bounds.

use punctual_linux::clock;
use punctual_model::reservation::Enforcement::{Hard, Soft};
use punctual_model::{Duration, Service};
use punctual_policy::adaptive::{Adaptive, Bounds};
use punctual_runtime::reservation::{Adapted, Refused, Reserved};

use super::{alone, groups, reservations};

const PERIOD: Duration = Duration::from_millis(20);
const LEAST: Service = Service::from_micros(500);
const MOST: Service = Service::from_millis(6);

/// Makes passes with this much work until the budget `fits`. The host may be busy, so as many as
/// fit into some seconds.
fn work_until(
    (reserved, adaptive): (&mut Reserved, &mut Adaptive),
    work: Service,
    fits: impl Fn(Service) -> bool,
) {
    let give_up = clock::now() + Duration::from_secs(20);
    while !fits(reserved.reservation().budget()) {
        assert!(clock::now() < give_up, "{work} a pass, and it stays {}", reserved.reservation());
        pass(reserved, adaptive, work);
    }
}

/// Makes a pass, which missed if it used more than the budget.
fn pass(reserved: &mut Reserved, adaptive: &mut Adaptive, work: Service) {
    reserved.wait_for_next_period();
    while reserved.used() < work {}
    let (before, used) = (reserved.reservation(), reserved.used());
    let in_time = used <= before.budget();
    match reserved.adapt(adaptive, used, in_time) {
        Adapted::Changed(to) => {
            assert_ne!(to, before);
            assert_eq!((to, to), (reserved.reservation(), adaptive.reservation()));
            // Decreases follow passes in time, and increases follow one that was not.
            assert_eq!(to.budget() < before.budget(), in_time);
        }
        Adapted::Kept => assert_eq!(reserved.reservation(), before),
        // Another program has the bandwidth for the moment.
        Adapted::Stayed(refused) => {
            println!("stays: {refused}");
            assert_eq!(reserved.reservation(), before);
        }
    }
    let budget = reserved.reservation().budget();
    assert!((LEAST..=MOST).contains(&budget), "{budget}");
}

#[test]
fn an_adaptive_budget_shrinks_with_little_use_and_grows_with_misses_within_its_bounds() {
    let _alone = alone();
    let Some(reservations) = reservations() else { return };
    for enforcement in [Hard, Soft] {
        let bounds =
            Bounds { least: LEAST, most: MOST, pass_every: PERIOD, margin_percent: 20, run: 3 };
        let mut adaptive = Adaptive::new(bounds, PERIOD).expect("valid");
        let first = adaptive.reservation();
        assert_eq!(first.budget(), MOST);
        let mut reserved = match Reserved::current(&reservations, first, enforcement, false) {
            Ok(reserved) => reserved,
            Err(Refused::Class(refused)) if refused.is_privilege() => {
                println!("skipped: {refused}");
                continue;
            }
            Err(other) => panic!("{other}"),
        };
        let both = &mut (&mut reserved, &mut adaptive);
        let us = Service::from_micros;
        work_until((both.0, both.1), us(100), |budget| budget == LEAST);
        // The reservation keeps a fifth above the largest pass.
        work_until((both.0, both.1), us(2_000), |budget| budget >= us(2_400));
        work_until((both.0, both.1), us(7_000), |budget| budget == MOST);
        pass(both.0, both.1, us(7_000));
        assert_eq!(both.0.reservation().budget(), MOST, "never more");
        work_until((both.0, both.1), us(1_000), |budget| budget < us(3_000));
        drop(reserved);
    }
    assert!(groups().is_empty());
}
