//! Watches the running program, as the options say.

use std::path::PathBuf;

use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_model::Duration;
use punctual_observe::Fitting;
use punctual_trace::fit::Margin;

use crate::Failure;
use crate::program::Program;

/// The options for watching a program and for the trial.
#[derive(Clone, Debug)]
pub struct Options {
    /// The length of the observation, and of the trial.
    pub length: Duration,
    /// The time after a program's start for which it is not watched, because it then does things
    /// that it does only once.
    pub settle: Duration,
    /// The margin of a proposal over the observations.
    pub margin: Margin,
    /// Whether the proposal is tried out.
    pub tries: bool,
    /// The path of the program `punctual`. The trial of a program whose thread is bound to a CPU
    /// needs its command `run`: such a thread is held by a timetable, whose threads the observation
    /// tells from the program by their process. With `None` that trial is refused.
    pub run_by: Option<PathBuf>,
}

/// The interval at which the kernel's records are read.
const TURN: Duration = Duration::from_millis(50);

/// Watches for `length`, or until the program ends or a signal asks to end. Calls `came` with each
/// new thread. Returns how long it watched, and whether a signal asked to end.
pub(super) fn watch(
    fitting: &mut Fitting,
    mut program: Option<&mut Program>,
    signals: &Blocked,
    length: Duration,
    mut came: impl FnMut(&mut Fitting, &[u32]) -> Result<(), Failure>,
) -> Result<(Duration, bool), Failure> {
    let begun = clock::now();
    loop {
        let caught = signals.wait_until(clock::now() + TURN).map_err(Failure::cannot_here)?;
        let new = fitting.turn();
        came(fitting, &new)?;
        let asked = matches!(caught, Some(Caught::Sent { .. } | Caught::Stop { .. }));
        let has_ended = program.as_mut().map_or(Ok(false), |program| program.has_ended())?;
        let so_far = clock::now().saturating_since(begun);
        if asked || has_ended || so_far >= length || !fitting.is_alive() {
            return Ok((so_far, asked));
        }
    }
}
