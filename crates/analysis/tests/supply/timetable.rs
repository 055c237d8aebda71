//! Timetables: X in every window [T, T + Y), by brute force over all T.

use punctual_analysis::Steps;
use punctual_analysis::ratio::Ratio;
use punctual_analysis::supply::{Built, Limits, TimetableRefusal, build, counter_offer};
use punctual_model::{Duration, Reservation, Service};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn ns(budget: u64, period: u64) -> Reservation {
    Reservation::new(Service::from_nanos(budget), Duration::from_nanos(period)).expect("valid")
}

fn limits(switch: u64, most_slots: usize) -> Limits {
    Limits { context_switch: Service::from_nanos(switch), most_slots }
}

/// Returns the intervals in which `owner` is served in one cycle, after the switch in each of its
/// slots.
fn served(built: &Built, owner: u32, switch: u64) -> Vec<(u64, u64)> {
    let own = built.table.slots().iter().filter(|slot| slot.owner == owner);
    own.map(|slot| (slot.start.as_nanos() + switch, slot.end().as_nanos())).collect()
}

/// Returns the least service in any window of `length`. The service in `[T, T + length)` bends only
/// if T or its end is at an edge of a slot, so only these T are checked, and no table is too long.
fn least_in_any_window(served: &[(u64, u64)], cycle: u64, length: u64) -> u64 {
    let until = |at: u64| {
        let whole: u64 = served.iter().map(|(start, end)| end - start).sum();
        let offset = at % cycle;
        let rest: u64 =
            served.iter().map(|(start, end)| offset.min(*end).saturating_sub(*start)).sum();
        at / cycle * whole + rest
    };
    let edges = || served.iter().flat_map(|(start, end)| [*start, *end]);
    let starts = edges().chain(edges().map(|edge| edge + cycle - length % cycle));
    starts.map(|from| until(from + length) - until(from)).min().unwrap_or(0)
}

/// Computes the same tick by tick, from the definition.
fn least_by_ticks(served: &[(u64, u64)], cycle: u64, length: u64) -> u64 {
    let ticks: Vec<u64> = (0..cycle)
        .map(|at| u64::from(served.iter().any(|(start, end)| (*start..*end).contains(&at))))
        .collect();
    (0..cycle)
        .map(|from| (from..from + length).map(|at| ticks[(at % cycle) as usize]).sum())
        .min()
        .expect("a cycle")
}

fn longest_gap(served: &[(u64, u64)], cycle: u64) -> u64 {
    let next = served.iter().skip(1).map(|(start, _)| *start).chain([served[0].0 + cycle]);
    served.iter().zip(next).map(|((_, end), start)| start - end).max().expect("served")
}

fn check(reservations: &[Reservation], built: &Built, switch: u64, ticks: bool) {
    let cycle = built.table.cycle().as_nanos();
    assert_eq!(built.shares.len(), reservations.len());
    for (owner, (reservation, share)) in reservations.iter().zip(&built.shares).enumerate() {
        let served = served(built, owner as u32, switch);
        let (x, y) = (reservation.budget().as_nanos(), reservation.period().as_nanos());
        let least = least_in_any_window(&served, cycle, y);
        assert!(least >= x, "{reservation} gets {least}: {reservations:?} {built:?}");
        if ticks {
            assert_eq!(least_by_ticks(&served, cycle, y), least);
        }
        let whole: u64 = built
            .table
            .slots()
            .iter()
            .filter(|slot| slot.owner == owner as u32)
            .map(|slot| slot.length.as_nanos())
            .sum();
        assert_eq!(share.reservation, *reservation);
        assert_eq!(share.longest_gap.as_nanos(), longest_gap(&served, cycle));
        assert_eq!(share.bandwidth, Ratio::above(whole, cycle));
        assert_eq!(share.above, share.bandwidth.minus(Ratio::below(x, y)));
        // Its service in its own period is also its service in every window of that length.
        let own = least_in_any_window(&served, cycle, share.period.as_nanos());
        assert_eq!(own, share.budget.as_nanos());
    }
}

/// Draws shares that sum to about `total`, over periods from `periods`.
fn draw(
    rng: &mut ChaCha8Rng,
    most: usize,
    total: f64,
    periods: &dyn Fn(&mut ChaCha8Rng) -> u64,
) -> Vec<Reservation> {
    let count = rng.random_range(1..=most);
    let shares: Vec<f64> = (0..count).map(|_| rng.random_range(0.05..1.0)).collect();
    let sum: f64 = shares.iter().sum();
    let one = |share: &f64| {
        let period = periods(rng);
        ns(((share / sum * total * period as f64) as u64).clamp(1, period), period)
    };
    shares.iter().map(one).collect()
}

#[test]
fn every_window_of_random_mixes_tick_by_tick() {
    let mut rng = ChaCha8Rng::seed_from_u64(41);
    let (mut built_count, mut split) = (0, 0);
    for _ in 0..4_000 {
        let total = rng.random_range(0.2..1.0);
        let reservations = draw(&mut rng, 5, total, &|rng| rng.random_range(2..120));
        let switch = rng.random_range(0..2);
        if let Ok(built) = build(&reservations, limits(switch, 256), &mut Steps::default()) {
            check(&reservations, &built, switch, true);
            built_count += 1;
            split += usize::from(built.shares.iter().any(|share| share.pieces > 1));
        }
    }
    assert!(built_count > 2_000 && split > 100, "{built_count} {split}");
}

#[test]
fn every_window_of_random_mixes_at_full_resolution() {
    let mut rng = ChaCha8Rng::seed_from_u64(42);
    let mut built_count = 0;
    for _ in 0..300 {
        let total = rng.random_range(0.5..1.0);
        let reservations =
            draw(&mut rng, 8, total, &|rng| rng.random_range(1_000_000..200_000_000));
        let switch = rng.random_range(0..5_000);
        if let Ok(built) = build(&reservations, limits(switch, 1024), &mut Steps::default()) {
            check(&reservations, &built, switch, false);
            assert!(built.table.slots().len() <= 1024);
            built_count += 1;
        }
    }
    assert!(built_count > 200, "{built_count}");
}

/// Reservations like Rialto/NT's cost nothing: powers of two fit up to the whole CPU.
#[test]
fn powers_of_two_cost_nothing() {
    let reservations = [ns(2, 8), ns(4, 16), ns(8, 32), ns(4, 16)];
    let built =
        build(&reservations, Limits::default(), &mut Steps::default()).expect("exactly one CPU");
    check(&reservations, &built, 0, true);
    assert!(built.shares.iter().all(|share| share.above <= Ratio::above(1, 1 << 50)));
    let whole = [ns(7, 7)];
    check(
        &whole,
        &build(&whole, Limits::default(), &mut Steps::default()).expect("a whole CPU"),
        0,
        true,
    );
}

/// The reservations of the study together on one CPU; their periods are not powers of two.
#[test]
fn the_modem_beside_a_softphone_and_video() {
    let text = ["2ms/13ms", "1ms/7ms", "5ms/20ms", "8ms/33ms"];
    let reservations = text.map(|text| text.parse::<Reservation>().expect("valid"));
    let switch = Service::from_micros(5);
    let built = build(
        &reservations,
        Limits { context_switch: switch, most_slots: 64 },
        &mut Steps::default(),
    )
    .expect("79 %");
    check(&reservations, &built, switch.as_nanos(), false);
    // Together 78.9 %; to keep them in every window and to switch costs under 5 % more.
    let taken = built.shares.iter().fold(Ratio::ZERO, |sum, share| sum.plus(share.bandwidth));
    assert!(taken < Ratio::above(84, 100), "{taken}");
}

/// Theorem 2 of docs/reservations.md: up to 16/17, and a little for rounding up, everything fits.
#[test]
fn everything_up_to_sixteen_seventeenths_fits() {
    let mut rng = ChaCha8Rng::seed_from_u64(43);
    for _ in 0..300 {
        let reservations = draw(&mut rng, 20, 16.0 / 17.0 - 0.000_1, &|rng| {
            rng.random_range(10_000_000..999_000_000)
        });
        let built = build(&reservations, Limits::default(), &mut Steps::default());
        assert!(built.is_ok(), "{reservations:?}: {built:?}");
    }
}

#[test]
fn a_refusal_has_its_numbers_and_a_counter_offer_that_fits() {
    let overload = [ns(3, 5), ns(3, 7)];
    assert_eq!(
        build(&overload, Limits::default(), &mut Steps::default()).expect_err("1.03").to_string(),
        "the shares are 102.8572 % in total, more than one CPU, so no timetable exists"
    );
    let (at, offer) = counter_offer(&overload, Limits::default()).expect("two of seven");
    assert_eq!((at, offer), (1, ns(2, 7)));
    let whole: Vec<Reservation> =
        ["1ms/2ms", "1ms/3ms", "1ms/7ms"].map(|text| text.parse().expect("valid")).into();
    let refusal =
        build(&whole, limits(10_000, 256), &mut Steps::default()).expect_err("97.6 % and switches");
    assert!(
        matches!(refusal, TimetableRefusal::TooDear { needed, .. } if needed > Ratio::ONE),
        "{refusal}"
    );
    let (at, offer) = counter_offer(&whole, limits(10_000, 256)).expect("less fits");
    assert_eq!(at, 2);
    let mut offered = whole.clone();
    offered[at] = offer;
    let built = build(&offered, limits(10_000, 256), &mut Steps::default()).expect("as offered");
    check(&offered, &built, 10_000, false);
    assert_eq!(build(&[], Limits::default(), &mut Steps::default()), Err(TimetableRefusal::Empty));
    let many = vec![ns(1, 1_000); 20];
    assert_eq!(
        build(&many, limits(0, 19), &mut Steps::default()),
        Err(TimetableRefusal::TooManySlots { reservations: 20, most_slots: 19 })
    );
    assert_eq!(counter_offer(&many[..5], Limits::default()), None);
}

/// Extremes end soon and do not overflow.
#[test]
fn extremes_are_answered() {
    let day = 86_400_000_000_000;
    for reservations in [
        vec![ns(1, 1)],
        vec![ns(1, 2), ns(day / 4, day)],
        vec![ns(day, day)],
        vec![ns(1, u64::MAX)],
        vec![ns(u64::MAX, u64::MAX)],
        vec![ns(1, 3), ns(1, u64::MAX), ns(u64::MAX / 3, u64::MAX)],
        (0..500).map(|at| ns(1_000, 1_000_000 + at)).collect(),
    ] {
        for switch in [0, 1, 1_000, u64::MAX / 2] {
            if let Ok(built) = build(&reservations, limits(switch, 1024), &mut Steps::default()) {
                assert!(built.table.slots().len() <= 1024);
                if reservations.iter().all(|one| one.period().as_nanos() <= day) {
                    check(&reservations, &built, switch, false);
                }
            }
        }
    }
}

/// Returns the load with Rialto/NT's own periods: each is rounded down to a power of two
/// milliseconds, and the budget is kept. (Its budgets were whole milliseconds too; that is not
/// counted.)
fn by_powers_of_two(reservations: &[Reservation], switch: u64) -> f64 {
    let share = |one: &Reservation| {
        let millis = one.period().as_nanos() / 1_000_000;
        let period = (1_000_000 << millis.ilog2()) as f64;
        (one.budget().as_nanos() + switch) as f64 / period
    };
    reservations.iter().map(share).sum()
}

/// The table of docs/reservations.md: `cargo test --release -p punctual-analysis --test
/// supply timetable -- --ignored --nocapture`.
#[test]
#[ignore = "prints a table"]
fn acceptance_and_cost() {
    println!(
        "| shares in total | switch | powers of two | accepted | mean cost | worst cost | mean slots | worst slots |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for switch in [0, 5_000, 50_000] {
        for total in [50, 70, 80, 85, 90, 94, 96, 98, 99] {
            let mut rng = ChaCha8Rng::seed_from_u64(44);
            let mut rounded = 0;
            let (mut accepted, mut costs, mut worst, mut slots, mut most) = (0, 0, 0, 0, 0);
            const MIXES: u32 = 500;
            for _ in 0..MIXES {
                // Two to ten reservations, with periods from 1 ms to 100 ms, evenly over the
                // decades.
                let periods =
                    |rng: &mut ChaCha8Rng| (1e6 * 100f64.powf(rng.random_range(0.0..1.0))) as u64;
                let mut reservations = draw(&mut rng, 9, f64::from(total) / 100.0, &periods);
                if reservations.len() == 1 {
                    reservations = draw(&mut rng, 9, f64::from(total) / 100.0, &periods);
                }
                rounded += u32::from(by_powers_of_two(&reservations, switch) <= 1.0);
                if let Ok(built) = build(&reservations, limits(switch, 1024), &mut Steps::default())
                {
                    let cost =
                        built.shares.iter().fold(Ratio::ZERO, |sum, one| sum.plus(one.above));
                    accepted += 1;
                    costs += cost.ppm_above();
                    worst = worst.max(cost.ppm_above());
                    slots += built.table.slots().len();
                    most = most.max(built.table.slots().len());
                }
            }
            let mean = |sum: u128| sum as f64 / f64::from(accepted.max(1)) / 10_000.0;
            println!(
                "| {total} % | {} µs | {:.1} % | {:.1} % | {:.2} % | {:.2} % | {:.0} | {most} |",
                switch / 1_000,
                f64::from(rounded) * 100.0 / f64::from(MIXES),
                f64::from(accepted) * 100.0 / f64::from(MIXES),
                mean(costs),
                worst as f64 / 10_000.0,
                slots as f64 / f64::from(accepted.max(1)),
            );
        }
    }
}

/// Periods without a common factor, over a range of 2,000 to 1, and more slots than there may be:
/// each of the six thousand bases is tried with each of the longest periods.
fn hostile() -> Vec<Reservation> {
    let one = |at: u64| {
        let period = Duration::from_nanos(1_000_003 + at * at * at * 7_919);
        Reservation::new(Service::from_nanos(period.as_nanos() / 70), period).expect("valid")
    };
    (0..64).map(one).collect()
}

#[test]
fn a_timetable_is_sought_within_the_steps_or_not_found() {
    let hostile = hostile();
    for limit in [0, 1_000, 1_000_000] {
        let steps = &mut Steps::new(limit);
        let refused = build(&hostile, limits(10_000, 1024), steps).expect_err("so few steps");
        assert_eq!(refused, TimetableRefusal::Undecided { reservations: 64 });
        assert!(steps.take(1).is_err(), "all are used");
    }
    let decided = build(&hostile, limits(10_000, 1024), &mut Steps::default());
    assert!(!matches!(decided, Err(TimetableRefusal::Undecided { .. })), "{decided:?}");
}
