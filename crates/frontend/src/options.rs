//! Parses values of options that several programs share.

use punctual_model::Duration;

/// Parses a time that is not zero, such as `10s`.
///
/// # Errors
/// Returns a sentence that says what is wrong.
pub fn time(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(Duration::ZERO) => Err("it must be at least 1ns".into()),
        Ok(time) => Ok(time),
        Err(why) => Err(format!("the time {why}")),
    }
}
