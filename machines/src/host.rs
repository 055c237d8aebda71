//! Runs programs of this host, and names the folder for kernels, images and results.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::problem::Problem;

/// Runs a program to its end and returns its standard output.
///
/// # Errors
/// Fails if it is missing, or with its last lines on standard error if it fails.
pub(crate) fn output_of(command: &mut Command) -> Result<String, Problem> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Problem::Host(format!("{program} cannot be run: {error}")))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(Problem::Host(format!(
            "{program} failed ({}): {}",
            done.status,
            tail(&said, 5)
        )));
    }
    String::from_utf8(done.stdout)
        .map_err(|_| Problem::Host(format!("{program} printed what is no text")))
}

/// Returns the last `lines` lines of a text.
pub(crate) fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Returns the top folder of this project.
pub(crate) fn project() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a member of the workspace")
        .to_owned()
}

/// Returns the folder for kernels, images and results: `machines` in cargo's target folder.
pub(crate) fn cache() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| project().join("target")).join("machines")
}
