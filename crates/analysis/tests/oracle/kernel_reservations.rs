//! The kernel's reservations on several CPUs, against a schedule tick by tick.
//!
//! Every holder always wants the CPU. On m CPUs the m holders with the earliest deadlines run; a
//! holder that has used the budget of a period waits for the next one.

use punctual_analysis::sched_deadline::Shares;
use punctual_analysis::{BackEnd, Request, Steps, System, UpcallOrder};
use punctual_model::{Duration, HostProfile, Reservation, Service};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Budget and period in ticks.
type Server = (u64, u64);

fn reservation((budget, period): Server) -> Reservation {
    Reservation::new(Service::from_micros(budget), Duration::from_micros(period)).expect("valid")
}

fn in_time(cpus: u64, servers: &[Server]) -> bool {
    let all = servers.iter().copied().map(reservation);
    all.fold(Shares::default(), Shares::with).are_served_in_time(cpus, 1_000_000)
}

/// Returns whether some server does not get its budget in some period; each begins at its phase.
fn a_budget_is_late(cpus: usize, servers: &[Server], phases: &[u64]) -> bool {
    let mut left = vec![0; servers.len()];
    for now in 0..2_000 {
        for (at, &(budget, period)) in servers.iter().enumerate() {
            if now >= phases[at] && (now - phases[at]).is_multiple_of(period) {
                if left[at] > 0 {
                    return true;
                }
                left[at] = budget;
            }
        }
        let deadline = |at: usize| {
            let (_, period) = servers[at];
            phases[at] + ((now - phases[at]) / period + 1) * period
        };
        let mut wanting: Vec<usize> = (0..servers.len()).filter(|&at| left[at] > 0).collect();
        wanting.sort_by_key(|&at| (deadline(at), at));
        wanting.iter().take(cpus).for_each(|&at| left[at] -= 1);
    }
    false
}

#[test]
fn three_of_six_in_ten_are_not_served_in_time_on_two_cpus() {
    let three = [(6, 10); 3];
    assert!(a_budget_is_late(2, &three, &[0; 3]));
    assert!(!in_time(2, &three));
    assert!(in_time(2, &[(6, 10); 2]));

    let host = HostProfile { reservable_ppm: 950_000, ..HostProfile::ideal(2) };
    let mut system = System::new(host, UpcallOrder::LevelOrder);
    let steps = &mut Steps::default();
    let mut ask = |id| system.admit(id, Request::Deadline(reservation((6_000, 10_000))), steps);
    assert_eq!((ask(0), ask(1)), (Ok(BackEnd::Deadline), Ok(BackEnd::Deadline)));
    // 180 of 190 hundredths, but one would be served up to 12 ms after its period began.
    let refusal = ask(2).expect_err("a third one");
    assert_eq!(refusal.test, "reservable-bandwidth");
    assert!(refusal.why.contains("surely served in time"), "{refusal}");
}

#[test]
fn sets_that_pass_the_test_are_in_time_tick_by_tick() {
    let rng = &mut ChaCha8Rng::seed_from_u64(28);
    let (mut passed, mut seen_late) = (0, 0);
    for _ in 0..4_000 {
        let (cpus, count) = (rng.random_range(1..5), rng.random_range(1..8));
        let servers: Vec<Server> = (0..count)
            .map(|_| {
                let period = rng.random_range(2..=20u64);
                let most = if rng.random_ratio(1, 4) { period } else { period.div_ceil(2) };
                (rng.random_range(1..=most), period)
            })
            .collect();
        let passes = in_time(cpus, &servers);
        let mut late = a_budget_is_late(cpus as usize, &servers, &vec![0; servers.len()]);
        for _ in 0..3 {
            let phases: Vec<u64> =
                servers.iter().map(|server| rng.random_range(0..server.1)).collect();
            late |= a_budget_is_late(cpus as usize, &servers, &phases);
        }
        assert!(!passes || !late, "{servers:?} on {cpus} CPUs");
        passed += u32::from(passes);
        seen_late += u32::from(late);
    }
    assert!(passed > 1_000 && seen_late > 300, "{passed} passed, {seen_late} seen late");
}
