//! Runs a long soak: random systems are admitted and then simulated. `SOAK_FROM` is the first seed
//! (0), `SOAK_SYSTEMS` the number of systems (a million). Seeds that an earlier run covered need
//! not be run again.
//!
//! Prints each broken promise with its seed and continues. Exits with code 1 if there was any.
#![allow(clippy::disallowed_methods, reason = "how long it took, for people to read")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use system_tests::soak::Tally;

fn line(tally: &Tally, from: u64, began: Instant) -> String {
    let admitted: u64 = tally.admitted.values().sum();
    format!(
        "{} seeds from {from}, {admitted} admitted, {} broken, {} jobs, {} s",
        tally.seeds,
        tally.broken,
        tally.jobs,
        began.elapsed().as_secs()
    )
}

/// The number of seeds taken at a time, so that `SOAK_FROM` of the next run can be read off the
/// last line.
const SHARE: u64 = 64;

fn main() -> ExitCode {
    let number = |name: &str, default: u64| match std::env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name} is not a number: {text:?}")),
        Err(_) => Ok(default),
    };
    let (from, systems) = match (number("SOAK_FROM", 0), number("SOAK_SYSTEMS", 1_000_000)) {
        (Ok(from), Ok(systems)) => (from, systems),
        (Err(why), _) | (_, Err(why)) => {
            eprintln!("{why}");
            return ExitCode::from(2);
        }
    };
    let (began, next, tally) = (Instant::now(), AtomicU64::new(0), Mutex::new(Tally::default()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let first = next.fetch_add(SHARE, Ordering::Relaxed);
                    if first >= systems {
                        break;
                    }
                    for seed in first..(first + SHARE).min(systems) {
                        let one = Tally::of(from + seed).unwrap_or_else(|why| {
                            eprintln!("\n{why}");
                            Tally { seeds: 1, broken: 1, ..Tally::default() }
                        });
                        tally.lock().expect("no thread panics").merge(&one);
                    }
                }
            });
        }
        scope.spawn(|| {
            while next.load(Ordering::Relaxed) < systems {
                std::thread::sleep(Duration::from_secs(1));
                eprint!("\r{}", line(&tally.lock().expect("no thread panics"), from, began));
            }
        });
    });
    let tally = tally.into_inner().expect("no thread panics");
    eprintln!();
    println!("{}", line(&tally, from, began));
    for (family, admitted) in &tally.admitted {
        println!("  {family}: {admitted} admitted");
    }
    println!("  {} of {} bounds of tasks reached", tally.bounds.1, tally.bounds.0);
    println!("go on with: SOAK_FROM={} make soak", from + systems);
    ExitCode::from(u8::from(tally.broken > 0))
}
