//! Reads trace files: subjects are numbered from 0 in the order in which the file names them, and what was lost or
//! damaged is said once. Writes them while something runs or is watched
//! ([`Beside`], [`Recorded`]).

mod writing;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use punctual_model::{Instant, JobId};
use punctual_trace::cause::{Spent, Verdict};
use punctual_trace::constraint::Asked;
use punctual_trace::file::{Block, Damage, Gap, Reader, Run, Step};
use punctual_trace::{Event, Subject, SubjectKind};

pub use punctual_observe::{RecordError, Recorder};
pub use writing::{Beside, Recorded, refused};

use crate::Failure;

/// An entry of a trace file, in the file's order.
#[derive(Clone, Debug)]
pub enum Entry {
    /// The run that it is of.
    Run(Run),
    /// Events of this number are of this subject from here on.
    Subject(u32, Subject),
    /// Events of subjects that were named before.
    Events(Vec<Event>),
    /// A time constraint; the events of its job follow, if it was granted.
    Asked(Asked),
    /// So many events were lost before they were written.
    Lost(u64),
    /// Parts of the file are damaged or not there.
    Missing(Gap),
    /// Why a job was late, by the kernel's evidence.
    Verdict(Verdict),
    /// The run was over then.
    End(Instant),
}

/// The state of a trace file as such.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Places that were damaged, and what is wrong there.
    pub damages: Vec<(usize, Damage)>,
    /// Bytes that were passed over.
    pub damaged_bytes: usize,
    /// Blocks that are missing, as far as those after them tell.
    pub blocks_missing: u64,
    /// Events in them.
    pub events_missing: u64,
    /// Events that were lost before they were written.
    pub events_lost: u64,
    /// Bytes of a block that is not whole, at the end.
    pub rest: usize,
    /// Whether its writer said that the run is over.
    pub has_end: bool,
    /// Blocks of kinds that a later version writes.
    pub unknown: u64,
}

impl State {
    /// Returns whether everything is there that happened: no promise of a file that is not whole is known
    /// to be kept.
    pub fn is_whole(&self) -> bool {
        let is_missed = self.blocks_missing > 0 || self.events_lost > 0;
        self.has_end && self.damages.is_empty() && !is_missed
    }

    /// Returns a line each for what a person should know.
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

/// Reads the file at `path` up to its end as it is. Damaged blocks are passed over.
///
/// # Errors
/// The file is no trace or cannot be read; what `take` says.
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
                    // No block follows that tells how much it was.
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
            Block::Asked(mut asked) => {
                asked.job = numbers.known(asked.job, &mut take)?;
                take(Entry::Asked(asked))?;
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

/// From the numbers of a file, which may be any, to those from 0.
#[derive(Default)]
struct Numbers(BTreeMap<u32, u32>);

impl Numbers {
    /// Its number here, and whether it is the first time.
    fn of(&mut self, number: u32) -> (u32, bool) {
        let next = self.0.len() as u32;
        let known = *self.0.entry(number).or_insert(next);
        (known, known == next)
    }

    /// The job here; its subject is told of first, if the file does not name it.
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
