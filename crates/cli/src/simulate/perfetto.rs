//! Who ran when, in the trace-event JSON that the Perfetto viewer opens: a process a CPU (one for all
//! where tasks move between them), a track a task, a slice for each stretch that a job ran. Written as it happens.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use punctual_model::Instant;
use punctual_trace::{Event, Kind};
use serde::Serialize;
use tempfile::NamedTempFile;

use crate::exit::Failure;
use crate::output;

/// A trace being written.
pub(super) struct Slices {
    path: PathBuf,
    /// Whether it may take the place of another file.
    force: bool,
    file: BufWriter<NamedTempFile>,
    /// Since when the job of each task that runs does so; one run at a time is written.
    since: Vec<Instant>,
    first: bool,
    /// The first error of writing; what follows is not written.
    error: Option<io::Error>,
}

/// One complete event ("X"); times in microseconds.
#[derive(Serialize)]
struct Slice<'a> {
    name: &'a str,
    ph: &'static str,
    pid: u16,
    tid: u32,
    ts: f64,
    dur: f64,
    args: Job,
}

#[derive(Serialize)]
struct Job {
    job: u64,
    release_ns: u64,
    ends: &'static str,
}

impl Slices {
    /// Opens a file beside `path`, which gets its place when it is whole.
    pub(super) fn beside(path: &Path, force: bool) -> Result<Self, Failure> {
        if !force && path.symlink_metadata().is_ok() {
            return Err(in_the_way(path));
        }
        let file = BufWriter::new(output::file_beside(path)?);
        let mut slices = Self {
            path: path.to_owned(),
            force,
            file,
            since: Vec::new(),
            first: true,
            error: None,
        };
        slices.write(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        Ok(slices)
    }

    pub(super) fn record(&mut self, cpu: u16, name: &str, event: Event) {
        let task = event.job.task as usize;
        if self.since.len() <= task {
            self.since.resize(task + 1, Instant::ZERO);
        }
        let since = self.since[task];
        let ends = match event.kind {
            Kind::Start | Kind::Resume => {
                self.since[task] = event.at;
                return;
            }
            // Said beside the job's slices, which they do not end.
            Kind::Overrun { .. }
            | Kind::Skip { .. }
            | Kind::Replenish { .. }
            | Kind::Throttle { .. }
            | Kind::Unthrottle => return,
            Kind::GiveWay => "gives way",
            Kind::Complete => "complete",
            Kind::Abort => "aborted",
            Kind::Contained => "contained",
        };
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        let slice = Slice {
            name,
            ph: "X",
            pid: cpu,
            tid: event.job.task,
            ts: micros(since.as_nanos()),
            dur: micros((event.at - since).as_nanos()),
            args: Job { job: event.job.index, release_ns: event.release.as_nanos(), ends },
        };
        // Cannot fail: no map with keys that are not text, no writer.
        let text = serde_json::to_string(&slice).unwrap_or_default();
        self.write(if self.first { b"\n" } else { b",\n" });
        self.write(text.as_bytes());
        self.first = false;
    }

    /// Puts the whole file in its place.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.write(b"\n]}\n");
        let Self { path, force, file, error, .. } = self;
        let refuse = |error: &dyn std::fmt::Display| {
            Failure::cannot_here(format!("{}: cannot be written: {error}", path.display()))
        };
        if let Some(error) = error {
            return Err(refuse(&error));
        }
        let file = file.into_inner().map_err(|error| refuse(&error))?;
        output::settle(&file).map_err(|error| refuse(&error))?;
        let placed = if force { file.persist(&path) } else { file.persist_noclobber(&path) };
        placed.map(|_| ()).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => in_the_way(&path),
            _ => refuse(&error),
        })
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.file.write_all(bytes).err();
        }
    }
}

fn in_the_way(path: &Path) -> Failure {
    let path = path.display();
    Failure::bad_input(format!(
        "{path}: there is a file of this name; choose another, or overwrite it with --force"
    ))
}
