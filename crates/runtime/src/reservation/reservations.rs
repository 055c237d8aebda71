//! Admits reservations by timetable, on the first CPU where they fit.

use std::fs::File;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_analysis::Axis;
use punctual_linux::cgroup::freezer::Freezer;
use punctual_linux::cgroup::group_clock::GroupClock;
use punctual_linux::cgroup::memory::Kept;
use punctual_linux::process::{self, Guard};
use punctual_linux::sched;
use punctual_linux::thread::{self, Tid};
use punctual_model::reservation::Enforcement;
use punctual_model::{Instant, Reservation};
use punctual_policy::timetable::Turns;
use punctual_trace::Event;

use super::choose::{
    Backend, Choice, Facts, Kind, Unsuitable, Wish, choose, choose_server, kind_of,
};
use super::error::{Refused, StartError};
use super::held::Held;
use super::lane::{Lane, Room, locked};
use super::owner::{Hold, IN_SLOT};
use super::requests::{Drained, Log};
use super::settings::Settings;

/// The holder of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// One thread, of this process or another.
    Thread(Tid),
    /// A process by its id, with all its threads and children, present and future. The calling
    /// process is refused: its dispatcher would be held, too.
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
    requests: Log,
}

impl Reservations {
    /// Manages reservations on this thread's CPUs, with [`Settings::default`]. Probes the host and
    /// starts the guard; a CPU's dispatcher starts with its first reservation.
    ///
    /// # Errors
    /// Returns an error if the guard cannot be started.
    pub fn new() -> Result<Self, StartError> {
        Self::with(Settings::default())
    }

    /// Manages reservations with other settings.
    ///
    /// # Errors
    /// See [`new`](Self::new).
    pub fn with(settings: Settings) -> Result<Self, StartError> {
        let facts = Facts::probe(&settings);
        Self::on(facts, settings)
    }

    /// Manages reservations on a host with these facts, with these settings.
    ///
    /// # Errors
    /// See [`new`](Self::new).
    pub fn on(facts: Facts, settings: Settings) -> Result<Self, StartError> {
        Ok(Self {
            requests: Log::new(settings.event_room),
            facts: Arc::new(facts),
            settings: Arc::new(settings),
            guard: Arc::new(Guard::start()?),
            lanes: Arc::default(),
        })
    }

    /// Returns the facts that were probed.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the choice of [`choose`] here; for a timetable the reason also says how much longer
    /// its slots are.
    pub(super) fn chosen(&self, wish: Wish) -> Result<Choice, Unsuitable> {
        let mut choice = choose(wish, &self.facts)?;
        if choice.backend == Backend::Timetable {
            choice.because = format!("{}; {}", choice.because, self.settings.allowance());
        }
        Ok(choice)
    }

    /// Reserves for a running thread or process, by timetable. As long as it is held, it may only
    /// use the CPU of that timetable.
    ///
    /// # Errors
    /// Returns a [`Refused`]; then nothing was changed. Returns [`Unsuitable::OwnProcess`] for the
    /// calling process as a whole.
    pub fn admit(
        &self,
        reservation: Reservation,
        subject: Subject,
        enforcement: Enforcement,
    ) -> Result<Held, Refused> {
        let (kind, pid, tid) = match subject {
            Subject::Process(pid) => {
                check_not_own(pid)?;
                (Kind::Process, pid, None)
            }
            Subject::Thread(tid) => {
                let (kind, pid) = kind_of(tid).ok_or(Refused::Gone)?;
                (kind, pid, Some(tid))
            }
        };
        // Only the timetable is requested: the kernel's own reservation is for the calling thread,
        // in `Reserved`.
        let wish = Wish { reservation, kind, enforcement, cpu: None, exact: true };
        let choice = self.chosen(wish)?;
        let members = tid.map_or_else(|| process::threads_of(pid), |tid| vec![tid]);
        let cpus = not_reserved(&members)?;
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

    /// Reserves for a running process of user `uid` with all that it starts, by a server on `cpu`. Its
    /// user can move none of them out of the server's group ([`Freezer::out_of_reach`]). As long as it
    /// is held, it may only use that CPU.
    ///
    /// # Errors
    /// Returns a [`Refused`]; then nothing was changed. Returns [`Unsuitable::OwnProcess`] for the
    /// calling process.
    pub fn serve(
        &self,
        reservation: Reservation,
        (pid, uid): (i32, u32),
        enforcement: Enforcement,
        cpu: usize,
    ) -> Result<Held, Refused> {
        check_not_own(pid)?;
        let kind = Kind::Process;
        let wish = Wish { reservation, kind, enforcement, cpu: Some(cpu), exact: true };
        let choice = choose_server(wish, &self.facts)?;
        let cpus = not_reserved(&process::threads_of(pid))?;
        let room = self.make_room_for_server(cpu, reservation)?;
        let freezer = Freezer::out_of_reach(pid, uid)?;
        let clock = GroupClock::open(freezer.group(), cpu)?;
        let hold = Hold::Group { freezer, enforcement };
        let mut held = self.hold(Arc::clone(room.lane()), hold, false, choice, cpus)?;
        held.pin()?;
        held.serve(room, clock)?;
        Ok(held)
    }

    /// Starts a program under a reservation: from its first instruction on, with all its threads
    /// and children. `command` is good for one start. Dropping the [`Held`] lets the program go on
    /// as an ordinary one.
    ///
    /// # Errors
    /// Returns a [`Refused`]; then nothing runs.
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
        self.start(command, Room::of(&lane, reservation)?, enforcement, choice, None)
    }

    /// Makes room on `cpu` for programs that begin together: all of them or none. If nothing else
    /// is reserved there, this succeeds wherever [`punctual_analysis::supply::together`] finds a
    /// table by [`Settings::rules`].
    ///
    /// # Errors
    /// Returns a [`Refused`]; then nothing is reserved.
    pub fn make_room(&self, cpu: usize, asked: &[Reservation]) -> Result<Vec<Room>, Refused> {
        Room::of_all(&self.lane(cpu)?, asked)
    }

    /// Makes room on `cpu` for a program in a server.
    ///
    /// # Errors
    /// Returns a [`Refused`]; then nothing is reserved.
    pub fn make_room_for_server(
        &self,
        cpu: usize,
        reservation: Reservation,
    ) -> Result<Room, Refused> {
        Room::of_server(&self.lane(cpu)?, reservation)
    }

    /// Starts a program as [`spawn`](Self::spawn) does, in room that was made before, for a
    /// `choice` of [`choose`], with the memory that is `kept` for it. That must outlive the [`Held`].
    ///
    /// # Errors
    /// Returns a [`Refused`]; then nothing runs, and the room is given back.
    pub fn spawn_in(
        &self,
        room: Room,
        command: &mut Command,
        enforcement: Enforcement,
        choice: Choice,
        kept: Option<&Kept>,
    ) -> Result<(Child, Held), Refused> {
        self.start(command, room, enforcement, choice, kept)
    }

    fn start(
        &self,
        command: &mut Command,
        room: Room,
        enforcement: Enforcement,
        choice: Choice,
        kept: Option<&Kept>,
    ) -> Result<(Child, Held), Refused> {
        let (lane, cpu) = (Arc::clone(room.lane()), room.cpu());
        let me = i32::try_from(std::process::id()).map_err(std::io::Error::other)?;
        let freezer = match kept {
            Some(kept) => Freezer::below(kept.group())?,
            None => Freezer::for_children_of(me)?,
        };
        let level = room.level();
        let priority = level.or((enforcement == Enforcement::Hard).then_some(IN_SLOT));
        process::join_on_exec(command, freezer.group(), cpu, priority)?;
        let clock = match level {
            Some(_) => Some(GroupClock::open(freezer.group(), cpu)?),
            None => None,
        };
        let hold = Hold::Group { freezer, enforcement };
        let mut held = self.hold(lane, hold, false, choice, thread::affinity())?;
        // This comes before the child exists: in a frozen group it waits for its first slot.
        match clock {
            Some(clock) => held.serve(room, clock)?,
            None => held.join(room),
        }
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

    /// Returns the first CPU on which `reservation` would be admitted.
    pub(super) fn lane_for(
        &self,
        reservation: Reservation,
        among: &[usize],
    ) -> Result<Arc<Mutex<Lane>>, Refused> {
        self.each_lane(among, |lane| lane.would_admit(reservation))
    }

    /// Returns the first CPU that `with` accepts; otherwise the error of the most promising one.
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
        let lane =
            Lane::start(cpu, &self.settings, Arc::clone(&self.guard), self.requests.clone())?;
        let lane = Arc::new(Mutex::new(lane));
        lanes.push(Arc::clone(&lane));
        Ok(lane)
    }

    /// Takes out the events of the reservations since the last call, as far as
    /// [`Settings::event_room`] gave room for them: the slots of each, as [`punctual_trace::slots`]
    /// reports them. Events of one CPU come in the order of their instants. Jobs of time
    /// constraints have numbers of their own; only [`drain_all`](Self::drain_all) returns the
    /// requests for them.
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
            Drained::Event(event) => take(event),
            Drained::Request { .. } => {}
        });
    }

    /// Takes out the same, and the time constraints that threads of this process requested
    /// ([`punctual_trace::constraint`]), each before the events of its job.
    ///
    /// ```no_run
    /// use punctual_runtime::reservation::{Reservations, Settings, Drained};
    ///
    /// let reservations = Reservations::with(Settings::default().with_event_room(1 << 14))?;
    /// reservations.drain_all(|told| match told {
    ///     Drained::Request { thread, asked } => {
    ///         println!("{thread} asked for {}: {}", asked.estimate, asked.answer.word());
    ///     }
    ///     Drained::Event(event) => println!("{:?} at {}", event.kind, event.at),
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain_all(&self, mut take: impl FnMut(Drained)) {
        let mut events = Vec::new();
        for lane in self.lanes.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            locked(lane).drain(&mut |event| events.push(event));
        }
        // Taken after the events, so that the requests for their jobs are among them.
        for (thread, asked) in self.requests.take() {
            take(Drained::Request { thread, asked });
        }
        events.into_iter().map(Drained::Event).for_each(take);
    }

    /// Returns the number of events, and of requests for time constraints, dropped so far because
    /// they were not taken out in time.
    pub fn events_lost(&self) -> u64 {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|lane| locked(lane).events_lost()).sum::<u64>() + self.requests.lost()
    }

    /// Returns the newest timetable of `cpu` and the instant from which on its dispatcher follows
    /// it; `None` while nothing is reserved there. Until that instant the previous one is followed.
    pub fn timetable(&self, cpu: usize) -> Option<(Instant, Turns)> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().map(|lane| locked(lane)).find(|lane| lane.cpu() == cpu)?.newest()
    }

    pub(super) fn requests(&self) -> &Log {
        &self.requests
    }

    /// Lets CPUs go on which nothing is reserved, so that other processes may dispatch them.
    pub fn let_idle_cpus_go(&self) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.retain(|lane| Arc::strong_count(lane) > 1 || !locked(lane).is_empty());
    }

    /// Returns whether anything is reserved.
    pub fn holds_anything(&self) -> bool {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.iter().any(|lane| !locked(lane).is_empty())
    }

    /// Returns the share that the slots take of each CPU that has a timetable, in millionths,
    /// switches included.
    pub fn taken(&self) -> Vec<(usize, u64)> {
        let lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let of_one = |lane: &Arc<Mutex<Lane>>| {
            let lane = locked(lane);
            (lane.cpu(), lane.taken_ppm())
        };
        lanes.iter().map(of_one).collect()
    }
}

/// Checks that `pid` is another process. The kernel accepts the id of any thread in place of its
/// process's.
fn check_not_own(pid: i32) -> Result<(), Unsuitable> {
    let is_own = process::threads_of(pid).contains(&thread::current());
    if is_own { Err(Unsuitable::OwnProcess { pid }) } else { Ok(()) }
}

/// Checks that SCHED_DEADLINE holds none of `threads`. Returns the CPUs of the first.
fn not_reserved(threads: &[Tid]) -> Result<Vec<usize>, Refused> {
    let first = threads.first().copied().ok_or(Refused::Gone)?;
    let reserved =
        |thread: &Tid| sched::get(*thread).is_ok_and(|now| now.policy_name() == "SCHED_DEADLINE");
    match threads.iter().copied().find(reserved) {
        Some(thread) => Err(Refused::AlreadyReserved { thread }),
        None => Ok(thread::affinity_of(first)),
    }
}

/// Returns how much a refusal offers instead.
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
            assert_eq!(check_not_own(own), Err(Unsuitable::OwnProcess { pid: own }));
        }
        let mut other = Command::new("sleep").arg("5").spawn().expect("sleep is there");
        let outcome = check_not_own(i32::try_from(other.id()).expect("small"));
        let _ = other.kill();
        let _ = other.wait();
        assert_eq!(outcome, Ok(()));
    }
}
