//! Measures decisions of admission beside 1,000 grants, without a socket, a ledger or the kernel: so
//! it needs no root.
//!
//! Upcalls beneath a reservation, channels without a reservation and beneath one, and seats in the
//! timetables of 32 CPUs are admitted, changed, and refused. An argument selects the lines whose
//! name contains it.

use std::env;

use punctual_analysis::{Joining, Request, Steps, System, UpcallOrder};
use punctual_broker::admission::{AdmissionState, Requester};
use punctual_broker::config::{ChannelsConfig, Quota, QuotaOf};
use punctual_client::grant::GrantId;
use punctual_client::want::{Guarantee, Kind, WantedChannel};
use punctual_linux::clock;
use punctual_model::channel::{BitRate, LinearBounded};
use punctual_model::{Duration, HostProfile, Instant, Reservation, Service, Upcall, UpcallSpec};

const GRANTS: u64 = 1_000;
const REQUESTS: u64 = 1_000;
/// A refusal is looked at a dozen times for each offer.
const REFUSALS: u64 = 100;

fn main() {
    println!("{GRANTS} grants live, in processor time:");
    upcalls();
    in_close_succession();
    channels(None);
    channels(Some("500us/100ms"));
    closes();
    seats();
}

/// Returns whether an argument selects `what`, or none selects anything.
fn is_asked(what: &str) -> bool {
    let mut asked = env::args().skip(1).filter(|one| !one.starts_with("--")).peekable();
    asked.peek().is_none() || asked.any(|one| what.contains(&one))
}

/// Measures `operation` `times` times. It is given the number of the time and the time of its
/// request, which is so long after the one before that nothing of that is counted any more.
fn each(what: &str, times: u64, mut operation: impl FnMut(u64, Instant) -> u64) {
    if !is_asked(what) {
        return;
    }
    let all = (0..times).map(|at| operation(at, Instant::ZERO + Duration::from_secs(100 * at + 1)));
    show(what, all.collect());
}

fn show(what: &str, mut all: Vec<u64>) {
    all.sort_unstable();
    let at = |part: usize| all[(all.len() * part / 100).min(all.len() - 1)] as f64 / 1_000.0;
    println!("  {what}: p50 {:.1} µs, p99 {:.1} µs, of {}", at(50), at(99), all.len());
}

/// Returns the processor time on this thread, in nanoseconds: a decision delays only its client.
fn processor_time_of(what: impl FnOnce()) -> u64 {
    let start = clock::thread_cpu_time();
    what();
    clock::thread_cpu_time().as_nanos() - start.as_nanos()
}

fn asker() -> Requester {
    let quota = Quota {
        share_ppm: 2_000_000,
        max_grants: 10_000,
        allow: [Kind::Upcalls, Kind::Reservation, Kind::Channels].into(),
        link_ppm: 1_000_000,
        queue_memory: u64::MAX,
        ..Quota::default()
    };
    Requester { uid: 1, quota: QuotaOf { quota, group: None } }
}

fn reservation(text: &str) -> Guarantee {
    Guarantee::Reservation(text.parse().expect("valid"))
}

fn one_upcall(period: Duration, time_per_pdu: Service) -> Upcall {
    let spec = UpcallSpec { name: "u".into(), period, batch: 1, quantum: 1, time_per_pdu };
    Upcall::new(spec).expect("valid")
}

/// Periods of 20 to 120 ms, with 0.2 parts per thousand of a CPU each, leave room for the requests.
fn upcall(at: u64) -> Guarantee {
    let period = Duration::from_micros(20_000 + (at * 7_919) % 100_000);
    Guarantee::Upcalls(vec![one_upcall(period, Service::from_nanos(period.as_nanos() / 5_000))])
}

fn upcalls() {
    let host = HostProfile { context_switch: Service::from_micros(1), ..HostProfile::ideal(2) };
    let mut admission = AdmissionState::new(host, UpcallOrder::FixedLevel);
    let (asker, one) = (asker(), GrantId(GRANTS + 1));
    admission
        .admit(GrantId(GRANTS), &asker, &reservation("500us/10ms"), Instant::ZERO)
        .expect("alone");
    for at in 0..GRANTS {
        admission.admit(GrantId(at), &asker, &upcall(at), Instant::ZERO).expect("room");
    }
    each("upcalls", REQUESTS, |at, now| {
        let what = upcall(at * 13);
        let took =
            processor_time_of(|| _ = admission.admit(one, &asker, &what, now).expect("room"));
        admission.release(one, now);
        took
    });
    each("a change of upcalls", REQUESTS, |at, now| {
        let what = upcall(at * 17);
        processor_time_of(|| _ = admission.change(GrantId(7), &asker, &what, now).expect("room"))
    });
    each("a reservation", REQUESTS, |_, now| {
        let what = reservation("300us/10ms");
        let took =
            processor_time_of(|| _ = admission.admit(one, &asker, &what, now).expect("room"));
        admission.release(one, now);
        took
    });
    each("a change of a reservation", REQUESTS, |at, now| {
        let what = reservation(["400us/10ms", "600us/10ms"][at as usize % 2]);
        let above = GrantId(GRANTS);
        processor_time_of(|| _ = admission.change(above, &asker, &what, now).expect("room"))
    });
    // The first cannot wait for a PDU of the other.
    let long = Guarantee::Upcalls(vec![
        one_upcall(Duration::from_millis(20), Service::from_millis(10)),
        one_upcall(Duration::from_millis(120), Service::from_millis(19)),
    ]);
    let large = reservation("8ms/10ms");
    for (what, id, asked) in [("upcalls", 7, &long), ("a reservation", GRANTS, &large)] {
        each(&format!("a refused change of {what}"), REFUSALS, |_, now| {
            processor_time_of(|| {
                _ = admission.change(GrantId(id), &asker, asked, now).expect_err("too much")
            })
        });
        each(&format!("the offers for it, {what}"), REFUSALS, |_, now| {
            processor_time_of(|| {
                assert!(!admission.offers(GrantId(id), &asker, asked, now).is_empty())
            })
        });
    }
}

/// Measures requests in virtual time as the bench `broker` makes them: one soon after the other, while
/// what was released before still counts.
fn in_close_succession() {
    if !is_asked("in close succession") {
        return;
    }
    const APART: Duration = Duration::from_micros(500);
    const LATER: Duration = Duration::from_millis(20);
    let host = HostProfile { context_switch: Service::from_micros(1), ..HostProfile::ideal(2) };
    let mut admission = AdmissionState::new(host, UpcallOrder::FixedLevel);
    let (asker, one) = (asker(), GrantId(GRANTS));
    let mut now = Instant::ZERO + Duration::from_secs(1);
    for at in 0..GRANTS {
        admission.admit(GrantId(at), &asker, &upcall(at), now).expect("room");
    }
    let (mut upcalls, mut reservations, mut releases) = (Vec::new(), Vec::new(), Vec::new());
    let release = |admission: &mut AdmissionState, releases: &mut Vec<u64>, now| {
        releases.push(processor_time_of(|| {
            admission.release(one, now);
            admission.settle(now);
        }));
    };
    for at in 0..REQUESTS {
        let what = one_upcall(
            Duration::from_micros(20_000 + at * 104_729 % 100_000),
            Service::from_micros(10),
        );
        let what = Guarantee::Upcalls(vec![what]);
        upcalls.push(processor_time_of(|| {
            _ = admission.admit(one, &asker, &what, now).expect("room")
        }));
        now += APART;
        release(&mut admission, &mut releases, now);
        now += APART;
        if at % 10 == 0 {
            let what = reservation("1ms/10ms");
            loop {
                let mut taken = false;
                let took =
                    processor_time_of(|| taken = admission.admit(one, &asker, &what, now).is_ok());
                if taken {
                    reservations.push(took);
                    break;
                }
                now += LATER;
            }
            now += APART;
            release(&mut admission, &mut releases, now);
            now += LATER;
        }
    }
    show("upcalls in close succession", upcalls);
    show("a reservation in close succession", reservations);
    show("a release in close succession, and settling", releases);
}

fn call(spacing_us: u64, bound_us: u64) -> WantedChannel {
    let arrivals = LinearBounded::fixed(160, Duration::from_micros(spacing_us), 1).expect("valid");
    let bound = Some(Duration::from_micros(bound_us));
    WantedChannel::sending("c", arrivals, bound, "192.0.2.7:9".parse().expect("an address"))
}

/// Returns a state with as many calls, which send 160 bytes every 20 ms.
fn calls() -> AdmissionState {
    let config = ChannelsConfig {
        cpu: "8ms/10ms".parse().expect("valid"),
        per_packet: Service::from_micros(2),
        room: 10_000,
        ..ChannelsConfig::of(BitRate::new(10_000_000_000).expect("valid"))
    };
    let mut admission = AdmissionState::new(HostProfile::ideal(2), UpcallOrder::FixedLevel);
    admission.carry_channels(config).expect("room");
    for at in 0..GRANTS {
        admission.admit_channel(GrantId(at), &asker(), &call(20_000, 20_000)).expect("room");
    }
    admission
}

fn channels(above: Option<&str>) {
    let (mut admission, asker, one) = (calls(), asker(), GrantId(GRANTS + 1));
    let beneath = above.map_or("", |_| " beneath a reservation");
    if let Some(above) = above {
        admission.admit(GrantId(GRANTS), &asker, &reservation(above), Instant::ZERO).expect("room");
    }
    each(&format!("a channel{beneath}"), REQUESTS, |at, now| {
        let _ = admission.settle(now);
        let what = call(20_000 + at, 20_000);
        let took = processor_time_of(|| admission.admit_channel(one, &asker, &what).expect("room"));
        admission.release_channel(one, now);
        took
    });
    each(&format!("a change of a channel{beneath}"), REQUESTS, |at, now| {
        let what = call(20_000 + at, 20_000);
        processor_time_of(|| {
            _ = admission.change_channel(GrantId(7), &asker, &what, now).expect("room")
        })
    });
    let tight = call(20_000, 90);
    each(&format!("a refused change of a channel{beneath}"), REFUSALS, |_, now| {
        processor_time_of(|| {
            _ = admission.change_channel(GrantId(7), &asker, &tight, now).expect_err("too tight")
        })
    });
    each(&format!("the offers for it, a channel{beneath}"), REFUSALS, |_, now| {
        processor_time_of(|| {
            assert!(!admission.channel_offers(GrantId(7), &asker, &tight, now).is_empty());
        })
    });
}

/// The broker settles before each message and at each of its turns.
fn closes() {
    for count in [125, 250, 500] {
        let what =
            format!("closing {count} of the channels, and settling each time and once after it");
        each(&what, 11, |_, now| {
            let mut admission = calls();
            processor_time_of(|| {
                for at in 0..count {
                    admission.release_channel(GrantId(at), now);
                    let _ = admission.settle(now);
                }
                assert!(admission.settle(now + Duration::from_secs(99)));
            })
        });
        let what = format!("closing {count} of the channels, and settling once");
        each(&what, 11, |_, now| {
            let mut admission = calls();
            processor_time_of(|| {
                (0..count).for_each(|at| admission.release_channel(GrantId(at), now));
                assert!(admission.settle(now + Duration::from_secs(99)));
            })
        });
    }
}

fn seats() {
    const CPUS: u64 = 32;
    let slot_allowance = HostProfile::ASSUMED_SLOT_ALLOWANCE;
    let host = HostProfile { slot_allowance, ..HostProfile::ideal(CPUS as u16) };
    let mut system = System::<u64>::new(host, UpcallOrder::FixedLevel);
    let seat = |at: u64, budget_us: u64, earliest| {
        let budget = Service::from_micros(budget_us);
        let reservation = Reservation::new(budget, Duration::from_millis(40)).expect("valid");
        Request::Joining(Joining { reservation, cpu: (at % CPUS) as u16, earliest, standing: &[] })
    };
    for at in 0..GRANTS {
        system.admit(at, seat(at, 200, Instant::ZERO), &mut Steps::default()).expect("room");
    }
    each("a change of a seat", REQUESTS, |at, now| {
        let request = seat(7, [300, 200][at as usize % 2], now);
        let steps = &mut Steps::default();
        processor_time_of(|| _ = system.change(7, request, Some(now), steps).expect("room"))
    });
    each("a refused change of a seat", REFUSALS, |_, now| {
        let (request, steps) = (seat(7, 39_000, now), &mut Steps::default());
        processor_time_of(|| _ = system.change(7, request, Some(now), steps).expect_err("too much"))
    });
    each("a seat only asked for", REFUSALS, |_, now| {
        let (request, steps) = (seat(7, 200, now), &mut Steps::default());
        processor_time_of(|| _ = system.would_admit(GRANTS, request, steps).expect("room"))
    });
}
