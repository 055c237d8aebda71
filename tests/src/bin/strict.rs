//! Runs admitted work live and judges it strictly, in a machine whose time is counted in
//! instructions.
//!
//! `strict upcalls PROFILE FIRST SETS SECONDS` runs sets of upcalls for SECONDS each; `strict
//! channels SOCKET FIRST SETS SECONDS` runs sets of channels through the broker that listens on
//! SOCKET. `strict spin BUDGET/PERIOD SECONDS` is a program for a reservation to contain, and
//! reports how exactly it was contained; `strict served BUDGET/PERIOD SECONDS` is one for a server.
//! Exit codes: 1 a promise was broken, 2 bad usage, 3 the machine has another clock.

use std::error::Error;
use std::process::ExitCode;

use punctual_linux::{clock, memory};
use punctual_model::Duration;
use punctual_model::reservation::Reservation;
use system_tests::strict::{self, Kept, bursts, channels, upcalls};

/// The longest interruption within a burst.
const PAUSE: Duration = Duration::from_micros(80);

fn main() -> ExitCode {
    if !strict::is_possible() {
        eprintln!("strict: this machine's time is not counted in instructions");
        return ExitCode::from(3);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let kept = match arguments[..] {
        ["upcalls", profile, first, sets, seconds] => run_upcalls(profile, first, sets, seconds),
        ["channels", socket, first, sets, seconds] => length(seconds).and_then(|length| {
            let hold = |seed| channels::hold(seed, length, socket.as_ref());
            hold_sets(first, sets, "messages", hold)
        }),
        ["spin", reservation, seconds] => spin(reservation, seconds),
        ["served", reservation, seconds] => served(reservation, seconds),
        _ => Err(
            "one of: upcalls PROFILE FIRST SETS SECONDS, channels SOCKET FIRST SETS SECONDS, spin \
             BUDGET/PERIOD SECONDS, served BUDGET/PERIOD SECONDS"
                .into(),
        ),
    };
    match kept {
        Ok(kept) => ExitCode::from(u8::from(!kept)),
        Err(error) => {
            eprintln!("strict: {error}");
            ExitCode::from(2)
        }
    }
}

fn length(seconds: &str) -> Result<Duration, Box<dyn Error>> {
    Ok(Duration::from_secs(seconds.parse()?))
}

fn run_upcalls(
    profile: &str,
    first: &str,
    sets: &str,
    seconds: &str,
) -> Result<bool, Box<dyn Error>> {
    let length = length(seconds)?;
    // A program with upcalls has to lock its memory (docs/CAVEATS.md).
    let _locked = memory::lock_all()?;
    let host = strict::profile(profile.as_ref())?;
    let interrupts = strict::Interrupts::measure()?;
    println!("a switch costs {}; {interrupts}", host.context_switch);
    hold_sets(first, sets, "jobs", |seed| upcalls::hold(seed, length, host, interrupts))
}

/// Runs sets with seeds from `first` on, prints a line for each, and returns whether all kept their
/// promises.
fn hold_sets(
    first: &str,
    sets: &str,
    what: &str,
    hold: impl Fn(u64) -> Result<Option<Kept>, String>,
) -> Result<bool, Box<dyn Error>> {
    let (first, sets): (u64, u64) = (first.parse()?, sets.parse()?);
    let (mut kept, mut jobs, mut worst, mut broken) = (0, 0, 0, 0);
    for seed in first..first + sets {
        match hold(seed) {
            Ok(None) => println!("set {seed}: refused"),
            Ok(Some(one)) => {
                kept += 1;
                jobs += one.jobs;
                worst = worst.max(one.worst_permille);
                let Kept { jobs, worst_permille } = one;
                println!("set {seed}: {jobs} {what}, worst {worst_permille} of 1000 of its bound");
            }
            Err(why) => {
                broken += 1;
                println!("BROKEN: {why}");
            }
        }
    }
    println!(
        "{sets} sets, {kept} kept, {broken} broken, {jobs} {what}, worst {worst} of 1000 of its bound"
    );
    Ok(broken == 0)
}

fn spin(reservation: &str, seconds: &str) -> Result<bool, Box<dyn Error>> {
    let reservation: Reservation = reservation.parse()?;
    let until = clock::now() + length(seconds)?;
    let bursts = bursts::spin(until, PAUSE, || true);
    let Some(seen) = bursts::Enforcement::of(&bursts, reservation) else {
        println!("{reservation}: it was never held: {} bursts", bursts.len());
        return Ok(false);
    };
    let budget = Duration::from_nanos(reservation.budget().as_nanos());
    let (error, most) = (seen.error(budget), Duration::from_micros(100).min(budget / 10));
    println!("{reservation}: {seen}; error {error}, at most {most}");
    Ok(error <= most)
}

fn served(reservation: &str, seconds: &str) -> Result<bool, Box<dyn Error>> {
    let reservation: Reservation = reservation.parse()?;
    let given = bursts::raised(clock::now() + length(seconds)?);
    let (Some(least), Some(most)) = (given.iter().min(), given.iter().max()) else {
        println!("{reservation}: it was never served");
        return Ok(false);
    };
    let budget = reservation.budget().at_full_speed();
    let late = Duration::from_micros(100);
    let periods = given.len();
    println!("{reservation}: {periods} budgets of {least} to {most}, at most {late} from {budget}");
    Ok(*most <= budget + late && *least + late >= budget)
}
