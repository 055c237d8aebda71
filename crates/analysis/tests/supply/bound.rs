//! Supply bounds against the published answer and against every supply that the guarantee permits.

use punctual_analysis::supply::{Guarantee, Supply};
use punctual_model::{Duration, Reservation, Service};

fn supply(budget: u64, period: u64, guarantee: Guarantee) -> Supply {
    let reservation =
        Reservation::new(Service::from_nanos(budget), Duration::from_nanos(period)).expect("valid");
    Supply::new(reservation, guarantee)
}

fn least(supply: &Supply, window: usize) -> usize {
    supply.least_in(Duration::from_nanos(window as u64)).as_nanos() as usize
}

#[test]
fn sbf_01_three_every_five() {
    let supply = supply(3, 5, Guarantee::EveryPeriod);
    let bounds: Vec<usize> = (0..=15).map(|window| least(&supply, window)).collect();
    assert_eq!(bounds, [0, 0, 0, 0, 0, 1, 2, 3, 3, 3, 4, 5, 6, 6, 6, 7]);
}

/// Returns the least service in each window length over all supplies of `ticks` ticks that are
/// `allowed`; each supply is a word of bits.
fn exhaustive(ticks: u32, allowed: impl Fn(u32) -> bool) -> Vec<usize> {
    let mut least = vec![usize::MAX; ticks as usize + 1];
    for word in (0u32..1 << ticks).filter(|word| allowed(*word)) {
        for (window, least) in least.iter_mut().enumerate() {
            for from in 0..=ticks as usize - window {
                let mask = ((1u64 << window) - 1) as u32;
                *least = (*least).min((word >> from & mask).count_ones() as usize);
            }
        }
    }
    least
}

#[test]
fn every_window_is_the_least_of_all_supplies_with_x_in_every_window() {
    for period in 1..=6u32 {
        for budget in 1..=period {
            let mask = (1 << period) - 1;
            let allowed =
                |word: u32| (0..=16 - period).all(|at| (word >> at & mask).count_ones() >= budget);
            let found = exhaustive(16, allowed);
            let supply = supply(u64::from(budget), u64::from(period), Guarantee::EveryWindow);
            for (window, found) in found.into_iter().enumerate() {
                assert_eq!(least(&supply, window), found, "{budget}/{period} in {window}");
            }
        }
    }
}

#[test]
fn every_period_is_the_least_of_all_supplies_with_x_in_each_period() {
    for (period, periods) in [(1, 16), (2, 8), (3, 6), (4, 4), (5, 4)] {
        for budget in 1..=period {
            let mask = (1 << period) - 1;
            let allowed = |word: u32| {
                (0..periods).all(|at| (word >> (at * period) & mask).count_ones() >= budget)
            };
            let found = exhaustive(period * periods, allowed);
            let supply = supply(u64::from(budget), u64::from(period), Guarantee::EveryPeriod);
            // Longer windows cannot begin everywhere in a period.
            for (window, found) in
                found.into_iter().enumerate().take((period * (periods - 1)) as usize + 1)
            {
                assert_eq!(least(&supply, window), found, "{budget}/{period} in {window}");
            }
        }
    }
}

#[test]
fn the_inverse_is_the_shortest_window_and_the_gap_the_longest_without() {
    for guarantee in [Guarantee::EveryPeriod, Guarantee::EveryWindow] {
        for period in 1..=9 {
            for budget in 1..=period {
                let supply = supply(budget, period, guarantee);
                for service in 0..30 {
                    let shortest = (0..).find(|window| least(&supply, *window) >= service);
                    let time = supply.time_for(Service::from_nanos(service as u64));
                    assert_eq!(time.map(|time| time.as_nanos() as usize), shortest);
                }
                let gap = (0..).take_while(|window| least(&supply, *window) == 0).last();
                assert_eq!(supply.longest_gap().map(|gap| gap.as_nanos()), gap.map(|g| g as u64));
            }
        }
    }
}

#[test]
fn beyond_64_bits_there_is_no_answer() {
    let thin = supply(1, u64::MAX, Guarantee::EveryPeriod);
    assert_eq!(thin.longest_gap(), None);
    assert_eq!(thin.time_for(Service::from_nanos(2)), None);
    assert_eq!(thin.least_in(Duration::MAX), Service::ZERO);
    let strong = supply(1, u64::MAX, Guarantee::EveryWindow);
    assert_eq!(strong.time_for(Service::from_nanos(1)), Some(Duration::MAX));
    assert_eq!(strong.least_in(Duration::MAX), Service::from_nanos(1));
}
