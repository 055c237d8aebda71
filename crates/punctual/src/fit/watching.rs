//! While the program runs and is watched.

use punctual_linux::clock;
use punctual_linux::process::{Blocked, Caught};
use punctual_model::Duration;
use punctual_observe::Fitting;

use crate::Failure;
use crate::program::Program;

/// So often the kernel's records are taken.
const TURN: Duration = Duration::from_millis(50);

/// Watches for `length`, or until the program ends or we are asked to; `came` is told of threads that
/// are there for the first time. Answers how long it was, and whether we were asked to end.
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
