//! What is written of a simulated run beside the summary: slices for a viewer, a trace file, and the page that
//! `punctual report` makes of one.

use std::path::{Path, PathBuf};

use punctual_model::{HostProfile, Instant};
use punctual_observe::{Existing, Recorder, run_in_virtual_time};
use punctual_trace::{Event, Promise, Sink, Subject, SubjectKind};
use tempfile::NamedTempFile;

use super::entries::{Entry, Kind, OnCpu};
use super::options::Args;
use super::perfetto::Slices;
use crate::exit::Failure;
use crate::output::{self, NewFile};
use crate::report;
use crate::trace_file::refused;
use punctual::host::Stamp;

/// Each of them, if it was asked for.
pub(super) struct Traces {
    slices: Option<Slices>,
    file: Option<Recorder>,
    page: Option<Page>,
    /// Subjects of the trace file so far; those of the CPU that runs are the last of them.
    subjects: u32,
    /// The number of the first of those.
    first: u32,
    /// The latest instant of an event.
    latest: Instant,
}

impl Traces {
    /// Opens what `args` asks for, of a run under this contract.
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
        Ok(Self { slices, file, page, subjects: 0, first: 0, latest: Instant::ZERO })
    }

    /// The events that follow are of these entries, on `cpu`.
    pub(super) fn turn_to(&mut self, cpu: u16, on_cpu: &OnCpu) -> Result<(), Failure> {
        self.first = self.subjects;
        for entry in &on_cpu.entries {
            if let Some(file) = &mut self.file {
                file.subject(self.subjects, &subject(entry, cpu)).map_err(refused)?;
            }
            self.subjects += 1;
        }
        Ok(())
    }

    /// Something happened to the entry called `name`.
    pub(super) fn record(&mut self, cpu: u16, name: &str, event: Event) {
        self.latest = self.latest.max(event.at);
        if let Some(slices) = &mut self.slices {
            slices.record(cpu, name, event);
        }
        if let Some(file) = &mut self.file {
            let mut event = event;
            event.job.task += self.first;
            file.record(event);
        }
    }

    /// Completes all of them. Nothing was released after `until`; the contract was admitted on this host.
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

/// The page to be.
struct Page {
    file: NewFile,
    trace: Shown,
    title: String,
}

/// The trace that a page shows.
enum Shown {
    /// The one that was asked for, too.
    Asked(PathBuf),
    /// One beside the page, which goes with this value.
    Own(NamedTempFile),
}

impl Page {
    fn beside(path: &Path, args: &Args) -> Result<Self, Failure> {
        let file = NewFile::beside(path, args.trace.force)?;
        let trace = match args.trace.path() {
            Some(asked) => Shown::Asked(asked.to_owned()),
            None => Shown::Own(output::file_beside(path)?),
        };
        Ok(Self { file, trace, title: report::name_of(&args.contract) })
    }

    fn write(self, host: &HostProfile, stamp: &Stamp) -> Result<(), Failure> {
        let mut shown = report::read(match &self.trace {
            Shown::Asked(path) => path,
            Shown::Own(file) => file.path(),
        })?;
        shown.admit(host, &stamp.line());
        report::write(self.file, &shown.to_html(&self.title))
    }
}

fn subject(entry: &Entry, cpu: u16) -> Subject {
    let task = &entry.task;
    let (kind, relative_deadline) = match entry.kind {
        Kind::Task => (SubjectKind::Task, Some(task.relative_deadline())),
        Kind::Reservation => (SubjectKind::Reservation, Some(task.relative_deadline())),
        // It takes time from the tasks; whether its messages are late is seen elsewhere.
    };
    let promise = Promise {
        period: Some(task.min_inter_arrival()),
        relative_deadline,
        wcet: Some(task.wcet()),
    };
    Subject { promise, cpu: Some(cpu), ..Subject::new(task.name(), kind) }
}
