//! Compares the cheap bounds on busy periods with the search over all tasks and channels.

use alloc::format;

use punctual_model::channel::{BitRate, Channel, LinearBounded, Link, Packetisation};
use punctual_model::{HostProfile, Service, Task, TaskSpec};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::busy::ROUGH;
use super::*;
use crate::channel::egress::Egress;
use crate::steps::Steps;
use crate::system::sums::Sums;
use crate::system::{Carrier, Request, UpcallOrder};

fn carrier() -> Carrier {
    let wire = Link::with_picos(Duration::from_micros(10), 80_000).expect("fast enough");
    let cut = Packetisation::new(1_440, 1).expect("valid");
    let (packet, cpu) = (Service::from_micros(5), "4ms/10ms".parse().expect("valid"));
    let egress = Egress::new(wire, cut, packet, cpu, Duration::from_micros(100));
    Carrier {
        egress: egress.expect("fast enough"),
        change: Service::ZERO,
        cpu: None,
        link: BitRate::new(100_000_000).ok(),
        headers: 118,
        best_effort_ppm: 0,
        received_packet: packet,
    }
}

fn channel(rng: &mut ChaCha8Rng) -> Channel {
    let (bytes, spacing) = (rng.random_range(1..=3_000), rng.random_range(500..40_000));
    let arrivals = LinearBounded::fixed(bytes, Duration::from_micros(spacing), 1).expect("valid");
    let bound = Duration::from_micros(rng.random_range(300..60_000));
    Channel::new("c", &arrivals.into(), bound).expect("valid")
}

fn task(rng: &mut ChaCha8Rng) -> Task {
    let period = rng.random_range(5_000..60_000);
    let wcet = Service::from_micros(rng.random_range(1..=period / 8));
    Task::new(TaskSpec::periodic("t", Duration::from_micros(period), wcet)).expect("valid")
}

/// Entries of all kinds come, change and leave. Whatever counts still is free no sooner than the
/// search says, and no later than that or a few times the work that can be pending. The sums are
/// those of a new count.
#[test]
fn cheap_bounds_enclose_the_search() {
    let (mut compared, mut cheap, mut of_channels, mut free, mut missed) = (0, 0, 0, 0, 0);
    for seed in 0..120 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let mut system = System::<u64>::new(HostProfile::ideal(2), UpcallOrder::LevelOrder);
        system.carry(carrier(), &mut Steps::default()).expect("alone");
        let mut now = Instant::ZERO;
        for id in 0..60 {
            now = now.saturating_add(Duration::from_micros(rng.random_range(0..4_000)));
            let steps = &mut Steps::default();
            let (one, upcall) = (channel(rng), [task(rng)]);
            let budget = rng.random_range(50..500);
            let period = Duration::from_micros(budget * rng.random_range(10..40));
            let reservation = Reservation::new(Service::from_micros(budget), period);
            let request = match rng.random_range(0..8) {
                0 if seed % 2 == 0 => Request::Deadline(reservation.expect("valid")),
                1 | 2 if seed % 3 == 0 => Request::Executor(&upcall),
                _ => Request::Sending(&one),
            };
            let old = rng.random_range(0..=id);
            match rng.random_range(0..4) {
                0 => _ = system.retire(old, now),
                1 if system.back_end(old).is_some() => {
                    _ = system.change(old, request, Some(now), steps);
                }
                _ => _ = system.admit(id, request, steps),
            }
            if rng.random_ratio(1, 20) {
                system.sender_idle(now);
            }
            _ = system.settle(now);
            let carried = system.carried.as_ref().expect("carried");
            let mut anew = Sums::default();
            let left = system.leaving.iter().filter_map(Leaving::channel);
            for executed in system.entries.values().map(|entry| &entry.executed).chain(left) {
                if let Executed::Sending { channel, .. } = executed {
                    anew.add(&carried.pending_task(channel));
                }
            }
            assert_eq!(carried.sums(), anew, "seed {seed}, {id}");
            let mut known = Known::new();
            for leaving in &system.leaving {
                // A look through all leaves finds only what a search for each finds.
                let next = system.look(leaving, &mut known);
                let those = || format!("seed {seed}, {id}: {leaving:?}");
                let rough = system.roughly_after(leaving);
                let Ok(searched) = system.searched(leaving, &mut Known::new()) else {
                    assert!(rough.is_err() && next > now, "{}", those());
                    continue;
                };
                assert!(rough.is_ok_and(|rough| rough >= searched), "{}", those());
                let least = leaving.since().saturating_add(Duration::from_nanos(searched));
                assert!(next > now || least <= now, "{}", those());
                free += u32::from(next <= now);
                missed += u32::from(next > now && least <= now);
                let pending = system.pending_after(leaving);
                let most = pending.saturating_mul(ROUGH).saturating_add(ROUGH).max(searched);
                let most = leaving.since().saturating_add(Duration::from_nanos(most));
                let free_at = system.free_at(leaving, &mut Known::new());
                assert!(least <= free_at && free_at <= most, "{}", those());
                compared += 1;
                cheap += u32::from(free_at > least);
                of_channels += u32::from(leaving.channel().is_some());
            }
        }
    }
    let counts = format!("{compared} {cheap} {of_channels} {free} {missed}");
    let often = compared > 5_000 && cheap > 1_000 && of_channels > 2_000 && free > 100;
    // A channel may have to wait because its sender's bound is that of an older leave.
    let often = often && 5 * missed < free;
    assert!(often, "{counts}");
}

/// Checks that a request is refused for what has left only as long as the search says so, although
/// the cheap bound counts it for longer.
#[test]
fn one_look_finds_free_what_the_cheap_bound_still_counts() {
    let task = |period, wcet| {
        let (period, wcet) = (Duration::from_millis(period), Service::from_millis(wcet));
        Task::new(TaskSpec::periodic("t", period, wcet)).expect("valid")
    };
    let steps = &mut Steps::default();
    let mut system = System::<u64>::new(HostProfile::ideal(1), UpcallOrder::LevelOrder);
    for id in 0..2 {
        system.admit(id, Request::Executor(&[task(20, 6)]), steps).expect("fits");
    }
    let left = Instant::ZERO + Duration::from_millis(12);
    assert!(system.retire(1, left));
    let leaving = &system.leaving[0];
    let after = |busy| left + Duration::from_nanos(busy);
    let cheap = after(system.roughly_after(leaving).expect("it has an end"));
    let searched = after(system.searched(leaving, &mut Known::new()).expect("it has an end"));
    assert!(searched < cheap, "{searched:?} {cheap:?}");
    let wanted = [task(20, 10)];
    let before = searched - Duration::from_nanos(1);
    assert!(!system.settle(before));
    let refused = system.would_admit(2, Request::Executor(&wanted), steps);
    assert_eq!(refused.expect_err("it counts").test, "response-time");
    // The look a moment before put the next one off.
    system.leaving[0].not_before = left;
    let mut other = system.clone();
    assert!(system.settle(searched), "what became free is reported");
    system.admit(2, Request::Executor(&wanted), steps).expect("it counts no more");
    let larger = [task(20, 16)];
    other.change(0, Request::Executor(&larger), Some(searched), steps).expect("it counts no more");
    assert!(other.settle(searched), "what became free is reported");
}
