//! The trace of programs that run: the slots that their timetables give them.

use std::collections::BTreeMap;

use punctual_linux::clock;
use punctual_model::Instant;
use punctual_model::command::Backend;
use punctual_observe::{RecordError, Recorder};
use punctual_runtime::reservation::Reservations;
use punctual_trace::{Event, Promise, Subject, SubjectKind};

use super::start::Running;
use crate::exit::Failure;
use crate::trace_file::refused;

/// Where the events go, if anywhere. An error of writing ends the trace, not the programs.
pub(super) struct Traced {
    recorder: Option<Recorder>,
    timetables: Vec<Reservations>,
    lost: u64,
    /// Subjects of the file so far.
    subjects: u32,
    /// The subject of each reservation that is told of, by its number there, and since when its program
    /// could use it.
    numbers: BTreeMap<u32, (u32, Instant)>,
    failed: Option<RecordError>,
}

impl Traced {
    pub(super) fn new(recorder: Option<Recorder>) -> Self {
        let (timetables, numbers) = (Vec::new(), BTreeMap::new());
        Self { recorder, timetables, lost: 0, subjects: 0, numbers, failed: None }
    }

    /// Whether there is anything to do while programs run.
    pub(super) fn is_on(&self) -> bool {
        self.recorder.is_some()
    }

    /// This program is held; where the kernel holds it nobody tells how. Returns whether somebody does.
    pub(super) fn started(&mut self, name: &str, running: &Running) -> bool {
        let Some(terms) = &running.terms else { return true };
        let period = Some(terms.reservation.period());
        let told = running.held.as_ref().filter(|_| terms.backend == Backend::Timetable);
        let number = self.subjects;
        self.subjects += 1;
        self.numbers.extend(told.map(|held| (held.task(), (number, running.since))));
        let subject = Subject {
            promise: Promise {
                period,
                relative_deadline: period,
                wcet: Some(terms.reservation.budget()),
            },
            thread: told.is_none().then(|| running.child.id()),
            cpu: terms.cpu.and_then(|cpu| u16::try_from(cpu).ok()),
            ..Subject::new(name, SubjectKind::Reservation)
        };
        self.write(|recorder| recorder.subject(number, &subject));
        told.is_some()
    }

    /// From these the events come.
    pub(super) fn follow(&mut self, timetables: Vec<Reservations>) {
        self.timetables = timetables;
    }

    /// Writes what happened since the last call.
    pub(super) fn turn(&mut self) {
        if self.recorder.is_none() {
            return;
        }
        let mut events: Vec<Event> = Vec::new();
        let mut lost = 0;
        for timetable in &self.timetables {
            timetable.drain(|mut event| {
                if let Some((number, since)) = self.numbers.get(&event.job.task)
                    && event.release >= *since
                {
                    event.job.task = *number;
                    events.push(event);
                }
            });
            lost += timetable.events_lost();
        }
        let more = lost - self.lost;
        self.lost = lost;
        self.write(|recorder| {
            recorder.events(&events)?;
            recorder.lost(clock::now(), more)
        });
    }

    /// All programs have ended.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.turn();
        if let Some(recorder) = self.recorder.take() {
            self.failed = recorder.end(clock::now()).err();
        }
        self.failed.map_or(Ok(()), |error| Err(refused(error)))
    }

    fn write(&mut self, with: impl FnOnce(&mut Recorder) -> Result<(), RecordError>) {
        if let Some(recorder) = &mut self.recorder
            && let Err(error) = with(recorder)
        {
            super::say(&format!("punctual: {error}; the programs go on without a trace"));
            (self.recorder, self.failed) = (None, Some(error));
        }
    }
}

/// What the trace does not tell, said once.
pub(super) const UNTOLD: &str = "the kernel does not tell when it throttles: the trace has nothing of \
                                 that; punctual why --trace sees it";
