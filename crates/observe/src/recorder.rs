//! Writes the trace file of a run: the driver's side of [`punctual_trace::file`].

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use punctual_model::Instant;
use punctual_trace::cause::Verdict;
use punctual_trace::constraint::Asked;
use punctual_trace::file::{Lost, Run, Writer};
use punctual_trace::{Event, Sink, Subject};
use thiserror::Error;

/// Events of a sink that are written together: a block a few dozen KiB long.
const TOGETHER: usize = 1 << 13;

/// Why there is no trace, or no more of it.
#[derive(Debug, Error)]
pub enum RecordError {
    /// A file of that name is not overwritten unasked.
    #[error("{}: there is a file of this name; choose another, or overwrite it with --force", .path.display())]
    IsThere {
        /// The file.
        path: PathBuf,
    },
    /// The file system refused.
    #[error("{}: the trace cannot be written: {error}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
}

/// Whether a file that is there may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and there is no trace.
    Keep,
    /// The trace takes its place.
    Replace,
}

/// A trace file that grows while the run goes on, so that it can be read at any time. Each block is
/// appended with one write: whoever dies in between leaves all blocks before whole. What is not
/// ended with [`end`](Self::end) reads as a trace whose writer died.
///
/// ```
/// use punctual_model::{Instant, JobId};
/// use punctual_observe::{Existing, Recorder, run_in_virtual_time};
/// use punctual_trace::{Event, Kind, Subject, SubjectKind};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("a.ptrace");
/// let mut recorder = Recorder::create(&path, &run_in_virtual_time(""), Existing::Keep)?;
/// recorder.subject(0, &Subject::new("audio", SubjectKind::Upcall))?;
/// let (at, job) = (Instant::from_nanos(5), JobId { task: 0, index: 0 });
/// recorder.events(&[Event { at, job, release: at, kind: Kind::Start }])?;
/// recorder.end(at)?;
/// assert!(Recorder::create(&path, &run_in_virtual_time(""), Existing::Keep).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: File,
    writer: Writer,
    /// Events of a sink that wait for others.
    pending: Vec<Event>,
    /// The first error of a sink, which cannot say it.
    failed: Option<io::Error>,
}

impl Recorder {
    /// Makes the file and writes what run it is of.
    ///
    /// # Errors
    /// [`RecordError`].
    pub fn create(path: &Path, run: &Run, existing: Existing) -> Result<Self, RecordError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        let file = match (options.open(path), existing) {
            (Err(error), Existing::Replace) if error.kind() == io::ErrorKind::AlreadyExists => {
                OpenOptions::new().write(true).truncate(true).open(path)
            }
            (opened, _) => opened,
        };
        let file = file.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => RecordError::IsThere { path: path.to_owned() },
            _ => RecordError::Write { path: path.to_owned(), error },
        })?;
        let (path, writer) = (path.to_owned(), Writer::new(run));
        let mut recorder = Self { path, file, writer, pending: Vec::new(), failed: None };
        recorder.append()?;
        Ok(recorder)
    }

    /// Events of number `number` are of this subject from here on.
    ///
    /// # Errors
    /// [`RecordError::Write`], as of all that follow.
    pub fn subject(&mut self, number: u32, subject: &Subject) -> Result<(), RecordError> {
        self.flush()?;
        self.writer.subject(number, subject);
        self.append()
    }

    /// These events happened, in the order of their instants as far as one subject goes.
    ///
    /// # Errors
    /// [`RecordError::Write`].
    pub fn events(&mut self, events: &[Event]) -> Result<(), RecordError> {
        self.flush()?;
        self.writer.events(events);
        self.append()
    }

    /// So many events were lost since the last call, which was noticed at `at`. None: nothing is
    /// written.
    ///
    /// # Errors
    /// [`RecordError::Write`].
    pub fn lost(&mut self, at: Instant, events: u64) -> Result<(), RecordError> {
        self.flush()?;
        if events > 0 {
            self.writer.lost(Lost::new(at, events));
        }
        self.append()
    }

    /// A time constraint was asked for; to be said before the events of its job.
    ///
    /// # Errors
    /// [`RecordError::Write`].
    pub fn asked(&mut self, asked: &Asked) -> Result<(), RecordError> {
        self.flush()?;
        self.writer.asked(asked);
        self.append()
    }

    /// Why a job was late.
    ///
    /// # Errors
    /// [`RecordError::Write`].
    pub fn verdict(&mut self, verdict: &Verdict) -> Result<(), RecordError> {
        self.flush()?;
        self.writer.verdict(verdict);
        self.append()
    }

    /// What a [`Sink`] took goes into the file.
    ///
    /// # Errors
    /// [`RecordError::Write`].
    pub fn flush(&mut self) -> Result<(), RecordError> {
        if let Some(error) = self.failed.take() {
            return Err(self.refused(error));
        }
        if self.pending.is_empty() {
            return Ok(());
        }
        self.writer.events(&self.pending);
        self.pending.clear();
        self.append()
    }

    /// The run is over, and all that is known has been written.
    ///
    /// # Errors
    /// [`RecordError::Write`].
    pub fn end(mut self, at: Instant) -> Result<(), RecordError> {
        self.flush()?;
        self.writer.end(at);
        self.append()
    }

    fn append(&mut self) -> Result<(), RecordError> {
        let bytes = self.writer.take();
        if bytes.is_empty() {
            return Ok(());
        }
        self.file.write_all(&bytes).map_err(|error| self.refused(error))
    }

    fn refused(&self, error: io::Error) -> RecordError {
        RecordError::Write { path: self.path.clone(), error }
    }
}

/// Takes events one at a time and writes them in blocks; an error is told by the next call that can,
/// and nothing is taken after it.
impl Sink for Recorder {
    fn record(&mut self, event: Event) {
        if self.failed.is_some() {
            return;
        }
        self.pending.push(event);
        if self.pending.len() >= TOGETHER {
            self.writer.events(&self.pending);
            self.pending.clear();
            let bytes = self.writer.take();
            self.failed = self.file.write_all(&bytes).err();
        }
    }
}
