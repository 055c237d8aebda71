//! The work beside running programs: keeps CPUs from halting, and writes the trace.

use std::collections::BTreeMap;

use punctual_linux::awake::Awake;
use punctual_linux::thread;
use punctual_model::Instant;
use punctual_model::command::Backend;
use punctual_runtime::reservation::Reservations;
use punctual_trace::{Event, Promise, Subject, SubjectKind};

use super::notice::{Notice, Observer};
use super::start::Running;
use crate::trace::{Beside, RecordError, Recorder};
use crate::{Failure, Remedy};

/// CPUs that are kept from halting; `None` if that was not requested.
pub(super) struct KeptAwake(Option<Awake>);

impl KeptAwake {
    /// Begins with all CPUs that this process may use, because the CPUs of the programs are not
    /// known yet. It comes before any start, so that a refusal leaves nothing behind.
    pub(super) fn start(asked: bool) -> Result<Self, Failure> {
        let start = || Awake::start(&thread::affinity());
        asked.then(start).transpose().map(Self).map_err(|why| {
            Failure::cannot_here(format!(
                "the CPUs cannot be kept from halting: {why}; run without that"
            ))
            .with(Remedy::LetHalt)
        })
    }

    /// Lets the other CPUs halt again, and notifies the observer of those that do not halt.
    pub(super) fn keep_for(
        &mut self,
        on: impl IntoIterator<Item = Option<usize>>,
        has_channel: bool,
        observer: &mut Observer<'_>,
    ) {
        let Some(awake) = &mut self.0 else { return };
        if let Some(cpus) = needed(on, has_channel) {
            awake.keep_only(&cpus);
        }
        observer(&Notice::Awake { cpus: &awake.cpus(), gives_way: awake.gives_way_to_all() });
    }

    /// Lets all CPUs halt again. Returns those that were kept from halting.
    pub(super) fn end(self) -> Vec<usize> {
        self.0.map_or_else(Vec::new, |awake| awake.cpus())
    }
}

/// Returns the CPUs of programs that run on one CPU each; `None` if all CPUs are needed. The
/// threads that carry a channel belong to the broker, and the kernel may put them on any CPU.
fn needed(on: impl IntoIterator<Item = Option<usize>>, has_channel: bool) -> Option<Vec<usize>> {
    if has_channel { None } else { on.into_iter().collect() }
}

/// The trace of running programs: the slots of their timetables, if a trace is written.
pub(super) struct Traced {
    file: Beside,
    timetables: Vec<Reservations>,
    /// The number of subjects in the file so far.
    subjects: u32,
    /// For each reservation whose slots are known, by its number: its subject, and the time from
    /// which its program could use it.
    numbers: BTreeMap<u32, (u32, Instant)>,
    /// Whether the slots of every held program are known.
    is_complete: bool,
}

impl Traced {
    pub(super) fn new(recorder: Option<Recorder>) -> Self {
        let (timetables, numbers) = (Vec::new(), BTreeMap::new());
        let file = Beside::new(recorder);
        Self { file, timetables, subjects: 0, numbers, is_complete: true }
    }

    /// Returns whether a trace is being written.
    pub(super) fn is_on(&self) -> bool {
        self.file.is_on()
    }

    /// Adds a program that was started to the trace. If the kernel holds it, its slots are not
    /// known.
    pub(super) fn started(&mut self, name: &str, running: &Running, observer: &mut Observer<'_>) {
        let Some(terms) = &running.terms else { return };
        let period = Some(terms.reservation.period());
        let tabled = running.held.as_ref().filter(|_| terms.choice.backend == Backend::Timetable);
        let number = self.subjects;
        self.subjects += 1;
        self.numbers.extend(tabled.map(|held| (held.task(), (number, running.since))));
        let subject = Subject {
            promise: Promise {
                period,
                relative_deadline: period,
                wcet: Some(terms.reservation.budget()),
            },
            thread: tabled.is_none().then(|| running.child.id()),
            cpu: terms.cpu.and_then(|cpu| u16::try_from(cpu).ok()),
            ..Subject::new(name, SubjectKind::Reservation)
        };
        self.is_complete &= tabled.is_some();
        tell(self.file.write(|recorder| recorder.subject(number, &subject)), observer);
    }

    /// Takes the events of these timetables from now on, and notifies the observer if something
    /// will be missing.
    pub(super) fn follow(&mut self, timetables: Vec<Reservations>, observer: &mut Observer<'_>) {
        self.timetables = timetables;
        if self.is_on() && !self.is_complete {
            observer(&Notice::Untraced);
        }
    }

    /// Writes the events since the last call.
    pub(super) fn turn(&mut self, observer: &mut Observer<'_>) {
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
        tell(self.file.events(&events, lost), observer);
    }

    /// Ends the file, after all programs have ended.
    pub(super) fn end(mut self, observer: &mut Observer<'_>) {
        self.turn(observer);
        if let Err(failure) = self.file.end() {
            observer(&Notice::TraceFailed(&failure));
        }
    }
}

fn tell(stopped: Option<&RecordError>, observer: &mut Observer<'_>) {
    if let Some(error) = stopped {
        observer(&Notice::TraceStopped(error));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cpus_of_all_programs_are_needed_where_they_are_known() {
        assert_eq!(needed([Some(1)], false), Some(vec![1]));
        assert_eq!(needed([Some(1), Some(0)], false), Some(vec![1, 0]));
        assert_eq!(needed([Some(1), None], false), None);
        assert_eq!(needed([Some(1)], true), None);
    }

    #[test]
    fn nothing_is_kept_awake_unless_asked_for() {
        let mut none = KeptAwake::start(false).expect("does nothing");
        none.keep_for([Some(0)], false, &mut |notice| panic!("{notice:?}"));
        assert!(none.end().is_empty());
    }
}
