//! Reads trace files ([`read`]): numbers subjects from 0 in the order in which the file names them,
//! and reports lost and damaged parts once. Writes trace files during a run or while something is
//! watched ([`Beside`], `Recorded`).

#[cfg(feature = "kernel")]
mod watched;
mod writing;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use punctual_model::{Instant, JobId};
use punctual_trace::cause::{Spent, Verdict};
use punctual_trace::constraint::ConstraintRequest;
use punctual_trace::file::{Block, Damage, Gap, Reader, Run, Step};
use punctual_trace::{Event, Subject, SubjectKind};

pub use punctual_runtime::recording::{
    Existing, RecordError, Recorder, run_here, run_in_virtual_time,
};
#[cfg(feature = "kernel")]
pub use watched::Recorded;
pub use writing::{Beside, refused};

use crate::Failure;

/// An entry of a trace file, in the file's order.
#[derive(Clone, Debug)]
pub enum Entry {
    /// The run that the file is of.
    Run(Run),
    /// A subject, with its number in the events that follow.
    Subject(u32, Subject),
    /// Events of subjects that were named before.
    Events(Vec<Event>),
    /// A request for a time constraint. If it was granted, the events of its job follow.
    ConstraintRequest(ConstraintRequest),
    /// The number of events that were lost before they were written.
    Lost(u64),
    /// Parts of the file that are damaged or missing.
    Missing(Gap),
    /// The cause of a late job by the kernel's evidence.
    Verdict(Verdict),
    /// The time at which the run was over.
    End(Instant),
}

/// The completeness of a trace file.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The positions of damage, and the kind of damage.
    pub damages: Vec<(usize, Damage)>,
    /// The number of damaged bytes that were skipped.
    pub damaged_bytes: usize,
    /// The number of missing blocks, as far as later blocks tell.
    pub blocks_missing: u64,
    /// The number of events in these blocks.
    pub events_missing: u64,
    /// The number of events that were lost before they were written.
    pub events_lost: u64,
    /// The number of bytes of an incomplete block at the end.
    pub rest: usize,
    /// Whether the file contains the end of the run.
    pub has_end: bool,
    /// The number of blocks of unknown kinds, which a later version writes.
    pub unknown: u64,
}

impl State {
    /// Returns whether the file holds all events of its run. Without all events, no promise is
    /// known to be kept.
    pub fn is_whole(&self) -> bool {
        let is_missed = self.blocks_missing > 0 || self.events_lost > 0;
        self.has_end && self.damages.is_empty() && !is_missed
    }

    /// Returns the problems of the file, one line each.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some((at, damage)) = self.damages.first() {
            lines.push(format!(
                "damaged at byte {at}: {damage}; {} place{} in all, {} bytes passed over",
                self.damages.len(),
                if self.damages.len() == 1 { "" } else { "s" },
                self.damaged_bytes
            ));
        }
        if self.blocks_missing > 0 {
            lines.push(format!(
                "{} block{} missing, with {} events",
                self.blocks_missing,
                if self.blocks_missing == 1 { " is" } else { "s are" },
                self.events_missing
            ));
        }
        if !self.has_end {
            lines.push(match self.rest {
                0 => "it has no end: its writer died, or still writes".to_owned(),
                rest => format!(
                    "it has no end: its writer died, or still writes; {rest} bytes of a block are there"
                ),
            });
        }
        if self.unknown > 0 {
            lines.push(format!("{} blocks of kinds that a later version writes", self.unknown));
        }
        lines
    }
}

/// Reads the file at `path` to its present end and passes each entry to `take`. Damaged blocks are
/// skipped.
///
/// # Errors
/// If the file is no trace or cannot be read, or `take` returns an error.
pub fn read<E: From<Failure>>(
    path: &Path,
    mut take: impl FnMut(Entry) -> Result<(), E>,
) -> Result<State, E> {
    let refuse = |why: &dyn std::fmt::Display| -> E {
        Failure::bad_input(format!("{}: {why}", path.display())).into()
    };
    let file =
        bytes_of(path).map_err(|error| refuse(&format!("cannot read the trace: {error}")))?;
    let (mut reader, mut state, mut numbers) =
        (Reader::new(), State::default(), Numbers::default());
    loop {
        let block = match reader.step(&file) {
            Ok(Step::Block(block)) => block,
            Ok(Step::Missing(gap)) => {
                state.blocks_missing += u64::from(gap.blocks);
                state.events_missing += u64::from(gap.events);
                take(Entry::Missing(gap))?;
                continue;
            }
            Ok(Step::End { bytes }) => {
                state.rest = bytes;
                if !reader.has_begun() {
                    return Err(refuse(&"empty, or only the first bytes of a trace"));
                }
                break;
            }
            Err(damage) => {
                let at = reader.position();
                let Some(bytes) = reader.skip(&file) else {
                    if !reader.has_begun() {
                        return Err(refuse(&damage));
                    }
                    state.damages.push((at, damage));
                    state.damaged_bytes += file.len() - at;
                    // No later block tells how much is missing.
                    take(Entry::Missing(Gap::default()))?;
                    break;
                };
                state.damages.push((at, damage));
                state.damaged_bytes += bytes;
                continue;
            }
        };
        match block {
            Block::Run(run) => take(Entry::Run(run))?,
            Block::Subject(number, subject) => {
                let (number, _) = numbers.of(number);
                take(Entry::Subject(number, subject))?;
            }
            Block::Events(mut events) => {
                for event in &mut events {
                    event.job = numbers.known(event.job, &mut take)?;
                }
                take(Entry::Events(events))?;
            }
            Block::ConstraintRequest(mut asked) => {
                asked.job = numbers.known(asked.job, &mut take)?;
                take(Entry::ConstraintRequest(asked))?;
            }
            Block::Lost(lost) => {
                state.events_lost = state.events_lost.saturating_add(lost.events);
                take(Entry::Lost(lost.events))?;
            }
            Block::Verdict(mut verdict) => {
                verdict.late.job = numbers.known(verdict.late.job, &mut take)?;
                for share in &mut verdict.shares {
                    if let Spent::Subject(number) = &mut share.cause {
                        *number = numbers.of(*number).0;
                    }
                }
                take(Entry::Verdict(verdict))?;
            }
            Block::End(at) => {
                state.has_end = true;
                take(Entry::End(at))?;
            }
            Block::Unknown { .. } => state.unknown += 1,
        }
    }
    Ok(state)
}

fn bytes_of(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Maps the numbers of a file, which are arbitrary, to numbers from 0.
#[derive(Default)]
struct Numbers(BTreeMap<u32, u32>);

impl Numbers {
    /// Returns the number here, and whether this is its first use.
    fn of(&mut self, number: u32) -> (u32, bool) {
        let next = self.0.len() as u32;
        let known = *self.0.entry(number).or_insert(next);
        (known, known == next)
    }

    /// Returns the job with the number used here. A subject that the file does not name is passed
    /// on first.
    fn known<E>(
        &mut self,
        job: JobId,
        take: &mut impl FnMut(Entry) -> Result<(), E>,
    ) -> Result<JobId, E> {
        let (task, is_new) = self.of(job.task);
        if is_new {
            let name = format!("subject {}", job.task);
            take(Entry::Subject(task, Subject::new(name, SubjectKind::Task)))?;
        }
        Ok(JobId { task, ..job })
    }
}
