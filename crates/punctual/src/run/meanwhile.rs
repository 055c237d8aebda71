//! The work beside running programs: receives the broker's events, keeps CPUs from halting, and
//! writes the trace.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Child;

use punctual_client::wire::Event as GrantEvent;
use punctual_client::{Broker, ClientError, Granted, RequestError, Spawned};
use punctual_linux::awake::Awake;
use punctual_linux::{clock, thread};
use punctual_model::command::Backend;
use punctual_model::{Duration, Instant, Reservation};
use punctual_runtime::reservation::Reservations;
use punctual_trace::{Event, Promise, Subject, SubjectKind};

use super::start::Running;
use super::{GrantNews, Notice, Observer};
use crate::Failure;
use crate::trace::{Beside, RecordError, Recorder};

/// The interval between attempts to find a broker that is gone, and the longest wait for its
/// answer. Both are well within the grace period that a broker gives (5 s unless configured).
const AGAIN: Duration = Duration::from_secs(1);
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);

/// A grant of the broker while its program runs.
pub(super) struct GrantWatch {
    /// The program's name, if it has one.
    name: Option<String>,
    path: PathBuf,
    /// `None` while the broker is gone.
    broker: Option<Broker>,
    look_again: Instant,
    granted: Granted,
    reservation: Reservation,
    revoked: Option<(Instant, String)>,
}

impl GrantWatch {
    /// Splits the answer of the broker at `path` into the program and the connection for events of
    /// its grant.
    pub(super) fn of(
        spawned: Spawned,
        name: Option<&str>,
        path: PathBuf,
        reservation: Reservation,
    ) -> (Child, Self) {
        let Spawned { child, broker, granted } = spawned;
        let (broker, look_again, revoked) = (Some(broker), clock::now(), None);
        let name = name.map(str::to_owned);
        (child, Self { name, path, broker, look_again, granted, reservation, revoked })
    }

    /// Returns the time and the reason of the revocation, if there was one.
    pub(super) fn revoked(&self) -> Option<&(Instant, String)> {
        self.revoked.as_ref()
    }

    /// Passes on the events that have arrived. If the broker is gone, it looks for its successor
    /// and goes on with that.
    pub(super) fn poll(&mut self, observer: &mut Observer<'_>) {
        if self.revoked.is_some() {
            return;
        }
        let mut events = Vec::new();
        let grant = self.granted.id();
        match &mut self.broker {
            Some(broker) => {
                let polled = broker.events(|of, event| {
                    if of == Some(grant) {
                        events.push(event);
                    }
                });
                if polled.is_err() {
                    self.broker = None;
                    self.look_again = clock::now();
                }
            }
            None if clock::now() >= self.look_again => events.extend(self.find_again()),
            None => {}
        }
        for event in events {
            if let GrantEvent::Revoked { why } = &event {
                self.revoked = Some((clock::now(), why.clone()));
            }
            let (command, reservation) = (self.name.as_deref(), self.reservation);
            observer(&Notice::Grant(GrantNews { command, grant, reservation, event: &event }));
        }
    }

    /// Asks the successor of a broker that is gone. The grant is over if the successor answers and
    /// does not know it.
    fn find_again(&mut self) -> Option<GrantEvent> {
        self.look_again = clock::now() + AGAIN;
        let mut broker = Broker::connect_within(&self.path, PATIENCE).ok()?;
        match broker.resume(&mut self.granted) {
            Ok(()) => {
                self.broker = Some(broker);
                None
            }
            Err(RequestError::Client(ClientError::Broker(why))) => {
                Some(GrantEvent::Revoked { why })
            }
            Err(_) => None,
        }
    }
}

/// CPUs that are kept from halting; `None` if that was not requested.
pub(super) struct KeptAwake(Option<Awake>);

impl KeptAwake {
    /// Begins with all CPUs that this process may use, because the CPUs of the programs are not
    /// known yet. It comes before any start, so that a refusal leaves nothing behind.
    pub(super) fn start(asked: bool) -> Result<Self, Failure> {
        let start = || Awake::start(&thread::affinity());
        asked.then(start).transpose().map(Self).map_err(|why| {
            Failure::cannot_here(format!(
                "the CPUs cannot be kept from halting: {why}; leave --awake out"
            ))
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
            observer(&Notice::KernelUntraced);
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
