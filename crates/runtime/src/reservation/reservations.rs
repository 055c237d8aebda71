//! Admitting reservations by timetable, on the first CPU where they fit.

use std::fs::File;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_analysis::Axis;
use punctual_linux::cgroup::freezer::Freezer;
use punctual_linux::process::{self, Guard};
use punctual_linux::sched;
use punctual_linux::thread::{self, Tid};
use punctual_model::reservation::Enforcement;
use punctual_model::{Instant, Reservation};
use punctual_policy::timetable::Turns;
use punctual_trace::Event;

use super::asked::{Log, Told};
use super::choose::{Backend, Choice, Facts, Kind, Unsuitable, Wish, choose, kind_of};
use super::error::{Refused, StartError};
use super::held::Held;
use super::lane::{Lane, locked};
use super::owner::{Hold, IN_SLOT};
use super::room::Room;
use super::settings::Settings;

/// Who holds a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One thread, of this process or another.
    Thread(Tid),
    /// A process by its id, with all its threads and children, those to come included. Not the one
    /// that asks: its dispatcher would be held too.
    Process(i32),
}

type Lanes = Vec<Arc<Mutex<Lane>>>;

/// The reservations that this process gives.
///
/// ```no_run
/// use std::process::Command;
/// use punctual_model::reservation::Enforcement;
/// use punctual_runtime::reservation::Reservations;
///
/// let reservations = Reservations::new()?;
/// let mut player = Command::new("aplay");
/// player.arg("song.wav");
/// let (mut child, held) =
///     reservations.spawn(&mut player, "2ms/8ms".parse()?, Enforcement::Hard)?;
/// println!("{}: {}", held.reservation(), held.choice().because);
/// child.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Reservations {
    settings: Arc<Settings>,
    facts: Arc<Facts>,
    guard: Arc<Guard>,
    lanes: Arc<Mutex<Lanes>>,
    asked: Log,
}

impl Reservations {
    /// On this thread's CPUs, as [`Settings::default`]. Probes the host and starts the guard; a CPU's
    /// dispatcher starts with its first reservation.
    ///
    /// # Errors
    /// If the guard cannot be started.
    pub fn new() -> Result<Self, StartError> {
        Self::with(Settings::default())
    }

    /// With other settings.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(settings: Settings) -> Result<Self, StartError> {
        let facts = Facts::probe(&settings);
        Self::on(facts, settings)
    }

    /// On a host of which this was found out, with these settings.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn on(facts: Facts, settings: Settings) -> Result<Self, StartError> {
        Ok(Self {
            asked: Log::new(settings.event_room),
            facts: Arc::new(facts),
            settings: Arc::new(settings),
            guard: Arc::new(Guard::start()?),
            lanes: Arc::default(),
        })
    }

    /// What was found out about the host.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What [`choose`] chooses here; of a timetable it says too how much longer its slots are made.
    pub(super) fn chosen(&self, wish: Wish) -> Result<Choice, Unsuitable> {
        let mut choice = choose(wish, &self.facts)?;
        if choice.backend == Backend::Timetable {
            choice.because = format!("{}; {}", choice.because, self.settings.allowance());
        }
        Ok(choice)
    }

    /// Reserves for a thread or a process that runs already, by timetable. It may be on the CPU of
    /// that timetable only, as long as it is held.
    ///
    /// # Errors
    /// A [`Refused`]; then nothing was changed. [`Unsuitable::OwnProcess`] for the calling process as
    /// a whole.
    pub fn admit(
        &self,
        reservation: Reservation,
        subject: Subject,
        enforcement: Enforcement,
    ) -> Result<Held, Refused> {
        let (kind, pid, tid) = match subject {
            Subject::Process(pid) => {
                not_our_own(pid)?;
                (Kind::Process, pid, None)
            }
            Subject::Thread(tid) => {
                let (kind, pid) = kind_of(tid).ok_or(Refused::Gone)?;
                (kind, pid, Some(tid))
            }
        };
        // Only asked for the timetable: the kernel's own is for the calling thread, in `Reserved`.
        let wish = Wish { reservation, kind, enforcement, cpu: None, exact: true };
        let choice = self.chosen(wish)?;
        let members = tid.map_or_else(|| process::threads_of(pid), |tid| vec![tid]);
        let first = members.first().copied().ok_or(Refused::Gone)?;
        let reserved = |thread: &Tid| {
            sched::get(*thread).is_ok_and(|now| now.policy_name() == "SCHED_DEADLINE")
        };
        if let Some(thread) = members.iter().copied().find(reserved) {
            return Err(Refused::AlreadyReserved { thread });
        }
        let cpus = thread::affinity_of(first);
        let lane = self.lane_for(reservation, &cpus)?;
        let own = u32::try_from(pid) == Ok(std::process::id());
        let hold = match tid {
            Some(tid) if own && enforcement == Enforcement::Soft => {
                let alive = File::open(format!("/proc/{pid}/task/{tid}/comm"))?;
                Hold::Thread { tid, alive }
            }
            Some(tid) => {
                Hold::Group { freezer: Freezer::of_thread(pid, tid.as_raw())?, enforcement }
            }
            None => Hold::Group { freezer: Freezer::of_process(pid)?, enforcement },
        };
        let mut held = self.hold(Arc::clone(&lane), hold, tid.is_some(), choice, cpus)?;
        held.pin()?;
        held.join(Room::of(&lane, reservation)?);
        Ok(held)
    }

    /// Starts a program under a reservation: from its first instruction on, with everything that it
    /// makes. `command` is good for one start. Dropping the [`Held`] lets the program go on as an
    /// ordinary one.
    ///
    /// # Errors
    /// A [`Refused`]; then nothing runs.
    pub fn spawn(
        &self,
        command: &mut Command,
        reservation: Reservation,
        enforcement: Enforcement,
    ) -> Result<(Child, Held), Refused> {
        let kind = Kind::Command;
        let wish = Wish { reservation, kind, enforcement, cpu: None, exact: true };
        let choice = self.chosen(wish)?;
        let lane = self.lane_for(reservation, &thread::affinity())?;
        self.start(command, Room::of(&lane, reservation)?, enforcement, choice)
    }

    /// Makes room on `cpu` for programs that begin together: all of them or none. Without others there this succeeds
    /// wherever [`punctual_analysis::supply::together`] finds a table by [`Settings::rules`].
    ///
    /// # Errors
    /// A [`Refused`]; then nothing is reserved.
    pub fn make_room(&self, cpu: usize, asked: &[Reservation]) -> Result<Vec<Room>, Refused> {
        Room::of_all(&self.lane(cpu)?, asked)
    }

    /// The same as [`spawn`](Self::spawn) in room that was made before, for a `choice` of [`choose`].
    ///
    /// # Errors
    /// A [`Refused`]; then nothing runs, and the room is given back.
    pub fn spawn_in(
        &self,
        room: Room,
        command: &mut Command,
        enforcement: Enforcement,
        choice: Choice,
    ) -> Result<(Child, Held), Refused> {
        self.start(command, room, enforcement, choice)
    }

    fn start(
        &self,
        command: &mut Command,
        room: Room,
        enforcement: Enforcement,
        choice: Choice,
    ) -> Result<(Child, Held), Refused> {
        let (lane, cpu) = (Arc::clone(room.lane()), room.cpu());
        let me = i32::try_from(std::process::id()).map_err(std::io::Error::other)?;
        let freezer = Freezer::for_children_of(me)?;
        let priority = (enforcement == Enforcement::Hard).then_some(IN_SLOT);
        process::join_on_exec(command, freezer.group(), cpu, priority)?;
        let hold = Hold::Group { freezer, enforcement };
        let mut held = self.hold(lane, hold, false, choice, thread::affinity())?;
        // Before the child is there: in a frozen group it waits for its first slot.
        held.join(room);
        let child = command.spawn()?;
        Ok((child, held))
    }

    fn hold(
        &self,
        lane: Arc<Mutex<Lane>>,
        hold: Hold,
        threaded: bool,
        choice: Choice,
        cpus: Vec<usize>,
    ) -> Result<Held, Refused> {
        let place = match &hold {
            Hold::Group { freezer, .. } => {
                Some(self.guard.watch(freezer.group().path(), freezer.is_v1(), threaded)?)
            }
            Hold::Thread { .. } => None,
        };
        Ok(Held::new(lane, hold, choice, cpus, Arc::clone(&self.guard), place))
    }

    /// The first CPU on which `reservation` would be admitted.
    pub(super) fn lane_for(
        &self,
        reservation: Reservation,
        among: &[usize],
    ) -> Result<Arc<Mutex<Lane>>, Refused> {
        self.each_lane(among, |lane| lane.would_admit(reservation))
    }

    /// The first CPU with which `with` is content; else what it said of the most promising one.
    pub(super) fn each_lane(
        &self,
        among: &[usize],
        mut with: impl FnMut(&Lane) -> Result<(), Refused>,
    ) -> Result<Arc<Mutex<Lane>>, Refused> {
        let mut refused: Option<Refused> = None;
        for &cpu in self.settings.cpus.iter().filter(|cpu| among.contains(cpu)) {
            let outcome = self.lane(cpu).map_err(Refused::from);
            let outcome = outcome.and_then(|lane| {
                let content = with(&locked(&lane));
                content.map(|()| lane)
            });
            match outcome {
                Ok(lane) => return Ok(lane),
                Err(error) => {
                    let better = refused.as_ref().is_none_or(|old| offered(&error) > offered(old));
                    if better {
                        refused = Some(error);
                    }
                }
            }
        }
        Err(refused.unwrap_or_else(|| {
            let error = thread::AffinityError::NotAllowed {
                cpus: self.settings.cpus.clone(),
                allowed: among.to_vec(),
            };
            let cpu = self.settings.cpus.first().copied().unwrap_or(0);
            StartError::Cpu { cpu, error }.into()
        }))
    }

    fn lane(&self, cpu: usize) -> Result<Arc<Mutex<Lane>>, StartError> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.iter().find(|lane| locked(lane).cpu() == cpu) {
            return Ok(Arc::clone(lane));
        }
        let lane = Lane::start(cpu, &self.settings, Arc::clone(&self.guard), self.asked.clone())?;
        let lane = Arc::new(Mutex::new(lane));
        lanes.push(Arc::clone(&lane));
        Ok(lane)
    }

    /// Takes out what happened to the reservations since the last call, as far as
    /// [`Settings::event_room`] gave room for it: of each the slots, as [`punctual_trace::slots`] tells
    /// them. Those of one CPU come in the order of their instants. Jobs of time constraints have numbers
    /// of their own; what was asked for is told by [`drain_all`](Self::drain_all) alone.
    ///
    /// ```no_run
    /// use punctual_runtime::reservation::{Reservations, Settings};
    ///
    /// let reservations = Reservations::with(Settings::default().with_event_room(1 << 14))?;
    /// reservations.drain(|event| println!("reservation {}: {:?}", event.job.task, event.kind));
    /// assert_eq!(reservations.events_lost(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain(&self, mut take: impl FnMut(Event)) {
        self.drain_all(|told| match told {
            Told::Event(event) => take(event),
            Told::Asked { .. } => {}
        });
    }

    /// The same, and the time constraints that threads of this process asked for
    /// ([`punctual_trace::constraint`]), each before the events of its job.
    ///
    /// ```no_run
    /// use punctual_runtime::reservation::{Reservations, Settings, Told};
    ///
    /// let reservations = Reservations::with(Settings::default().with_event_room(1 << 14))?;
    /// reservations.drain_all(|told| match told {
    ///     Told::Asked { thread, asked } => {
    ///         println!("{thread} asked for {}: {}", asked.estimate, asked.answer.word());
    ///     }
    ///     Told::Event(event) => println!("{:?} at {}", event.kind, event.at),
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain_all(&self, mut take: impl FnMut(Told)) {
        let mut events = Vec::new();
        for lane in self.lanes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            locked(lane).drain(&mut |event| events.push(event));
        }
        // After the events: what they are about had been asked for by then.
        for (thread, asked) in self.asked.take() {
            take(Told::Asked { thread, asked });
        }
        events.into_iter().map(Told::Event).for_each(take);
    }

    /// Events, and requests for time constraints, that were dropped so far because nobody took them in
    /// time.
    pub fn events_lost(&self) -> u64 {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|lane| locked(lane).events_lost()).sum::<u64>() + self.asked.lost()
    }

    /// Returns the newest timetable of `cpu` and the instant from which on its dispatcher follows it; `None` while
    /// nothing is reserved there. Until that instant the one before is followed.
    pub fn timetable(&self, cpu: usize) -> Option<(Instant, Turns)> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|lane| locked(lane)).find(|lane| lane.cpu() == cpu)?.newest()
    }

    pub(super) fn asked(&self) -> &Log {
        &self.asked
    }

    /// What the slots take of each CPU that has a timetable, in millionths, switches included.
    pub fn taken(&self) -> Vec<(usize, u64)> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = |lane: &Arc<Mutex<Lane>>| {
            let lane = locked(lane);
            (lane.cpu(), lane.taken_ppm())
        };
        lanes.iter().map(of_one).collect()
    }
}

/// Whether `pid` is another process. The kernel takes the id of any thread for that of its process.
fn not_our_own(pid: i32) -> Result<(), Unsuitable> {
    let is_own = process::threads_of(pid).contains(&thread::current());
    if is_own { Err(Unsuitable::OwnProcess { pid }) } else { Ok(()) }
}

/// How much a refusal offers instead.
fn offered(refused: &Refused) -> u64 {
    match refused {
        Refused::DoesNotFit { refusal, .. } => {
            1 + refusal.offers.along("", Axis::Budget).map_or(0, |offer| offer.to)
        }
        Refused::NoRoom { refusal, .. } => 1 + refusal.largest_estimate.as_nanos(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_does_not_hold_itself() {
        let me = i32::try_from(std::process::id()).expect("small");
        for own in [me, thread::current().as_raw()] {
            assert_eq!(not_our_own(own), Err(Unsuitable::OwnProcess { pid: own }));
        }
        let mut other = Command::new("sleep").arg("5").spawn().expect("sleep is there");
        let outcome = not_our_own(i32::try_from(other.id()).expect("small"));
        let _ = other.kill();
        let _ = other.wait();
        assert_eq!(outcome, Ok(()));
    }
}
