//! A reservation by a timetable or a server that is in force.

use std::fs;
use std::sync::{Arc, Mutex};

use punctual_linux::cgroup::group_clock::GroupClock;
use punctual_linux::process::{self, Guard};
use punctual_linux::thread::{self, Tid};
use punctual_linux::{clock, host, sched};
use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, Instant, Reservation, Service};
use punctual_policy::adaptive::{Adaptive, Decision};

use super::choose::{Backend, Choice, Unsuitable};
use super::confined::Confined;
use super::current::{Adapted, adapt};
use super::error::Refused;
use super::lane::{Lane, Room, locked};
use super::owner::{Hold, Owner, Periods};

/// The longest time that the dispatcher may take to release an owner.
pub(super) const LETTING_GO: Duration = Duration::from_secs(5);

/// A reservation that is in force until this is dropped. Then its owner is an ordinary program
/// again (SCHED_OTHER), all its threads with the CPUs that its first thread had, in the group it
/// was in.
pub struct Held {
    lane: Arc<Mutex<Lane>>,
    owner: Arc<Owner>,
    /// The owner's name in the timetable, once it is in it.
    name: Option<u32>,
    reservation: Option<Reservation>,
    since: Instant,
    choice: Choice,
    cpus: Vec<usize>,
    guard: Arc<Guard>,
    place: Option<usize>,
    used_before: Service,
}

impl Held {
    /// Creates one for an owner that is not in the timetable yet.
    pub(super) fn new(
        lane: Arc<Mutex<Lane>>,
        hold: Hold,
        choice: Choice,
        cpus: Vec<usize>,
        guard: Arc<Guard>,
        place: Option<usize>,
    ) -> Self {
        let (name, reservation, since) = (None, None, Instant::ZERO);
        let (owner, used_before) = (Arc::new(Owner::new(hold)), Service::ZERO);
        Self { lane, owner, name, reservation, since, choice, cpus, guard, place, used_before }
    }

    /// Takes the room that was made for it, by a server whose time `clock` counts. All threads in its
    /// group must be pinned to the server's CPU.
    pub(super) fn serve(&mut self, room: Room, clock: GroupClock) -> Result<(), Refused> {
        let (name, reservation, _) = room.into_parts();
        // Dropping it releases the name.
        (self.name, self.reservation) = (Some(name), Some(reservation));
        let owner = Arc::clone(&self.owner);
        self.since = locked(&self.lane).serve(name, reservation, owner, clock)?;
        Ok(())
    }

    /// Takes the room that was made for it in its timetable.
    pub(super) fn join(&mut self, room: Room) {
        self.used_before = self.used_in_all().unwrap_or(Service::ZERO);
        let (name, reservation, from) = room.into_parts();
        let from = locked(&self.lane).join(name, reservation, from, Arc::clone(&self.owner));
        (self.name, self.reservation, self.since) = (Some(name), Some(reservation), from);
    }

    /// Pins all threads, and those created meanwhile, to the timetable's CPU.
    pub(super) fn pin(&self) -> Result<(), Refused> {
        let cpu = locked(&self.lane).cpu();
        for _ in 0..16 {
            let threads = self.threads();
            let is_loose = |tid: &Tid| {
                let cpus = thread::affinity_of(*tid);
                // No CPU at all means that the thread has ended meanwhile.
                !cpus.is_empty() && cpus != [cpu]
            };
            let loose: Vec<Tid> = threads.into_iter().filter(is_loose).collect();
            if loose.is_empty() {
                return Ok(());
            }
            for tid in loose {
                let pinned = process::pin(tid, &[cpu]);
                // A thread that ended meanwhile needs none.
                if let (Err(errno), true) = (pinned, sched::get(tid).is_ok()) {
                    return Err(std::io::Error::from(errno).into());
                }
            }
        }
        let why = format!("new threads of it keep appearing on CPUs other than {cpu}; try again");
        Err(std::io::Error::other(why).into())
    }

    fn threads(&self) -> Vec<Tid> {
        match self.owner.hold() {
            Hold::Thread { tid, .. } => vec![*tid],
            Hold::Group { freezer, .. } => freezer.group().threads(),
        }
    }

    /// Ends the reservation before this is dropped: its owner is an ordinary program when this
    /// returns.
    pub fn end(&mut self) {
        if let Some(name) = self.name.take() {
            locked(&self.lane).release(name);
            if self.choice.backend == Backend::Timetable {
                self.owner.gone.sleep_until(0, clock::now() + LETTING_GO);
            }
        }
    }

    /// Returns a watch on the threads of a program that may not be trusted.
    ///
    /// # Errors
    /// A [`Refused`] if its threads cannot be listed.
    pub fn confined(&self) -> Result<Confined, Refused> {
        match self.owner.hold() {
            Hold::Group { freezer, .. } => Confined::to(freezer, self.cpu()),
            Hold::Thread { .. } => Err(Refused::Gone),
        }
    }

    /// Returns the budget and the period.
    pub fn reservation(&self) -> Reservation {
        self.reservation.expect("set before anybody gets it")
    }

    /// Returns the back end and the reason for it.
    pub fn choice(&self) -> &Choice {
        debug_assert_ne!(self.choice.backend, Backend::Kernel);
        &self.choice
    }

    /// Returns its number in the events of [`Reservations::drain`](super::Reservations::drain),
    /// which is unique in this process.
    pub fn task(&self) -> u32 {
        self.owner.task
    }

    /// Returns the CPU of its timetable or server.
    pub fn cpu(&self) -> usize {
        locked(&self.lane).cpu()
    }

    /// Returns when the first promised window starts (CLOCK_MONOTONIC); after a change, the first
    /// one that has the new amount.
    pub fn since(&self) -> Instant {
        self.since
    }

    /// Returns the processor time used since it was admitted, in its slots and, if it is soft,
    /// outside. Returns `None` where the kernel keeps no account of it (a group of version 1, a
    /// thread that has ended).
    pub fn used(&self) -> Option<Service> {
        Some(self.used_in_all()?.saturating_sub(self.used_before))
    }

    fn used_in_all(&self) -> Option<Service> {
        match self.owner.hold() {
            Hold::Group { freezer, .. } => freezer.group().used(),
            Hold::Thread { tid, .. } => {
                let text = fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?;
                text.split_whitespace().next()?.parse().ok().map(Service::from_nanos)
            }
        }
    }

    /// Returns the part of [`used`](Self::used) that was used in its slots, or within the budgets of
    /// its server up to the server's last look: for a hard owner all of it, for a soft group the
    /// time that the dispatcher read at their beginnings and ends. Returns `None` where the kernel
    /// keeps no account of it, and for a single soft thread. After a [`change`](Self::change) it is
    /// the sum over both amounts.
    pub fn used_inside(&self) -> Option<Service> {
        match self.owner.hold() {
            Hold::Group { enforcement: Enforcement::Hard, .. } => self.used(),
            _ => self.owner.used_inside(),
        }
    }

    /// Returns the ids of the processes that are held, each of which may end at any time; none for
    /// a single thread.
    pub fn processes(&self) -> Vec<i32> {
        match self.owner.hold() {
            Hold::Group { freezer, .. } if !freezer.group().is_threaded() => {
                freezer.group().members()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the number of slots given so far; none by a server.
    pub fn slots(&self) -> u64 {
        self.owner.slots.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns how often the kernel refused to start or stop the owner. Any other number than zero
    /// means that the promise is broken: its group was removed, this process lost its rights, or
    /// the group has no real-time time (RT_GROUP_SCHED).
    pub fn failures(&self) -> u64 {
        self.owner.refused.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Changes the budget and the period. In a timetable the weaker of both holds over the change:
    /// the smaller budget in each window of the longer period; it may wait for up to some periods. A
    /// server has another budget at once, less is never refused. With another period it begins one with
    /// a full budget, and its old one counts beside it for a while, so a change that would fit later can
    /// be refused. A refusal leaves the reservation as it is.
    ///
    /// # Errors
    /// Returns a [`Refused`].
    pub fn change(&mut self, reservation: Reservation) -> Result<(), Refused> {
        let name = self.name.ok_or(Refused::Gone)?;
        let mut lane = locked(&self.lane);
        if let Hold::Group { enforcement, .. } = self.owner.hold() {
            lane.slots().hold(reservation, *enforcement).map_err(Unsuitable::from)?;
        }
        self.since = lane.change(name, reservation)?;
        self.reservation = Some(reservation);
        Ok(())
    }

    /// Reports the periods of its server since the last call to `adaptive`, each as a pass that was in
    /// time if the budget sufficed, and tries the change that it decides: admission has the last word.
    pub fn adapt(&mut self, adaptive: &mut Adaptive) -> Adapted {
        let Periods { count, ran_out, largest } = self.owner.take_periods();
        let now = clock::now();
        let mut decision = Decision::Keep;
        // One that was late decides at once, and the others no more.
        for _ in 0..if ran_out > 0 { 1 } else { count } {
            decision = adaptive.pass(now, largest, ran_out == 0);
            if decision != Decision::Keep {
                break;
            }
        }
        adapt(adaptive, decision, |wish| self.change(wish))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.end();
        let cpus: Vec<usize> = if self.cpus.is_empty() {
            (0..host::cpus_online()).collect()
        } else {
            self.cpus.clone()
        };
        for tid in self.threads() {
            // A thread that has ended needs nothing, and a CPU that went offline meanwhile is not
            // our concern.
            let _ = process::pin(tid, &cpus);
        }
        if let Hold::Group { freezer, .. } = self.owner.hold() {
            let _ = freezer.thaw();
            for tid in freezer.group().threads() {
                // Lowered once more: a thread that was being created kept the priority of its
                // creator.
                let _ = process::lower(tid);
            }
            let gone = freezer.group().dissolve().is_ok();
            // A group that cannot be removed stays under guard.
            if let (Some(place), true) = (self.place, gone) {
                self.guard.forget(place);
            }
        }
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held")
            .field("reservation", &self.reservation)
            .field("name", &self.name)
            .field("since", &self.since)
            .finish_non_exhaustive()
    }
}
