//! Writes the trace file of a run, the driver's side of [`punctual_trace::file`], and describes the
//! run in it: the command, the host, the clock.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use punctual_linux::{clock, host};
use punctual_model::Instant;
use punctual_trace::cause::Verdict;
use punctual_trace::constraint::ConstraintRequest;
use punctual_trace::file::{Lost, Run, Writer};
use punctual_trace::{Event, Sink, Subject};
use thiserror::Error;

/// The number of a sink's events that are written together: a block of a few dozen KiB.
const TOGETHER: usize = 1 << 13;

/// The reason there is no trace, or no more of it.
#[derive(Debug, Error)]
pub enum RecordError {
    /// A file of that name exists, and may not be overwritten.
    #[error("{}: there is a file of this name; choose another, or overwrite it", .path.display())]
    IsThere {
        /// The file.
        path: PathBuf,
    },
    /// The file system returned an error.
    #[error("{}: the trace cannot be written: {error}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

/// The treatment of a file that exists already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Keep it, and write no trace.
    Keep,
    /// Replace it.
    Replace,
}

/// A trace file that grows during the run, so that it can be read at any time. Each block is
/// appended with one write: if the process dies, all earlier blocks are complete. A file without
/// [`end`](Self::end) reads as a trace whose writer died.
///
/// ```
/// use punctual_model::{Instant, JobId};
/// use punctual_runtime::recording::{Existing, Recorder, run_in_virtual_time};
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
    /// Events of the sink that are not written yet.
    pending: Vec<Event>,
    /// The first error of the sink, which cannot return it.
    failed: Option<io::Error>,
}

impl Recorder {
    /// Makes the file and writes the description of the run.
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

    /// Assigns a subject to events of number `number` from now on.
    ///
    /// # Errors
    /// [`RecordError::Write`], as for all methods below.
    pub fn subject(&mut self, number: u32, subject: &Subject) -> Result<(), RecordError> {
        self.flush()?;
        self.writer.subject(number, subject);
        self.append()
    }

    /// Writes events; those of one subject must be ordered by time.
    ///
    /// # Errors
    /// [`RecordError::Write`].
    pub fn events(&mut self, events: &[Event]) -> Result<(), RecordError> {
        self.flush()?;
        self.writer.events(events);
        self.append()
    }

    /// Writes that `events` events were lost since the last call, which was noticed at `at`. Writes
    /// nothing if there are none.
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

    /// Writes a requested time constraint; call it before the events of its job.
    ///
    /// # Errors
    /// [`RecordError::Write`].
    pub fn request(&mut self, request: &ConstraintRequest) -> Result<(), RecordError> {
        self.flush()?;
        self.writer.request(request);
        self.append()
    }

    /// Writes the verdict on a late job.
    ///
    /// # Errors
    /// [`RecordError::Write`].
    pub fn verdict(&mut self, verdict: &Verdict) -> Result<(), RecordError> {
        self.flush()?;
        self.writer.verdict(verdict);
        self.append()
    }

    /// Writes the events taken as a [`Sink`].
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

    /// Writes the end of the run, after everything known about it.
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

/// Takes events one at a time and writes them in blocks. The next call that can return an error
/// returns it; no event is taken after it.
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

/// Describes this process's live run: instants are of CLOCK_MONOTONIC. `contract` is the text as
/// its author wrote it, empty if there is none.
///
/// ```
/// let run = punctual_runtime::recording::run_here("[system]\n");
/// assert!(run.live && run.epoch_unix_ns > 0);
/// ```
pub fn run_here(contract: &str) -> Run {
    #[allow(clippy::disallowed_methods, reason = "the wall clock is what is asked for")]
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Until the year 2262.
    let now = i64::try_from(since_1970.as_nanos()).unwrap_or(i64::MAX);
    let epoch_unix_ns = now.saturating_sub_unsigned(clock::now().as_nanos());
    Run { live: true, epoch_unix_ns, ..run_in_virtual_time(contract) }
}

/// Describes this process's run in virtual time: instants count from its beginning.
///
/// ```
/// let run = punctual_runtime::recording::run_in_virtual_time("");
/// assert!(!run.live && !run.host.is_empty());
/// ```
pub fn run_in_virtual_time(contract: &str) -> Run {
    Run {
        live: false,
        epoch_unix_ns: 0,
        command: command_line(),
        host: facts(),
        contract: contract.to_owned(),
    }
}

/// Returns the command line as it would be typed, with words quoted that contain blanks.
fn command_line() -> String {
    let quoted = |word: std::ffi::OsString| {
        let word = word.to_string_lossy().into_owned();
        let is_plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '\'');
        if is_plain { word } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let mut words = std::env::args_os();
    // The directory of the program is private.
    let program = words.next().unwrap_or_default();
    let program = std::path::Path::new(&program).file_name().unwrap_or_default().to_owned();
    std::iter::once(program).chain(words).map(quoted).collect::<Vec<_>>().join(" ")
}

fn facts() -> Vec<String> {
    let machine = host::machine();
    let mut facts = vec![
        format!("kernel {}", machine.kernel_release),
        format!("build {}", machine.kernel_version),
        format!("processor {}", host::identity().cpu_model),
        format!("{} CPUs online", machine.cpus_online),
    ];
    facts.extend(machine.preemption.map(|how| format!("preemption {how}")));
    if let host::Virtualisation::Under(name) = machine.virtualisation {
        facts.push(format!("hypervisor {name}"));
    }
    if let Some((_, governor)) = machine.governors.first() {
        facts.push(format!("frequency governor {governor}"));
    }
    facts.push(match host::throttling() {
        Some(throttling) => format!("real-time throttling {throttling:?}"),
        None => "real-time throttling unknown".to_owned(),
    });
    facts
}
