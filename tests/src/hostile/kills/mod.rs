//! Kills processes with SIGKILL at any moment, many times, and checks that nothing is left behind:
//! no process, priority, bandwidth, descriptor or control group.

mod brokered;
mod local;

use std::fmt;

use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_model::Duration;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::live;

pub(super) use brokered::{is_ordinary_again, nothing_is_left};
pub(super) use local::{Beside, built, control_groups_of, is_empty, run_upcalls};

/// The process that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The first process of the broker, which is then started again.
    Broker,
    /// Another process of the broker, if it has any.
    Helper,
    /// A client with a grant.
    GrantHolder,
    /// A client with a channel that sends.
    Sender,
    /// A process with upcalls beside another such process.
    Upcalls,
    /// A program in C with upcalls beside another such program.
    CUpcalls,
    /// `punctual run --backend kernel`, which runs a program in SCHED_DEADLINE.
    Run,
    /// `punctual run --backend timetable --hard`, which runs it in a timetable.
    RunHard,
}

impl Victim {
    /// All victims.
    pub const ALL: [Self; 8] = [
        Self::Broker,
        Self::Helper,
        Self::GrantHolder,
        Self::Sender,
        Self::Upcalls,
        Self::CUpcalls,
        Self::Run,
        Self::RunHard,
    ];
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broker => "the broker",
            Self::Helper => "another process of the broker",
            Self::GrantHolder => "a client with a grant",
            Self::Sender => "a client with a channel",
            Self::Upcalls => "a process with upcalls",
            Self::CUpcalls => "a program in C with upcalls",
            Self::Run => "punctual run --backend kernel",
            Self::RunHard => "punctual run --hard",
        })
    }
}

/// The result of the kills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was left behind.
    Kept {
        /// The number of kills.
        killed: u64,
        /// The number of kills at which the victim's request was in force.
        in_force: u64,
    },
    /// There is no such victim here, for this reason.
    Skipped(String),
}

/// The longest that a victim lives before it is killed.
const LONGEST_MS: u64 = 40;

/// Kills once. Returns whether the victim's request was known to be in force.
type Cycle = Box<dyn FnMut(&mut Moments) -> Result<bool, String>>;

/// Draws the moments of the kills.
struct Moments {
    rng: ChaCha8Rng,
    victims: u64,
}

impl Moments {
    /// Returns whether the next victim lives at least until its request is in force: every second
    /// one does.
    fn waits(&mut self) -> bool {
        self.victims += 1;
        self.victims.is_multiple_of(2)
    }

    /// Sleeps for a part of the next victim's lifetime.
    fn pass(&mut self) {
        let micros = self.rng.random_range(0..LONGEST_MS * 1_000);
        clock::sleep(Duration::from_micros(micros));
    }
}

/// Kills a victim `count` times at moments drawn from `seed`, and calls `done` after each.
///
/// # Errors
/// Says what was left behind, and after how many kills.
pub fn kill(
    victim: Victim,
    count: u64,
    seed: u64,
    mut done: impl FnMut(u64),
) -> Result<Outcome, String> {
    let mut moments = Moments { rng: ChaCha8Rng::seed_from_u64(seed), victims: 0 };
    // A program in a timetable has its class only in its slots.
    let timetable = || local::run(&["--backend", "timetable", "--hard"], "SCHED_FIFO");
    let prepared = match victim {
        Victim::Broker => Ok(brokered::broker()),
        Victim::Helper => brokered::helper(),
        Victim::GrantHolder => Ok(brokered::grant_holder()),
        Victim::Sender => Ok(brokered::sender()),
        Victim::Upcalls => local::upcalls(),
        Victim::CUpcalls => local::c_upcalls(),
        Victim::Run => local::run(&["--backend", "kernel"], "SCHED_DEADLINE"),
        Victim::RunHard => timetable(),
    };
    let mut cycle = match prepared {
        Ok(cycle) => cycle,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let mut in_force = 0;
    for number in 1..=count {
        let killed = cycle(&mut moments).and_then(|was| bandwidth_is_back().map(|()| was));
        let left = |left| format!("{victim}, killed {number} times with seed {seed}: {left}");
        in_force += u64::from(killed.map_err(left)?);
        done(number);
    }
    Ok(Outcome::Kept { killed: count, in_force })
}

/// Checks that a large reservation is granted, which a few leaked ones would prevent.
pub(super) fn bandwidth_is_back() -> Result<(), String> {
    let reservation = "50ms/100ms".parse().expect("valid");
    let mut last = None;
    let fits = || {
        let tried = sched::try_out(Class::Deadline { reservation, reset_on_fork: true });
        tried.map_err(|why| last = Some(why.to_string())).is_ok()
    };
    if live::eventually(fits) {
        Ok(())
    } else {
        Err(format!("bandwidth: {}", last.unwrap_or_default()))
    }
}

/// Waits until `holds` returns true, or fails with `what`.
pub(super) fn must(what: &str, holds: impl FnMut() -> bool) -> Result<(), String> {
    if live::eventually(holds) { Ok(()) } else { Err(what.to_owned()) }
}
