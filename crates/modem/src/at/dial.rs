//! The dial string after `ATD` (V.250 §6.3.1).
//!
//! | character | meaning |
//! |---|---|
//! | `0`–`9` `*` `#` `A`–`D` | a digit |
//! | `,` | a pause of S8 seconds |
//! | `W` | wait for dial tone |
//! | `T`, `P` | tone or pulse from here on |
//! | space, `-`, `(`, `)`, `.` | none: for readability |
//! | `@`, `!`, `;`, any other | ERROR |
//!
//! `@` (quiet answer), `!` (hook flash) and `;` (stay in command state) need a telephone on the
//! line, and there is none: they are refused instead of skipped.

use punctual_model::Duration;

/// The largest number of steps in a dial string.
pub const MAX_STEPS: usize = 64;

/// One step of dialling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialStep {
    /// A digit, as its character in upper case.
    Digit(u8),
    /// Wait for this long.
    Pause(Duration),
    /// Wait for dial tone.
    WaitForTone,
    /// Tones from here on.
    Tone,
    /// Pulses from here on.
    Pulse,
}

/// The reason why a dial string was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DialError {
    /// Not a character of the table above.
    #[error("{character:?} at place {place} of the dial string cannot be dialled; leave it out")]
    Character {
        /// The character found.
        character: char,
        /// Its position, from 0.
        place: usize,
    },
    /// More than [`MAX_STEPS`] steps.
    #[error("the dial string has more than {MAX_STEPS} steps; shorten it")]
    TooLong,
}

/// A valid dial string; it may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DialString {
    steps: Vec<DialStep>,
}

impl DialString {
    /// Parses the bytes after `ATD`; `comma` is the value of S8.
    pub fn parse(text: &[u8], comma: Duration) -> Result<Self, DialError> {
        let mut steps = Vec::new();
        for (place, &byte) in text.iter().enumerate() {
            let step = match byte.to_ascii_uppercase() {
                digit @ (b'0'..=b'9' | b'*' | b'#' | b'A'..=b'D') => DialStep::Digit(digit),
                b',' => DialStep::Pause(comma),
                b'W' => DialStep::WaitForTone,
                b'T' => DialStep::Tone,
                b'P' => DialStep::Pulse,
                b' ' | b'-' | b'(' | b')' | b'.' => continue,
                _ => return Err(DialError::Character { character: char::from(byte), place }),
            };
            if steps.len() == MAX_STEPS {
                return Err(DialError::TooLong);
            }
            steps.push(step);
        }
        Ok(Self { steps })
    }

    /// Returns the steps in order.
    pub fn steps(&self) -> &[DialStep] {
        &self.steps
    }

    /// Iterates over the digits alone: the address.
    pub fn digits(&self) -> impl Iterator<Item = char> + '_ {
        self.steps().iter().filter_map(|step| match step {
            DialStep::Digit(digit) => Some(char::from(*digit)),
            _ => None,
        })
    }

    /// Returns the total length of the pauses.
    pub fn pauses(&self) -> Duration {
        self.steps()
            .iter()
            .map(|step| match step {
                DialStep::Pause(length) => *length,
                _ => Duration::ZERO,
            })
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMA: Duration = Duration::from_secs(2);

    #[test]
    fn each_character_means_its_step() {
        let string = DialString::parse(b"T9,W (05-1)p*#aD", COMMA).expect("good");
        use DialStep::{Digit, Pause, Pulse, Tone, WaitForTone};
        let expected = [
            Tone,
            Digit(b'9'),
            Pause(COMMA),
            WaitForTone,
            Digit(b'0'),
            Digit(b'5'),
            Digit(b'1'),
            Pulse,
            Digit(b'*'),
            Digit(b'#'),
            Digit(b'A'),
            Digit(b'D'),
        ];
        assert_eq!(string.steps(), expected);
        assert_eq!(string.digits().collect::<String>(), "9051*#AD");
        assert_eq!(string.pauses(), COMMA);
    }

    #[test]
    fn invalid_characters_are_refused_with_their_position() {
        for (text, character) in [("5@1", '@'), ("5!1", '!'), ("5;1", ';'), ("5L1", 'L')] {
            let refused = DialString::parse(text.as_bytes(), COMMA);
            assert_eq!(refused, Err(DialError::Character { character, place: 1 }));
        }
        assert_eq!(DialString::parse(&[b'1'; MAX_STEPS + 1], COMMA), Err(DialError::TooLong));
        assert!(DialString::parse(&[b'1'; MAX_STEPS], COMMA).is_ok());
    }
}
