//! Writes answers to standard output or to a file.

use std::io::{self, Write};
use std::path::Path;

pub use punctual::file::NewFile;

use serde::Serialize;

use crate::exit::Failure;

/// Prints `page`, with colours only on a terminal. A reader that closes the pipe early is no
/// failure.
pub fn print(page: &str) -> Result<(), Failure> {
    let mut out = anstream::stdout().lock();
    match out.write_all(page.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::cannot_here(format!("cannot write the answer: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints `value` as indented JSON.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    print(&json_page(value)?)
}

/// Returns `value` as indented JSON, with a line end.
pub fn json_page(value: &impl Serialize) -> Result<String, Failure> {
    Ok(encoded(serde_json::to_string_pretty(value))? + "\n")
}

/// Returns `value` as JSON on one line, without a line end.
pub fn json_line(value: &impl Serialize) -> Result<String, Failure> {
    encoded(serde_json::to_string(value))
}

fn encoded(text: serde_json::Result<String>) -> Result<String, Failure> {
    text.map_err(|error| Failure::cannot_here(format!("cannot write the answer as JSON: {error}")))
}

/// Opens a file for an answer. Refuses a `path` that exists unless forced.
pub fn file(path: &Path, force: bool) -> Result<NewFile, Failure> {
    Ok(NewFile::beside(path, force)?)
}

/// Moves a complete file to its path.
pub fn place(file: NewFile) -> Result<(), Failure> {
    Ok(file.place().map(drop)?)
}

/// Writes `value` as indented JSON to `file`, and moves the file to its path.
pub fn json_file(mut file: NewFile, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut file, value)
        .map_err(io::Error::from)
        .and_then(|()| file.write_all(b"\n"))
        .map_err(|error| file.refuse(error))?;
    place(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that JSON cannot express, since the keys of its objects must be text.
    fn inexpressible() -> std::collections::BTreeMap<(u8, u8), u8> {
        [((1, 2), 3)].into()
    }

    #[test]
    fn a_value_that_is_not_expressible_in_json_is_a_failure() {
        let refused = |outcome: Result<(), Failure>| match outcome {
            Err(Failure::CannotHere(why)) => {
                assert!(why.text().contains("as JSON: key must be"), "{why}")
            }
            other => panic!("{other:?}"),
        };
        refused(json(&inexpressible()));
        refused(json_line(&inexpressible()).map(drop));
    }

    #[test]
    fn a_line_of_json_contains_no_line_end() {
        assert_eq!(json_line(&["a\nb"]).expect("text"), r#"["a\nb"]"#);
    }
}
