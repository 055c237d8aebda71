//! Writes a schedule as trace-event JSON, while it is simulated.

use std::io::{self, Write};

use punctual_model::Instant;
use punctual_trace::{Event, Kind};
use serde::Serialize;

/// Writes a schedule in the trace-event JSON that the Perfetto viewer opens. Each
/// CPU is a process (all CPUs share one where tasks migrate), each task a track, and each stretch
/// of execution of a job a slice.
#[derive(Debug)]
pub struct Slices<W> {
    out: W,
    /// The start of the current stretch of each task's running job. One run at a time is written.
    since: Vec<Instant>,
    first: bool,
    /// The first write error; nothing is written after it.
    error: Option<io::Error>,
}

/// One complete event ("X"), with times in microseconds.
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

impl<W: Write> Slices<W> {
    /// Begins to write to `out`. Errors are returned at the end.
    pub fn new(out: W) -> Self {
        let mut slices = Self { out, since: Vec::new(), first: true, error: None };
        slices.write(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        slices
    }

    /// Writes an event of a task, whose name is `name`, on a CPU.
    pub fn record(&mut self, cpu: u16, name: &str, event: Event) {
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
            // These occur within the job's slices and do not end them.
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
        self.write(if self.first { b"\n" } else { b",\n" });
        if self.error.is_none() {
            self.error = serde_json::to_writer(&mut self.out, &slice).err().map(io::Error::from);
        }
        self.first = false;
    }

    /// Ends the file and returns the output, and the first error of writing to it.
    pub fn finish(mut self) -> (W, io::Result<()>) {
        self.write(b"\n]}\n");
        let flushed = self.error.map_or_else(|| self.out.flush(), Err);
        (self.out, flushed)
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            self.error = self.out.write_all(bytes).err();
        }
    }
}
