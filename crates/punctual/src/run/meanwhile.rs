//! What goes on beside the programs: the broker is listened to, CPUs are kept from halting, the trace is written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Child;

use punctual_client::wire::Event as Said;
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

/// Before a broker that is gone is looked for again, and how long its answer is waited for: both well
/// within the grace that a broker gives (5 s unless configured).
const AGAIN: Duration = Duration::from_secs(1);
const PATIENCE: std::time::Duration = std::time::Duration::from_millis(500);

/// A grant of the broker while its program runs.
pub(super) struct Told {
    /// The program's name, if it has one.
    name: Option<String>,
    path: PathBuf,
    /// None while the broker is gone.
    broker: Option<Broker>,
    look_again: Instant,
    granted: Granted,
    reservation: Reservation,
    revoked: Option<(Instant, String)>,
}

impl Told {
    /// Takes apart what the broker at `path` gave: the program, and what is said of it from here on.
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

    /// Returns when the reservation was taken back, and why, if it was.
    pub(super) fn revoked(&self) -> Option<&(Instant, String)> {
        self.revoked.as_ref()
    }

    /// Passes on what has come. Looks for a broker that is gone, and goes on with its successor.
    pub(super) fn hear(&mut self, observer: &mut Observer<'_>) {
        if self.revoked.is_some() {
            return;
        }
        let mut events = Vec::new();
        let grant = self.granted.id();
        match &mut self.broker {
            Some(broker) => {
                let heard = broker.events(|of, event| {
                    if of == Some(grant) {
                        events.push(event);
                    }
                });
                if heard.is_err() {
                    self.broker = None;
                    self.look_again = clock::now();
                }
            }
            None if clock::now() >= self.look_again => events.extend(self.find_again()),
            None => {}
        }
        for event in events {
            if let Said::Revoked { why } = &event {
                self.revoked = Some((clock::now(), why.clone()));
            }
            let (command, reservation) = (self.name.as_deref(), self.reservation);
            observer(&Notice::Grant(GrantNews { command, grant, reservation, event: &event }));
        }
    }

    /// Asks the successor of a broker that is gone: the grant is over if it answers and does not know it.
    fn find_again(&mut self) -> Option<Said> {
        self.look_again = clock::now() + AGAIN;
        let mut broker = Broker::connect_within(&self.path, PATIENCE).ok()?;
        match broker.resume(&mut self.granted) {
            Ok(()) => {
                self.broker = Some(broker);
                None
            }
            Err(RequestError::Client(ClientError::Broker(why))) => Some(Said::Revoked { why }),
            Err(_) => None,
        }
    }
}

/// CPUs that are kept from halting; none if that is not asked for.
pub(super) struct KeptAwake(Option<Awake>);

impl KeptAwake {
    /// Begins with all CPUs that this process may use, because it is not known yet which the programs are held on.
    /// Before anything is started, so that a refusal leaves nothing behind.
    pub(super) fn start(asked: bool) -> Result<Self, Failure> {
        let start = || Awake::start(&thread::affinity());
        asked.then(start).transpose().map(Self).map_err(|why| {
            Failure::cannot_here(format!(
                "the CPUs cannot be kept from halting: {why}; leave --awake out"
            ))
        })
    }

    /// Lets the others halt again, and tells which do not.
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

    /// Lets all halt. Returns which did not.
    pub(super) fn end(self) -> Vec<usize> {
        self.0.map_or_else(Vec::new, |awake| awake.cpus())
    }
}

/// Returns the CPUs that programs are on, which run on one CPU each; none: all. The threads that carry a channel
/// are the broker's, on whichever CPU the kernel puts them.
fn needed(on: impl IntoIterator<Item = Option<usize>>, has_channel: bool) -> Option<Vec<usize>> {
    if has_channel { None } else { on.into_iter().collect() }
}

/// The trace of programs that run: the slots that their timetables give them, if they are written anywhere.
pub(super) struct Traced {
    file: Beside,
    timetables: Vec<Reservations>,
    /// Subjects of the file so far.
    subjects: u32,
    /// The subject of each reservation whose slots are known, by its number there, and since when its program
    /// could use it.
    numbers: BTreeMap<u32, (u32, Instant)>,
    /// Whether the slots of every program that is held are known.
    is_complete: bool,
}

impl Traced {
    pub(super) fn new(recorder: Option<Recorder>) -> Self {
        let (timetables, numbers) = (Vec::new(), BTreeMap::new());
        let file = Beside::new(recorder);
        Self { file, timetables, subjects: 0, numbers, is_complete: true }
    }

    /// Returns whether there is anything to do while programs run.
    pub(super) fn is_on(&self) -> bool {
        self.file.is_on()
    }

    /// Names a program that was started. Where the kernel holds it, its slots are not known.
    pub(super) fn started(&mut self, name: &str, running: &Running, observer: &mut Observer<'_>) {
        let Some(terms) = &running.terms else { return };
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
        self.is_complete &= told.is_some();
        tell(self.file.write(|recorder| recorder.subject(number, &subject)), observer);
    }

    /// Takes the events of these timetables from here on, and tells if something will be missing.
    pub(super) fn follow(&mut self, timetables: Vec<Reservations>, observer: &mut Observer<'_>) {
        self.timetables = timetables;
        if self.is_on() && !self.is_complete {
            observer(&Notice::KernelUntraced);
        }
    }

    /// Writes what happened since the last call.
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

    /// Ends the file: all programs have ended.
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
