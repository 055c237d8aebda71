mod listing;
mod meaning;
mod oracle;
mod reading;

use alloc::format;
use alloc::string::{String, ToString};

use super::{Imported, parse};

/// Returns the contract and the notes of a workload that must be valid.
fn good(text: &str) -> Imported {
    match parse("w.json", text.as_bytes()) {
        Ok(imported) => imported,
        Err(error) => panic!("{text}\n{error}"),
    }
}

/// Returns the error of a workload that must be refused.
fn refusal(text: &str) -> String {
    match parse("w.json", text.as_bytes()) {
        Ok(imported) => panic!("{text}\n{imported:?}"),
        Err(error) => error.to_string(),
    }
}

/// Returns true if a note at `place` contains `part`.
fn has_note(imported: &Imported, place: (usize, usize), part: &str) -> bool {
    let here = |note: &&super::Note| (note.line, note.column) == place;
    imported.notes.iter().filter(here).any(|note| note.what.contains(part))
}

/// Writes a workload of `threads`, each on its own line from line 2.
fn workload(threads: &[&str]) -> String {
    format!("{{\"tasks\":{{\n{}\n}}}}", threads.join(",\n"))
}
