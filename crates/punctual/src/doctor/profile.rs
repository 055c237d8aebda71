//! Checks whether admission knows the costs of this host's switches.

use punctual_model::Duration;

use super::check::Check;
use crate::host::{Standing, candidates, standing};

const REMEDY: &str = "punctual calibrate (about a minute)";

/// Checks the profile that admission uses by default.
pub(super) fn check() -> Check {
    const NAME: &str = "host profile";
    let mut stale = None;
    for path in candidates() {
        match standing(&path) {
            Standing::Absent => {}
            Standing::Unusable(why) => stale = stale.or(Some(why)),
            Standing::Holds(calibration) => {
                let (year, month, day) = calibration.run.date();
                let found =
                    format!("{}, measured on {year:04}-{month:02}-{day:02}", path.display());
                return match calibration.switching {
                    Some(charge) => {
                        let cost: Duration = charge.context_switch().at_full_speed();
                        Check::ok(NAME, format!("{found}: {cost} a switch"))
                    }
                    None => Check::warning(
                        NAME,
                        format!("{found}: switches could not be measured, and count as free"),
                        "measure again with the right to SCHED_FIFO: punctual calibrate",
                    ),
                };
            }
        }
    }
    match stale {
        Some(why) => Check::warning(NAME, format!("{why}; it is not used"), REMEDY),
        None => Check::warning(NAME, "none: admission takes switches for free", REMEDY),
    }
}
