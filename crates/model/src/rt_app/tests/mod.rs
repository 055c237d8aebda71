mod listing;
mod meaning;
mod oracle;
mod reading;

use alloc::format;
use alloc::string::{String, ToString};

use super::{Imported, parse};

/// The contract and the notes of a workload that must be good.
fn good(text: &str) -> Imported {
    match parse("w.json", text.as_bytes()) {
        Ok(imported) => imported,
        Err(error) => panic!("{text}\n{error}"),
    }
}

/// What is wrong with a workload that must be refused.
fn refusal(text: &str) -> String {
    match parse("w.json", text.as_bytes()) {
        Ok(imported) => panic!("{text}\n{imported:?}"),
        Err(error) => error.to_string(),
    }
}

/// Whether a note that begins with `place` has `part` in it.
fn has_note(imported: &Imported, place: (usize, usize), part: &str) -> bool {
    let here = |note: &&super::Note| (note.line, note.column) == place;
    imported.notes.iter().filter(here).any(|note| note.what.contains(part))
}

/// A workload of `threads`, each on a line of its own from line 2.
fn workload(threads: &[&str]) -> String {
    format!("{{\"tasks\":{{\n{}\n}}}}", threads.join(",\n"))
}
