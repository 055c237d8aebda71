//! The trace file of a live study: each service of the driver is a job.
//!
//! It is written after each call, from the records of its services, which cost two clock readings
//! in a thread, a softirq and a hard interrupt alike. The driver of a context is a separate subject
//! in each phase of the call, since its period changes with the phase.

use std::path::PathBuf;

use punctual_linux::clock;
use punctual_model::{Duration, Instant, JobId};
use punctual_modem::PERIOD;
use punctual_runtime::recording::{Existing, RecordError, Recorder, run_here};
use punctual_trace::{Event, Kind, Promise, Subject, SubjectKind};

use super::context::Place;
use super::record::Service;
use super::{Error, Run, library};

/// The options of a study that writes a trace.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct TraceArgs {
    /// Also write a trace of all services, for punctual why, report and export (docs/trace.md)
    #[arg(long = "trace", value_name = "FILE")]
    path: Option<PathBuf>,
    /// Overwrite the trace file if there is one
    #[arg(long, requires = "path")]
    force: bool,
}

impl TraceArgs {
    /// Creates the file, if one is requested: at once, so that a bad name is reported before
    /// minutes of calls.
    pub(super) fn begin(&self) -> Result<Traced, Error> {
        let existing = if self.force { Existing::Replace } else { Existing::Keep };
        let create = |path| Recorder::create(path, &run_here(""), existing);
        Ok(Traced { recorder: self.path.as_deref().map(create).transpose()?, subjects: 0 })
    }
}

/// The trace of the services, if there is one.
#[derive(Debug)]
pub struct Traced {
    recorder: Option<Recorder>,
    /// The number of subjects in the file so far.
    subjects: u32,
}

impl Traced {
    /// Writes the services of the integer core in one context.
    pub(super) fn core(&mut self, cpu: usize, run: &Run) -> Result<(), Error> {
        let phase_of =
            |service: &Service| run.plan.at(service.begin.saturating_since(run.served.start));
        let cpu = bound(run.context.place(), cpu);
        for services in run.served.services.chunk_by(|a, b| phase_of(a) == phase_of(b)) {
            let phase = &run.plan.phases()[phase_of(&services[0])];
            let name = format!("{}: {}", run.context.name(), phase.name);
            self.subject(name, cpu, phase.period(), services)?;
        }
        Ok(())
    }

    /// Writes the services of the library's modems in one call.
    pub(super) fn library(
        &mut self,
        name: String,
        place: Place,
        cpu: usize,
        served: &library::Served,
    ) -> Result<(), Error> {
        Ok(self.subject(name, bound(Some(place), cpu), PERIOD, &served.services)?)
    }

    /// Ends the trace after the last call.
    pub(super) fn end(self) -> Result<(), Error> {
        Ok(self.recorder.map_or(Ok(()), |recorder| recorder.end(clock::now()))?)
    }

    fn subject(
        &mut self,
        name: String,
        cpu: Option<u16>,
        period: Duration,
        services: &[Service],
    ) -> Result<(), RecordError> {
        let Some(recorder) = &mut self.recorder else { return Ok(()) };
        // If due times are unknown, so is the time between them.
        let is_told = services.iter().all(|service| service.due.is_some());
        let subject = Subject {
            promise: Promise {
                period: is_told.then_some(period),
                relative_deadline: Some(period),
                wcet: None,
            },
            cpu,
            ..Subject::new(name, SubjectKind::Upcall)
        };
        recorder.subject(self.subjects, &subject)?;
        recorder.events(&events(self.subjects, period, services))?;
        self.subjects += 1;
        Ok(())
    }
}

/// Returns the only CPU that the driver may run on. A reservation chooses its CPU by itself.
fn bound(place: Option<Place>, cpu: usize) -> Option<u16> {
    let is_reserved = matches!(place, Some(Place::Reserved(..)));
    u16::try_from(cpu).ok().filter(|_| !is_reserved)
}

/// Returns the events of services that were due every `period`.
///
/// A service is due to be complete when the next is due. A service that found samples lost is
/// aborted, because a part of its job could not be done. Interrupts between two services that have
/// none of their own are skipped. In a hard interrupt the due time of a service is unknown, so its
/// first instruction stands for it.
fn events(task: u32, period: Duration, services: &[Service]) -> Vec<Event> {
    let (mut index, mut events) = (0, Vec::with_capacity(2 * services.len()));
    for (service, next) in services.iter().zip(services.iter().skip(1).map(Some).chain([None])) {
        let release = service.due.unwrap_or(service.begin);
        let deadline = release + period;
        let mut tell = |at, index, release, kind| {
            events.push(Event { at, job: JobId { task, index }, release, kind });
        };
        tell(service.begin, index, release, Kind::Start);
        if service.end > deadline {
            tell(service.end, index, release, Kind::Overrun { jobs: 1 });
        }
        let is_whole = service.samples_lost == 0;
        tell(service.end, index, release, if is_whole { Kind::Complete } else { Kind::Abort });
        index += 1;
        let skipped = skipped(service.due, next.and_then(|next| next.due), period);
        if skipped > 0 {
            tell(service.end, index, deadline, Kind::Skip { jobs: skipped });
            index += skipped;
        }
    }
    events
}

/// Returns the number of interrupts that were due between two services.
fn skipped(due: Option<Instant>, next: Option<Instant>, period: Duration) -> u64 {
    let apart = due.zip(next).map_or(period, |(due, next)| next.saturating_since(due));
    (apart / period).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use punctual_trace::Sink;
    use punctual_trace::check::{Checker, Verdict};

    use super::*;

    const MS: Duration = Duration::from_millis(10);

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// Builds a service from its due time, first and last instruction in ms, and its lost samples.
    fn service(due: Option<u64>, begin: u64, end: u64, samples_lost: u64) -> Service {
        Service { due: due.map(at), begin: at(begin), end: at(end), samples_lost }
    }

    fn judged(services: &[Service]) -> (Vec<(u64, Kind)>, Verdict, u64) {
        let events = events(0, MS, services);
        let mut subject = Subject::new("driver", SubjectKind::Upcall);
        let period = services[0].due.map(|_| MS);
        subject.promise = Promise { period, relative_deadline: Some(MS), wcet: None };
        let mut checker = Checker::new();
        checker.subject(0, &subject);
        events.iter().for_each(|event| checker.record(*event));
        checker.end(at(1_000));
        let judged = checker.judge(0);
        assert_eq!(judged.too_early, 0);
        let kinds = events.iter().map(|event| (event.job.index, event.kind)).collect();
        (kinds, judged.verdict, judged.late)
    }

    #[test]
    fn services_in_time_are_jobs_that_are_complete() {
        let (kinds, verdict, _) =
            judged(&[service(Some(10), 11, 13, 0), service(Some(20), 20, 30, 0)]);
        assert_eq!(
            kinds,
            [(0, Kind::Start), (0, Kind::Complete), (1, Kind::Start), (1, Kind::Complete)]
        );
        assert_eq!(verdict, Verdict::Kept);
    }

    /// The first is late by 85 ms: the interrupts wait so long that samples are lost, and the next
    /// due service comes in time.
    #[test]
    fn late_services_skipped_interrupts_and_lost_samples_are_seen() {
        let (kinds, verdict, late) =
            judged(&[service(Some(10), 94, 105, 512), service(Some(110), 110, 112, 0)]);
        let expected = [
            (0, Kind::Start),
            (0, Kind::Overrun { jobs: 1 }),
            (0, Kind::Abort),
            (1, Kind::Skip { jobs: 9 }),
            (10, Kind::Start),
            (10, Kind::Complete),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(verdict, Verdict::Broken);
        // The one served, and those eight skipped that were due 10 ms before its end.
        assert_eq!(late, 9);
    }

    #[test]
    fn a_service_without_a_due_time_counts_from_its_beginning() {
        let services =
            [service(None, 10, 12, 0), service(None, 19, 21, 0), service(None, 40, 51, 0)];
        let (kinds, verdict, late) = judged(&services);
        assert_eq!(kinds.len(), 7);
        assert_eq!((verdict, late), (Verdict::Broken, 1));
    }
}
