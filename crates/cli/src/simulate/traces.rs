//! Writes a simulated run, beside the summary, as slices for a viewer, as a trace file, and as the
//! page that `punctual report` makes of one.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use punctual::simulate::Watching;
use punctual_model::{HostProfile, Instant};
use punctual_observe::{Existing, Recorder, run_in_virtual_time};
use punctual_trace::{Event, Kind, Sink, Subject};
use serde::Serialize;
use tempfile::NamedTempFile;

use super::options::Args;
use crate::exit::Failure;
use crate::output::{self, NewFile};
use crate::report;
use crate::trace_file::refused;
use punctual::host::Stamp;

/// The outputs, each present if it was requested.
pub(super) struct Traces {
    slices: Option<Slices>,
    file: Option<Recorder>,
    page: Option<Page>,
    /// The number of subjects in the trace file so far; the last of them are those of the current
    /// CPU.
    subjects: u32,
    /// The number of the first subject of the current CPU.
    first: u32,
    /// The current CPU.
    cpu: u16,
    names: Vec<String>,
    /// The latest instant of an event.
    latest: Instant,
}

impl Traces {
    /// Opens the outputs that `args` requests, for a run of this contract.
    pub(super) fn of(args: &Args, contract: &str) -> Result<Self, Failure> {
        let slices = args.perfetto.as_deref();
        let slices = slices.map(|path| Slices::beside(path, args.trace.force)).transpose()?;
        let page = args.report.as_deref().map(|path| Page::beside(path, args)).transpose()?;
        let file = match &page {
            Some(Page { trace: Shown::Own(own), .. }) => {
                let run = run_in_virtual_time(contract);
                Some(Recorder::create(own.path(), &run, Existing::Replace).map_err(refused)?)
            }
            _ => args.trace.of_virtual_run(contract)?,
        };
        Ok(Self {
            slices,
            file,
            page,
            subjects: 0,
            first: 0,
            cpu: 0,
            names: Vec::new(),
            latest: Instant::ZERO,
        })
    }

    /// Completes all outputs. No job was released after `until`; the contract was admitted for this
    /// host.
    pub(super) fn finish(
        self,
        until: Instant,
        host: &HostProfile,
        stamp: &Stamp,
    ) -> Result<(), Failure> {
        if let Some(file) = self.file {
            file.end(self.latest.max(until)).map_err(refused)?;
        }
        if let Some(page) = self.page {
            page.write(host, stamp)?;
        }
        self.slices.map_or(Ok(()), Slices::finish)
    }
}

impl Watching for Traces {
    fn turn_to(&mut self, cpu: u16, subjects: &[Subject]) -> Result<(), Failure> {
        (self.first, self.cpu) = (self.subjects, cpu);
        self.names = subjects.iter().map(|subject| subject.name.clone()).collect();
        for subject in subjects {
            if let Some(file) = &mut self.file {
                file.subject(self.subjects, subject).map_err(refused)?;
            }
            self.subjects += 1;
        }
        Ok(())
    }
}

impl Sink for Traces {
    fn record(&mut self, event: Event) {
        self.latest = self.latest.max(event.at);
        if let Some(slices) = &mut self.slices {
            slices.record(self.cpu, &self.names[event.job.task as usize], event);
        }
        if let Some(file) = &mut self.file {
            let mut event = event;
            event.job.task += self.first;
            file.record(event);
        }
    }
}

/// A page about to be written.
struct Page {
    file: NewFile,
    trace: Shown,
    title: String,
}

/// The trace that a page shows.
enum Shown {
    /// The trace file that the user requested too.
    Requested(PathBuf),
    /// A temporary file beside the page, deleted with this value.
    Own(NamedTempFile),
}

impl Page {
    fn beside(path: &Path, args: &Args) -> Result<Self, Failure> {
        let file = NewFile::beside(path, args.trace.force)?;
        let trace = match args.trace.path() {
            Some(asked) => Shown::Requested(asked.to_owned()),
            None => Shown::Own(output::file_beside(path)?),
        };
        Ok(Self { file, trace, title: report::name_of(&args.contract) })
    }

    fn write(self, host: &HostProfile, stamp: &Stamp) -> Result<(), Failure> {
        let mut shown = report::read(match &self.trace {
            Shown::Requested(path) => path,
            Shown::Own(file) => file.path(),
        })?;
        shown.admit(host, &stamp.line());
        report::write(self.file, &shown.to_html(&self.title))
    }
}

/// Writes the schedule during the run in the trace-event JSON that the Perfetto viewer opens. Each
/// CPU is a process (all CPUs share one where tasks migrate), each task a track, and each stretch
/// of execution of a job a slice.
struct Slices {
    file: BufWriter<NewFile>,
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

impl Slices {
    /// Opens a file beside `path`, which takes its place when it is complete.
    fn beside(path: &Path, force: bool) -> Result<Self, Failure> {
        let file = BufWriter::new(NewFile::beside(path, force)?);
        let mut slices = Self { file, since: Vec::new(), first: true, error: None };
        slices.write(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        Ok(slices)
    }

    fn record(&mut self, cpu: u16, name: &str, event: Event) {
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
            self.error = serde_json::to_writer(&mut self.file, &slice).err().map(io::Error::from);
        }
        self.first = false;
    }

    /// Puts the complete file in its place.
    fn finish(mut self) -> Result<(), Failure> {
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
