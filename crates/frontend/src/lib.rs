//! Holds what the programs of Punctual share at the terminal.
//!
//! - [`exit`]: the exit codes, and failures that read as sentences.
//! - [`hint`]: the options and commands that follow a library's remedies.
//! - [`options`]: values of options.
//! - [`output`]: output to the terminal and to files.
//! - [`trace_file`]: `--trace FILE`.

pub mod exit;
pub mod hint;
pub mod options;
pub mod output;
pub mod trace_file;
