//! Writes CSV: a row for each event, with the properties of its subject.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use punctual_model::{Instant, JobId};
use punctual_trace::constraint::Answer;
use punctual_trace::{Kind, Promise, Subject};

use crate::failure::ExportError;
use crate::trace::{self, Entry, State};

/// The columns. `value` is a count of jobs, or nanoseconds of a budget.
const HEADER: [&str; 11] = [
    "subject",
    "name",
    "kind",
    "thread",
    "cpu",
    "job",
    "release_ns",
    "absolute_deadline_ns",
    "at_ns",
    "event",
    "value",
];

pub(super) fn export(path: &Path, out: &mut impl Write) -> Result<State, ExportError> {
    let mut rows = csv::Writer::from_writer(out);
    rows.write_record(HEADER).map_err(io::Error::from)?;
    let mut subjects: Vec<Subject> = Vec::new();
    let mut granted: HashMap<JobId, Instant> = HashMap::new();
    let state = trace::read(path, |told| {
        match told {
            Entry::Subject(number, subject) => match subjects.get_mut(number as usize) {
                Some(known) => *known = subject,
                None => subjects.push(subject),
            },
            Entry::Events(events) => {
                for event in events {
                    // Every number was introduced before.
                    let Some(of) = subjects.get(event.job.task as usize) else { continue };
                    let deadline = of.promise.relative_deadline;
                    let deadline = deadline.map(|by| event.release.saturating_add(by));
                    let deadline = granted.get(&event.job).copied().or(deadline);
                    let deadline = deadline.map(Instant::as_nanos);
                    if event.kind == Kind::Complete {
                        granted.remove(&event.job);
                    }
                    rows.write_record([
                        event.job.task.to_string(),
                        plain(&of.name),
                        of.kind.name().to_owned(),
                        of.thread.map_or_else(String::new, |tid| tid.to_string()),
                        of.cpu.map_or_else(String::new, |cpu| cpu.to_string()),
                        event.job.index.to_string(),
                        event.release.as_nanos().to_string(),
                        deadline.map_or_else(String::new, |deadline| deadline.to_string()),
                        event.at.as_nanos().to_string(),
                        event.kind.word().to_owned(),
                        event.kind.value().map_or_else(String::new, |value| value.to_string()),
                    ])
                    .map_err(io::Error::from)?;
                }
            }
            Entry::ConstraintRequest(request) if request.answer == Answer::Granted => {
                granted.insert(request.job, request.deadline);
            }
            // The missing part may have contained promises.
            Entry::Missing(gap) if gap.subjects > 0 => {
                subjects.iter_mut().for_each(|subject| subject.promise = Promise::default());
            }
            Entry::ConstraintRequest(_)
            | Entry::Run(_)
            | Entry::Lost(_)
            | Entry::Missing(_)
            | Entry::Verdict(_)
            | Entry::End(_) => {}
        }
        Ok::<(), ExportError>(())
    })?;
    rows.flush()?;
    Ok(state)
}

/// Returns the name with a mark before it if a spreadsheet would take it for a formula.
fn plain(name: &str) -> String {
    if name.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        format!("'{name}")
    } else {
        name.to_owned()
    }
}
