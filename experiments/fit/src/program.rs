//! Programs whose periods and demands are known, because they are written here.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use punctual_linux::{clock, thread};
use punctual_model::{Duration, Instant, Service};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// The programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Which {
    /// 2 ms each 10 ms, on an absolute timeline.
    Absolute,
    /// 0.2 ms each 1 ms.
    Fast,
    /// 3 ms, then sleeps for 20 ms.
    Relative,
    /// 1 ms each 10 ms and 2 ms each 25 ms, in one thread.
    Two,
    /// Five wake-ups of 0.3 ms, 1 ms apart, each 40 ms.
    Bursts,
    /// 1 ms each time another thread wakes it: each 8 ms, up to 1 ms late.
    Woken,
    /// 1 ms each 10 ms; one time in five it is left out.
    Missing,
    /// 0.5 ms, at exponentially distributed distances around 10 ms.
    Random,
    /// Works and never waits.
    Spinner,
}

/// Runs until it is killed.
pub(crate) fn run(which: Which) {
    thread::set_timer_slack(Duration::from_nanos(1));
    let begun = clock::now();
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    match which {
        Which::Absolute => steadily(begun, ms(10), us(2000)),
        Which::Fast => steadily(begun, ms(1), us(200)),
        Which::Relative => loop {
            clock::sleep(ms(20));
            work(us(3000));
        },
        Which::Two => {
            let dues = |period, count: u64| (1..count).map(move |n| period * n);
            // An hour of both, merged; where they coincide there is one wake-up.
            let mut all: BTreeSet<(Duration, u64)> =
                dues(ms(10), 360_000).map(|due| (due, 1000)).collect();
            all.extend(dues(ms(25), 144_000).map(|due| (due + us(3300), 2000)));
            all.into_iter().for_each(|(due, needs)| at(begun + due, us(needs)));
        }
        Which::Bursts => {
            for n in 1.. {
                (0..5).for_each(|k| at(begun + ms(40) * n + ms(1) * k, us(300)));
            }
        }
        Which::Woken => woken(begun, rng),
        Which::Missing => {
            for n in 1.. {
                if rng.random_range(0..5) != 0 {
                    at(begun + ms(10) * n, us(1000));
                }
            }
        }
        Which::Random => {
            let mut due = begun;
            loop {
                let part: f64 = rng.random_range(1e-9..1.0);
                due += Duration::from_nanos((-part.ln() * 1e7) as u64);
                at(due, us(500));
            }
        }
        Which::Spinner => loop {
            work(us(1_000_000));
        },
    }
}

fn woken(begun: Instant, mut rng: ChaCha8Rng) {
    let Ok((mut tells, mut told)) = UnixStream::pair() else { return };
    std::thread::spawn(move || {
        thread::set_timer_slack(Duration::from_nanos(1));
        for n in 1.. {
            clock::sleep_until(begun + ms(8) * n + us(rng.random_range(0..1000)));
            if tells.write_all(&[0]).is_err() {
                return;
            }
        }
    });
    let mut byte = [0];
    while told.read_exact(&mut byte).is_ok() {
        work(us(1000));
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn steadily(begun: Instant, period: Duration, needs: Duration) {
    for n in 1.. {
        at(begun + period * n, needs);
    }
}

fn at(due: Instant, needs: Duration) {
    clock::sleep_until(due);
    work(needs);
}

/// Uses this much processor time, whatever else runs.
fn work(needs: Duration) {
    let until = clock::thread_cpu_time() + Service::from_nanos(needs.as_nanos());
    while clock::thread_cpu_time() < until {
        std::hint::spin_loop();
    }
}
