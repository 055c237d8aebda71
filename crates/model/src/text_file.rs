//! TOML files written by people: read into types that cannot be wrong, or refused with the place.
//!
//! A contract, a host profile and the broker's configuration are read in the same way: the bytes
//! become a raw structure with the place of each value, and a function turns it into the valid one
//! or reports the wrong value. [`parse`] does the common part; the rest of this module serves such
//! functions.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use serde::de::DeserializeOwned;
use thiserror::Error;
use toml::Spanned;

/// A sentence with file, line and column: `video.toml:7:10: the wcet is zero; …`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct FileError {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The error and its remedy.
    pub problem: String,
}

impl FileError {
    /// Places `problem` at its byte offset in `text`.
    fn at(file: &str, text: &str, Problem { offset, text: problem }: Problem) -> Self {
        let mut end = offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            file: file.into(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            problem,
        }
    }
}

/// A problem and its byte offset. It becomes a [`FileError`] at the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The offset in bytes from the beginning of the file.
    pub offset: usize,
    /// The error and its remedy.
    pub text: String,
}

/// A value, or the problem with it.
pub type Checked<T> = Result<T, Problem>;

/// Returns the problem `text` at the start of `span`.
pub fn problem<T>(span: Range<usize>, text: impl Into<String>) -> Checked<T> {
    Err(Problem { offset: span.start, text: text.into() })
}

/// Reads `bytes` as the raw structure `R` and validates it. `file` and `kind` ("contract") only
/// appear in messages.
pub fn parse<R: DeserializeOwned, T>(
    file: &str,
    kind: &str,
    bytes: &[u8],
    validate: impl FnOnce(R) -> Checked<T>,
) -> Result<T, FileError> {
    let text = core::str::from_utf8(bytes).map_err(|error| {
        let valid = &bytes[..error.valid_up_to()];
        // `valid` is UTF-8 by the definition of `valid_up_to`, so nothing is replaced here.
        let valid = String::from_utf8_lossy(valid);
        let text = format!("this byte is not UTF-8; a {kind} is a TOML text file");
        FileError::at(file, &valid, Problem { offset: valid.len(), text })
    })?;
    toml::from_str::<R>(text)
        .map_err(|error| syntax(text, &error))
        .and_then(validate)
        .map_err(|problem| FileError::at(file, text, problem))
}

/// Turns the TOML parser's error in `file` into a problem, with a suggestion for a misspelt key.
fn syntax(file: &str, error: &toml::de::Error) -> Problem {
    let mut text = error.message().trim().replace('\n', "; ");
    if text == "duplicate key"
        && let Some(key) = error.span().and_then(|span| file.get(span))
    {
        text = format!("the key \"{}\" is here for the second time; keep one", printable(key));
    }
    let mut quoted = text.split('`').skip(1).step_by(2);
    if let (true, Some(unknown)) = (text.starts_with("unknown field"), quoted.next())
        && let Some(known) = closest(unknown, quoted)
    {
        text = format!("{text}; did you mean `{known}`?");
    }
    let offset = error.span().map_or(0, |span| span.start);
    // A quantity that refuses its text does not know its key.
    if text.starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
        && let Some(key) = key_before(file, offset)
    {
        text = format!("{} {text}", printable(key));
    }
    Problem { offset, text }
}

/// Returns the key of the value at `offset`, if it is right before it.
fn key_before(file: &str, offset: usize) -> Option<&str> {
    let before = file.get(..offset)?.trim_end().strip_suffix('=')?.trim_end();
    before.rsplit(|c: char| c.is_whitespace() || matches!(c, '.' | ',' | '{')).next()
}

/// Returns the `known` word that `word` most likely misspells; `None` if none is similar.
pub fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances =
        known.into_iter().map(|known| (strsim::damerau_levenshtein(word, known), known));
    let near = |&(distance, known): &(usize, &str)| distance <= known.len().div_ceil(3);
    distances.min().filter(near).map(|(_, known)| known)
}

/// Returns the entry of `names` that `raw` names.
pub fn choice<T: Copy>(key: &str, raw: &Spanned<String>, names: &[(&str, T)]) -> Checked<T> {
    if let Some(&(_, chosen)) = names.iter().find(|(name, _)| *name == raw.get_ref().as_str()) {
        return Ok(chosen);
    }
    let mut all = String::new();
    for (at, (name, _)) in names.iter().enumerate() {
        let between = match at {
            0 => "",
            at if at + 1 == names.len() => " or ",
            _ => ", ",
        };
        all = all + between + name;
    }
    let given = printable(raw.get_ref());
    problem(raw.span(), format!("unknown {key} \"{given}\"; choose {all}"))
}

/// Makes text from a file printable: at most 40 characters, without control characters.
pub fn printable(text: &str) -> String {
    let mut shown: String =
        text.chars().take(40).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(40).is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_word_is_guessed_and_a_strange_one_is_not() {
        assert_eq!(closest("upcall", ["priority", "upcalls"]), Some("upcalls"));
        assert_eq!(closest("elephant", ["priority", "upcalls"]), None);
        assert_eq!(closest("any", []), None);
    }

    #[test]
    fn printable_text_is_short_and_has_no_control_characters() {
        assert_eq!(printable("a\u{1b}[2J"), "a\u{fffd}[2J");
        assert_eq!(printable(&"ä".repeat(41)), "ä".repeat(40) + "…");
    }
}
