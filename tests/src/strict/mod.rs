//! Live runs that are judged strictly, for machines whose time is counted in instructions
//! (docs/machines.md).
//!
//! Elsewhere another tenant of the host can make any job late, and a strict verdict would be about
//! that tenant.
//!
//! - [`upcalls`]: sets drawn from a seed, admitted with the host's own calibration, compared with
//!   their proven bounds.
//! - [`channels`]: the same for channels, granted by a broker.
//! - [`bursts`]: measures how exactly a budget is enforced.
//! - [`interrupts`]: measures what the kernel takes from the most urgent thread.

pub mod bursts;
pub mod channels;
mod interrupts;
pub mod upcalls;

use std::fs;
use std::path::Path;

use punctual_linux::clock;
use punctual_model::HostProfile;
use punctual_model::host::{Calibration, DeadlineLimits};

pub use interrupts::Interrupts;

/// The result for one set.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// The number of jobs or messages.
    pub jobs: u64,
    /// The largest ratio of a response time or delay to its bound, in thousandths.
    pub worst_permille: u64,
}

/// The environment variable with the clock of this machine, set by the first process
/// (`machines/guest/init`).
const CLOCK: &str = "PUNCTUAL_MACHINE_CLOCK";

/// Returns whether this machine's time is counted in instructions.
pub fn is_possible() -> bool {
    std::env::var(CLOCK).is_ok_and(|clock| clock == "counted")
}

/// Reads a host profile that `punctual calibrate` wrote.
///
/// # Errors
/// Fails with a sentence if the file cannot be read or is malformed.
pub fn profile(path: &Path) -> Result<HostProfile, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let calibration =
        Calibration::parse(&path.to_string_lossy(), &bytes).map_err(|error| error.to_string())?;
    Ok(calibration.profile(DeadlineLimits::DEFAULT))
}

/// Works for a given number of rounds, each of which takes the same number of instructions.
#[inline(never)]
fn work(rounds: u64) {
    for round in 0..rounds {
        std::hint::black_box(round);
    }
}

/// Returns how many rounds of [`work`] fit into a microsecond when nothing interrupts.
fn rounds_per_microsecond() -> u64 {
    const ROUNDS: u64 = 20_000;
    let shortest = (0..50).map(|_| {
        let began = clock::now();
        work(ROUNDS);
        (clock::now() - began).as_nanos()
    });
    let shortest = shortest.min().expect("fifty").max(1);
    (ROUNDS * 1_000 / shortest).max(1)
}
