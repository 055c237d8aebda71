//! Live: measures how exactly a reservation is enforced by the kernel and by Punctual's timetable.
//!
//! A hog that never yields runs under X every Y and records when it ran: it reads the clock without
//! pause, and a jump of more than a tenth of X is a time in which it did not run. The back ends run
//! in turn, in the same run, on the same CPU:
//!
//! - the kernel's SCHED_DEADLINE;
//! - a hard reservation by timetable (frozen outside its slots);
//! - the cooperating form: a thread under a soft reservation by timetable that ends its pass itself
//!   when its budget is used up, and waits for the next period.
//!
//! The output for each is the length of its runs, the error of its time in each period against the
//! budget, in either direction, and its share of the CPU. Time that a hypervisor took looks like a
//! gap: a run is then cut in two, and the error of the period is the hypervisor's, so steal is
//! printed too.

use std::process::Command;

use punctual_linux::sched::{self, Class, Restore};
use punctual_linux::{clock, host, process, thread};
use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, Instant, Reservation, Service};
use punctual_runtime::reservation::{Reservations, Reserved, Settings};
use system_tests::strict::bursts::{Bursts, spin};

const HOG: &str = "PUNCTUAL_BENCH_HOG";

/// How long each is observed.
const LENGTH: Duration = Duration::from_secs(4);

fn main() {
    if let Some(argument) = std::env::var_os(HOG) {
        return hog_process(&argument.to_string_lossy());
    }
    // With more, a hard 100us/1ms is refused.
    let settings = Settings { context_switch: Service::from_micros(10), ..Settings::default() };
    let reservations = match Reservations::with(settings) {
        Ok(reservations) => reservations,
        Err(refused) => return println!("enforcement: skipped: {refused}"),
    };
    let facts = reservations.facts();
    for why in [&facts.fifo, &facts.freezer, &facts.deadline] {
        if let Err(why) = why {
            return println!("enforcement: skipped: {why}");
        }
    }
    for text in ["2ms/10ms", "100us/1ms"] {
        let reservation: Reservation = text.parse().expect("valid");
        let stolen = host::stolen();
        for (name, stretches) in [
            ("kernel, a hog", by_kernel(reservation)),
            ("timetable, hard, a hog", by_timetable(&reservations, reservation)),
            ("timetable, soft, cooperating", cooperating(&reservations, reservation)),
        ] {
            print(&format!("{text} {name}"), reservation, &stretches);
        }
        if let (Some(before), Some(after)) = (stolen, host::stolen()) {
            println!(
                "{text} stolen by the host meanwhile, all CPUs: {}",
                after.saturating_sub(before)
            );
        }
    }
}

fn observe(reservation: Reservation, goes_on: impl FnMut() -> bool) -> Bursts {
    let gap = Duration::from_nanos(reservation.budget().as_nanos() / 10);
    spin(clock::now() + LENGTH, gap, goes_on)
}

fn by_kernel(reservation: Reservation) -> Bursts {
    let body = move || {
        let _restore = Restore::current().expect("our own");
        let class = Class::Deadline { reservation, reset_on_fork: true };
        sched::set(thread::current(), class).expect("probed");
        observe(reservation, || true)
    };
    std::thread::spawn(body).join().expect("no panic")
}

/// Measures in a process of its own: the recorder must not hold locks of this one while it is
/// frozen.
fn by_timetable(reservations: &Reservations, reservation: Reservation) -> Bursts {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.env(HOG, reservation.to_string()).stdout(std::process::Stdio::piped());
    process::die_with_parent(&mut command);
    let spawned = reservations.spawn(&mut command, reservation, Enforcement::Hard);
    let (child, held) = spawned.expect("probed, and nothing else is reserved");
    // Its output comes after the measurement, bit by bit, in its slots: let it write outside them.
    clock::sleep(LENGTH + Duration::from_millis(600));
    assert_eq!(held.failures(), 0);
    drop(held);
    let output = child.wait_with_output().expect("our child");
    let text = String::from_utf8(output.stdout).expect("numbers");
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let at = |n: u64| Instant::from_nanos(n);
    numbers.chunks_exact(2).map(|pair| (at(pair[0]), at(pair[1]))).collect()
}

fn hog_process(reservation: &str) {
    let reservation = reservation.parse().expect("from ourselves");
    for (from, to) in observe(reservation, || true) {
        println!("{} {}", from.as_nanos(), to.as_nanos());
    }
}

fn cooperating(reservations: &Reservations, reservation: Reservation) -> Bursts {
    let reservations = reservations.clone();
    let body = move || {
        let reserved = Reserved::current(&reservations, reservation, Enforcement::Soft, true);
        let mut reserved = reserved.expect("probed, and nothing else is reserved");
        reserved.wait_for_next_period();
        observe(reservation, || {
            let goes_on = !reserved.left().is_zero();
            if !goes_on {
                reserved.wait_for_next_period();
            }
            goes_on
        })
    };
    std::thread::spawn(body).join().expect("no panic")
}

fn print(name: &str, reservation: Reservation, stretches: &Bursts) {
    // The first is the start-up.
    let Some((&(start, _), rest)) = stretches.get(1..).and_then(|all| all.split_first()) else {
        return println!("{name}: it hardly ran");
    };
    let period = reservation.period();
    let end = rest.last().map_or(start, |(_, to)| *to);
    let periods = end.saturating_since(start) / period;
    let mut got = vec![Duration::ZERO; periods as usize];
    let mut lengths = Vec::new();
    for &(from, to) in &stretches[1..] {
        lengths.push(to.saturating_since(from).as_nanos());
        // Cut at the ends of periods.
        let mut from = from;
        while from < to {
            let n = from.saturating_since(start) / period;
            let upto = to.min(start + period * (n + 1));
            if let Some(got) = got.get_mut(n as usize) {
                *got += upto.saturating_since(from);
            }
            from = upto;
        }
    }
    let budget = reservation.budget().as_nanos();
    let mut errors: Vec<u64> = got.iter().map(|got| got.as_nanos().abs_diff(budget)).collect();
    let all: u64 = got.iter().map(|got| got.as_nanos()).sum();
    let share = 100.0 * all as f64 / (period * periods.max(1)).as_nanos() as f64;
    lengths.sort_unstable();
    errors.sort_unstable();
    println!(
        "{name}: stretch µs p50 {} p99 {} max {}; error a period µs p50 {} p90 {} p99 {} max {}; \
         share {share:.2} % ({periods} periods)",
        at(&lengths, 50),
        at(&lengths, 99),
        at(&lengths, 100),
        at(&errors, 50),
        at(&errors, 90),
        at(&errors, 99),
        at(&errors, 100),
    );
}

/// Returns a percentile of sorted nanoseconds, in microseconds.
fn at(sorted: &[u64], percent: usize) -> u64 {
    let last = sorted.len().saturating_sub(1);
    sorted
        .get(last * percent / 100)
        .map_or(0, |n| Service::from_nanos(*n) / Service::from_micros(1))
}
