//! Policies keep the promises of the analysis of reservations: the timetable's promise by the
//! policy that follows it, the supply bound by the constant bandwidth server.

use punctual_analysis::Steps;
use punctual_analysis::supply::{Limits, Supply, build};
use punctual_model::{Duration, Instant, Reservation, Service};
use punctual_policy::timetable::{Decision, Turns};
use punctual_sim::cbs::{Cbs, Charge};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn ns(budget: u64, period: u64) -> Reservation {
    Reservation::new(Service::from_nanos(budget), Duration::from_nanos(period)).expect("valid")
}

/// Draws a few reservations that take up to a whole CPU.
fn draw(rng: &mut ChaCha8Rng, longest: u64) -> Vec<Reservation> {
    let mut left = 1.0;
    (0..rng.random_range(1..=5))
        .map(|_| {
            let period = rng.random_range(2..=longest);
            let share = left * rng.random_range(0.1..0.6);
            let budget = ((share * period as f64) as u64).clamp(1, period);
            left = (left - budget as f64 / period as f64).max(0.0);
            ns(budget, period)
        })
        .collect()
}

/// Drives a table: wakes whenever the policy named an instant, sometimes in between too, and loses
/// the switch at the start of every slot. Returns the occupant of each tick.
fn drive(
    turns: &Turns,
    origin: u64,
    until: u64,
    switch: u64,
    rng: &mut ChaCha8Rng,
) -> Vec<Option<u32>> {
    let mut served = vec![None; until as usize];
    let (mut now, mut slot) = (0, None);
    while now < until {
        let Decision { owner, until: next } = turns.at(Instant::from_nanos(now));
        let next = next.as_nanos();
        assert!(next > now, "it must move on");
        assert!(now >= origin || owner.is_none());
        // A slot is distinguished from the next by its end.
        let lost = if slot == Some((owner, next)) { 0 } else { switch };
        slot = Some((owner, next));
        let stop = if rng.random_bool(0.1) { rng.random_range(now + 1..=next) } else { next };
        // Interrupted inside the switch, the driver would go on with it: do not count twice.
        let stop = if stop < now + lost { next } else { stop };
        for tick in now + lost..stop.min(until) {
            served[tick as usize] = owner;
        }
        now = stop;
    }
    served
}

#[test]
fn a_driver_of_the_timetable_gives_each_reservation_its_budget_in_every_window() {
    let mut rng = ChaCha8Rng::seed_from_u64(61);
    let mut built_count = 0;
    for _ in 0..1_500 {
        let reservations = draw(&mut rng, 90);
        let switch = rng.random_range(0..2);
        let limits = Limits { context_switch: Service::from_nanos(switch), most_slots: 256 };
        let Ok(built) = build(&reservations, limits, &mut Steps::default()) else { continue };
        built_count += 1;
        let origin = rng.random_range(0..50);
        let cycle = built.table.cycle().as_nanos();
        let turns = Turns::new(built.table, Instant::from_nanos(origin));
        let served = drive(&turns, origin, origin + 3 * cycle + 200, switch, &mut rng);
        for (owner, reservation) in (0..).zip(&reservations) {
            let (x, y) = (reservation.budget().as_nanos(), reservation.period().as_nanos());
            for window in served[origin as usize..].windows(y as usize) {
                let got = window.iter().filter(|tick| **tick == Some(owner)).count() as u64;
                assert!(got >= x, "{reservation} got {got}: {reservations:?}");
            }
            // The time without service is never longer than stated.
            let gap = built.shares[owner as usize].longest_gap.as_nanos() as usize;
            for window in served[origin as usize..].windows(gap + 1) {
                assert!(window.contains(&Some(owner)), "{reservation}: a gap above {gap}");
            }
        }
    }
    assert!(built_count > 700, "{built_count}");
}

/// Hard constant bandwidth servers under EDF whose holders block and wake at random: whenever one
/// stays runnable, it gets at least the supply bound, from any instant on.
#[test]
fn constant_bandwidth_servers_under_edf_keep_the_supply_bound() {
    let mut rng = ChaCha8Rng::seed_from_u64(62);
    let (mut checked, mut tight) = (0u64, 0u64);
    for _ in 0..1_500 {
        let reservations = draw(&mut rng, 12);
        let share: f64 = reservations.iter().map(|one| one.utilisation()).sum();
        if share > 1.0 {
            continue;
        }
        let (awake, ran) = serve(&mut rng, &reservations, 160);
        for (at, reservation) in reservations.iter().enumerate() {
            let supply = Supply::hard_cbs(*reservation);
            for from in 0..160 {
                let mut got = 0;
                for to in from..160 {
                    if !awake[to][at] {
                        break;
                    }
                    got += u64::from(ran[to] == Some(at));
                    let least = supply.least_in(Duration::from_nanos((to + 1 - from) as u64));
                    assert!(got >= least.as_nanos(), "{reservation} got {got} < {least}");
                    checked += 1;
                    tight += u64::from(got > 0 && got == least.as_nanos());
                }
            }
        }
    }
    assert!(checked > 1_000_000 && tight > 10_000, "{checked} {tight}");
}

/// Returns which servers were awake and which ran in each tick.
fn serve(
    rng: &mut ChaCha8Rng,
    reservations: &[Reservation],
    ticks: u64,
) -> (Vec<Vec<bool>>, Vec<Option<usize>>) {
    struct Server {
        cbs: Cbs,
        awake: bool,
        /// The policy does not expose its deadline, so the driver keeps its own account of it.
        deadline: u64,
        throttled: bool,
    }
    let mut servers: Vec<Server> = reservations
        .iter()
        .map(|&one| Server { cbs: Cbs::new(one), awake: false, deadline: 0, throttled: false })
        .collect();
    let (mut all_awake, mut all_ran) = (Vec::new(), Vec::new());
    for now in 0..ticks {
        for (server, reservation) in servers.iter_mut().zip(reservations) {
            if server.throttled && server.deadline == now {
                server.cbs.replenish();
                server.deadline += reservation.period().as_nanos();
                server.throttled = false;
            }
            if !server.awake && rng.random_bool(0.3) {
                server.awake = true;
                let mut fresh = server.cbs;
                fresh.wake(Instant::from_nanos(now));
                // Its deadline, taken from a copy that uses everything up.
                let mut probe = fresh;
                let Charge::Throttled { until } = probe.charge(probe.left()) else {
                    panic!("all of it was used")
                };
                server.cbs = fresh;
                server.deadline = until.as_nanos();
                server.throttled = fresh.left().is_zero();
            }
        }
        let ready = |server: &Server| server.awake && !server.throttled;
        let next = (0..servers.len())
            .filter(|at| ready(&servers[*at]))
            .min_by_key(|at| servers[*at].deadline);
        if let Some(at) = next
            && let Charge::Throttled { until } = servers[at].cbs.charge(Service::from_nanos(1))
        {
            assert_eq!(until.as_nanos(), servers[at].deadline);
            assert!(now < servers[at].deadline, "the budget came by its deadline");
            servers[at].throttled = true;
        }
        all_awake.push(servers.iter().map(|server| server.awake).collect());
        all_ran.push(next);
        for server in &mut servers {
            if server.awake && rng.random_bool(0.05) {
                server.awake = false;
            }
        }
    }
    (all_awake, all_ran)
}
