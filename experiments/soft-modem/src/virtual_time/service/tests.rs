//! Compares servers with the thread's view of the same reservation, and turns with a check of each
//! instant.

use super::*;
use punctual_model::Service;
use punctual_sim::cpu::{Cpu, Supply};
use punctual_sim::processor::{Periods, Place};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn ns(n: u64) -> Instant {
    Instant::from_nanos(n)
}

/// Sleeps and works on a processor, as [`Cpu`] does. Returns the times at which each work was done.
fn done_at(bandwidth: &mut Bandwidth, jobs: &[(u64, u64)]) -> Vec<Instant> {
    let mut now = ns(0);
    let mut done = Vec::new();
    for &(wake, work) in jobs {
        let _ = bandwidth.at(now, false);
        now = now.max(ns(wake));
        let mut left = Service::from_nanos(work);
        while !left.is_zero() {
            let stretch = bandwidth.at(now, true);
            if stretch.served {
                let ran = left.min((stretch.until - now).as_full_service());
                left -= ran;
                now += ran.at_full_speed();
            } else {
                now = stretch.until;
            }
        }
        done.push(now);
    }
    done
}

#[test]
fn servers_end_work_when_the_simulated_cpu_does() {
    for seed in 0..2_000 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let period = rng.random_range(2..40);
        let budget = rng.random_range(1..=period);
        let reservation: Reservation = format!("{budget}ns/{period}ns").parse().expect("valid");
        let mut wake = 0;
        let jobs: Vec<(u64, u64)> = (0..30)
            .map(|_| {
                wake += rng.random_range(1..60);
                (wake, rng.random_range(1..30))
            })
            .collect();
        for (when, supply) in [
            (When::Early, Supply::Reserved(reservation)),
            (When::Late, Supply::ReservedLate(reservation)),
        ] {
            let mut cpu = Cpu::new(supply, ns(0));
            let expected: Vec<Instant> = jobs
                .iter()
                .map(|&(wake, work)| {
                    // A late thread does not sleep.
                    cpu.sleep_until(ns(wake));
                    cpu.run(Service::from_nanos(work));
                    cpu.now()
                })
                .collect();
            let found = done_at(&mut Bandwidth::new(reservation, when), &jobs);
            assert_eq!(found, expected, "seed {seed} {when:?} {reservation} {jobs:?}");
        }
    }
}

#[test]
fn turns_come_outside_and_take_nothing_from_inside() {
    let reservation: Reservation = "2ns/8ns".parse().expect("valid");
    let turns = Turns { competitors: 2, slice: Duration::from_nanos(5), origin: ns(3) };
    let periods = Periods::new(reservation, ns(0), Place::Early);
    for step in 1..4 {
        let mut soft = WithTurns::new(periods, turns);
        for now in (3..200).step_by(step) {
            let expected = |now: u64| now % 8 < 2 || (now - 3) % 15 >= 10;
            let stretch = soft.at(ns(now), true);
            assert_eq!(stretch.served, expected(now), "{now}");
            for until in now..stretch.until.as_nanos() {
                assert_eq!(stretch.served, expected(until), "{now} says until {}", stretch.until);
            }
        }
    }
}
