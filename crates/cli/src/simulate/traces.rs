//! What is written of a simulated run beside the summary: slices for a viewer, and a trace file.

use punctual_model::Instant;
use punctual_observe::Recorder;
use punctual_trace::{Event, Promise, Sink, Subject, SubjectKind};

use super::entries::{Entry, Kind, OnCpu};
use super::options::Args;
use super::perfetto::Slices;
use crate::exit::Failure;
use crate::trace_file::refused;

/// Both, each if it was asked for.
pub(super) struct Traces {
    slices: Option<Slices>,
    file: Option<Recorder>,
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
        let file = args.trace.of_virtual_run(contract)?;
        Ok(Self { slices, file, subjects: 0, first: 0, latest: Instant::ZERO })
    }

    /// The events that follow are of these entries, on `cpu` if they stay there.
    pub(super) fn turn_to(&mut self, cpu: Option<u16>, on_cpu: &OnCpu) -> Result<(), Failure> {
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

    /// Both are whole. Nothing was released after `until`.
    pub(super) fn finish(self, until: Instant) -> Result<(), Failure> {
        if let Some(file) = self.file {
            file.end(self.latest.max(until)).map_err(refused)?;
        }
        self.slices.map_or(Ok(()), Slices::finish)
    }
}

fn subject(entry: &Entry, cpu: Option<u16>) -> Subject {
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
    Subject { promise, cpu, ..Subject::new(task.name(), kind) }
}
