//! Who ran when, in the trace-event JSON that the Perfetto viewer opens: a process a CPU (one for all
//! where tasks move between them), a track a task, a slice for each stretch that a job ran. Written as it happens.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use punctual_model::Instant;
use punctual_trace::{Event, Kind};
use serde::Serialize;

use crate::exit::Failure;
use crate::output::NewFile;

/// A trace being written.
pub(super) struct Slices {
    file: BufWriter<NewFile>,
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
        let file = BufWriter::new(NewFile::beside(path, force)?);
        let mut slices = Self { file, since: Vec::new(), first: true, error: None };
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
        let flushed = self.error.map_or_else(|| self.file.flush(), Err);
        flushed.map_err(|error| self.file.get_ref().refuse(&error))?;
        let (file, _) = self.file.into_parts();
        file.place()
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.file.write_all(bytes).err();
        }
    }
}
