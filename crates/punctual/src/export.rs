//! Converts trace files for other tools.
//!
//! [`Format::Csv`] and [`Format::Json`] contain everything in the file, [`Format::Perfetto`] and
//! [`Format::Hdr`] only what their tools can show.

mod hdr;
mod lines;
mod perfetto;
mod table;

use std::io::Write;
use std::path::Path;

pub use crate::failure::ExportError;
use crate::trace::State;

/// The format of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Trace-event JSON for the Perfetto viewer.
    Perfetto,
    /// HdrHistogram's interval log, version 2.
    Hdr,
    /// A line of JSON for each item in the file.
    Json,
    /// CSV with a row for each event.
    Csv,
}

/// Writes the trace file at `path` to `out` in a format, as far as it can be read. Returns whether
/// the file is complete.
///
/// # Errors
/// If the file is no trace or cannot be read, or `out` cannot be written.
///
/// # Examples
/// ```no_run
/// use punctual::export::{Format, export};
///
/// let mut out = std::io::stdout().lock();
/// let state = export("run.ptrace".as_ref(), Format::Csv, &mut out)?;
/// for problem in state.lines() {
///     eprintln!("{problem}");
/// }
/// # Ok::<(), punctual::export::ExportError>(())
/// ```
pub fn export(path: &Path, format: Format, out: &mut impl Write) -> Result<State, ExportError> {
    let state = match format {
        Format::Perfetto => perfetto::export(path, out)?,
        Format::Hdr => hdr::export(path, out)?,
        Format::Json => lines::export(path, out)?,
        Format::Csv => table::export(path, out)?,
    };
    out.flush()?;
    Ok(state)
}
