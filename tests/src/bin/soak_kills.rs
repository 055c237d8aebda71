//! Kills each kind of process many times, at moments that a seed draws, and reports what is left.
//! `KILLS` is the number of kills (1000), `KILLS_SEED` the seed (1).
//!
//! Needs root privileges. Exits with code 1 if anything was left behind.

use std::process::ExitCode;

use system_tests::hostile::kills::{self, Outcome, Victim};
use system_tests::hostile::{self, number_from_environment};

fn main() -> ExitCode {
    if hostile::play() {
        return ExitCode::SUCCESS;
    }
    if !hostile::possible() {
        return ExitCode::from(3);
    }
    let times = number_from_environment("KILLS", 1_000);
    let seed = number_from_environment("KILLS_SEED", 1);
    let mut kept = true;
    for victim in Victim::ALL {
        match kills::kill(victim, times, seed, |killed| eprint!("\r{victim}: {killed} of {times}"))
        {
            Ok(Outcome::Kept { killed, in_force }) => {
                println!("\r{victim}: killed {killed} times, {in_force} with something in force");
            }
            Ok(Outcome::Skipped(why)) => println!("\r{victim}: skipped: {why}"),
            Err(left) => {
                println!("\r{left}");
                kept = false;
            }
        }
    }
    ExitCode::from(u8::from(!kept))
}
