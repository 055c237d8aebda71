//! Parses values of options that several programs share.

use punctual_model::{Duration, units};

/// Parses a time that is not zero, such as `10s`.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn time(text: &str) -> Result<Duration, String> {
    match units::parse_nanos(text) {
        Ok(0) => Err("it must be at least 1ns".into()),
        Ok(nanos) => Ok(Duration::from_nanos(nanos)),
        Err(why) => Err(format!("the time {why}")),
    }
}
