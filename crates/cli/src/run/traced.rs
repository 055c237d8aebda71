//! The trace of programs that run: the slots that their timetables give them.

use std::collections::BTreeMap;

use punctual_model::Instant;
use punctual_model::command::Backend;
use punctual_observe::Recorder;
use punctual_runtime::reservation::Reservations;
use punctual_trace::{Event, Promise, Subject, SubjectKind};

use super::start::Running;
use crate::exit::Failure;
use crate::trace_file::Beside;

/// Where the events go, if anywhere.
pub(super) struct Traced {
    file: Beside,
    timetables: Vec<Reservations>,
    /// Subjects of the file so far.
    subjects: u32,
    /// The subject of each reservation that is told of, by its number there, and since when its program
    /// could use it.
    numbers: BTreeMap<u32, (u32, Instant)>,
}

impl Traced {
    pub(super) fn new(recorder: Option<Recorder>) -> Self {
        let (timetables, numbers) = (Vec::new(), BTreeMap::new());
        let file = Beside::new(recorder, "the programs");
        Self { file, timetables, subjects: 0, numbers }
    }

    /// Whether there is anything to do while programs run.
    pub(super) fn is_on(&self) -> bool {
        self.file.is_on()
    }

    /// This program is held; where the kernel holds it nobody tells how. Returns whether somebody does.
    pub(super) fn started(&mut self, name: &str, running: &Running) -> bool {
        let Some(terms) = &running.terms else { return true };
        let period = Some(terms.reservation.period());
        let told = running.held.as_ref().filter(|_| terms.choice.backend == Backend::Timetable);
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
        self.file.write(|recorder| recorder.subject(number, &subject));
        told.is_some()
    }

    /// From these the events come.
    pub(super) fn follow(&mut self, timetables: Vec<Reservations>) {
        self.timetables = timetables;
    }

    /// Writes what happened since the last call.
    pub(super) fn turn(&mut self) {
        if !self.is_on() {
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
        self.file.events(&events, lost);
    }

    /// All programs have ended.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        self.turn();
        self.file.end()
    }
}

/// What the trace does not tell, said once.
pub(super) const UNTOLD: &str = "the kernel does not tell when it throttles: the trace has nothing of \
                                 that; punctual why --trace sees it";
