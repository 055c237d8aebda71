//! Measures the cost of the policy of real-time upcalls to its driver.

use std::hint::black_box;

use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_linux::clock;
use punctual_model::{Duration, Instant, Service, Upcall, UpcallSpec};
use punctual_policy::rmdp::{Next, Rmdp, YieldPoint};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CALLS: u64 = 100_000;
const JOBS: u64 = 100_000;

fn main() {
    for n in [1_000, 10_000] {
        let growth = f64::from(n).log10();
        compare(
            &format!(
                "a job's next and complete, {n} upcalls (A) / 10 (B), lg n is {growth:.0}-fold"
            ),
            21,
            turn_around(n),
            turn_around(10),
        );
    }
    compare(
        "yield point that goes on, with its clock read (A) / clock read alone (B)",
        41,
        yield_point(),
        || nanos_per_op(CALLS, || (0..CALLS).for_each(|_| _ = black_box(clock::now()))),
    );
}

/// Measures a long batch, quanta of one PDU, and 99 more urgent upcalls that are released in an
/// hour.
fn yield_point() -> impl FnMut() -> f64 {
    let hour = Duration::from_secs(3600);
    let mut upcalls = vec![upcall(hour, u32::MAX)];
    upcalls.resize(100, upcall(hour / 2, 1));
    let mut phases = vec![hour; 100];
    phases[0] = Duration::ZERO;
    let mut rmdp = Rmdp::with_phases(&upcalls, &phases, clock::now());
    let Next::Run(mut turn) = rmdp.next(clock::now()) else { panic!("released at the start") };
    assert_eq!(turn.pdus, 1);
    move || {
        nanos_per_op(CALLS, || {
            for _ in 0..CALLS {
                let YieldPoint::Continue = turn.iterated(clock::now(), black_box(1)) else {
                    panic!("nobody more urgent comes");
                };
            }
        })
    }
}

/// Measures virtual time in which a job is released every 10 µs on average, whatever `n` is, and
/// runs for one: nearly always the policy is idle in between, as between two wake-ups.
fn turn_around(n: u32) -> impl FnMut() -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(u64::from(n));
    let mean = 10_000 * u64::from(n);
    let upcalls: Vec<Upcall> = (0..n)
        .map(|_| upcall(Duration::from_nanos(rng.random_range(mean * 4 / 5..mean * 6 / 5)), 1))
        .collect();
    let phases: Vec<Duration> =
        (0..n).map(|_| Duration::from_nanos(rng.random_range(0..mean))).collect();
    let mut rmdp = Rmdp::with_phases(&upcalls, &phases, Instant::ZERO);
    let mut now = Instant::ZERO;
    move || {
        nanos_per_op(JOBS, || {
            let mut jobs = 0;
            while jobs < JOBS {
                match rmdp.next(now) {
                    Next::Run(mut turn) => {
                        now += Duration::from_micros(1);
                        let end = turn.iterated(now, black_box(turn.pdus));
                        assert_eq!(end, YieldPoint::Complete);
                        black_box(rmdp.complete(&turn, now));
                        jobs += 1;
                    }
                    Next::Missed(missed) => _ = black_box(missed),
                    Next::Idle { until, .. } => now = until,
                }
            }
        })
    }
}

fn upcall(period: Duration, batch: u32) -> Upcall {
    let time_per_pdu = Service::from_nanos(1);
    let name = String::from("upcall");
    Upcall::new(UpcallSpec { name, period, batch, quantum: 1, time_per_pdu }).expect("valid")
}
