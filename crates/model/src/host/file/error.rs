//! What is wrong with a host profile, and where.

use alloc::string::String;

use thiserror::Error;

/// A sentence with file, line and column: `host.toml:7:10: …`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}:{column}: {problem}")]
pub struct CalibrationError {
    /// The file, as the caller named it.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong and what would be right.
    pub problem: String,
}

impl CalibrationError {
    /// The error `problem` at byte `offset` of `text`.
    pub(super) fn at(file: &str, text: &str, offset: usize, problem: String) -> Self {
        let mut end = offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line = before.rsplit('\n').next().unwrap_or(before);
        Self {
            file: file.into(),
            line: before.matches('\n').count() + 1,
            column: line.chars().count() + 1,
            problem,
        }
    }
}
