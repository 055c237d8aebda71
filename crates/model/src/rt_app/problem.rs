//! Problems and notes with their places: byte offsets during the import, then lines and columns.

use alloc::string::String;
use alloc::vec::Vec;

/// A part of the file that is not in the contract, and the consequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The note, as a sentence.
    pub what: String,
}

/// A sentence and the byte offset of its subject.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) offset: usize,
    pub(super) text: String,
}

pub(super) type Checked<T> = Result<T, Problem>;

pub(super) fn problem<T>(offset: usize, text: impl Into<String>) -> Checked<T> {
    Err(Problem { offset, text: text.into() })
}

/// Makes text from the file printable: at most 40 characters, without control characters.
pub(super) fn printable(text: &str) -> String {
    let mut shown: String =
        text.chars().take(40).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(40).is_some() {
        shown.push('…');
    }
    shown
}

/// Sorts the problems in file order and finds their lines and columns, in one pass over `text`
/// however many problems there are and however long its lines.
pub(super) fn placed(text: &str, mut problems: Vec<Problem>) -> Vec<Note> {
    problems.sort_by_key(|problem| problem.offset);
    let mut characters = text.char_indices();
    let (mut line, mut column) = (1, 1);
    let mut next = characters.next();
    let notes = problems.into_iter().map(|Problem { offset, text: what }| {
        while let Some((at, character)) = next
            && at < offset
        {
            if character == '\n' {
                (line, column) = (line + 1, 1);
            } else {
                column += 1;
            }
            next = characters.next();
        }
        Note { line, column, what }
    });
    notes.collect()
}
