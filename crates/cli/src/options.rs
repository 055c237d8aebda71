//! Values that options of several subcommands have.

use punctual_model::{Duration, units};

/// A time that is not zero.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    match units::parse_nanos(text) {
        Ok(0) => Err("it must be at least 1ns".into()),
        Ok(nanos) => Ok(Duration::from_nanos(nanos)),
        Err(why) => Err(format!("the time {why}")),
    }
}
