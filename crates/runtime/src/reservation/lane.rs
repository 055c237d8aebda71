//! One CPU: its reservations, the thread that follows its timetable, and room in the timetable for
//! an owner that is still to come.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use punctual_analysis::supply::{Handover, Limits, MOST_SERVERS, TimeConstraint};
use punctual_analysis::{BackEnd, Joining, Refusal, Request, Steps, System};
use punctual_linux::cgroup::group_clock::GroupClock;
use punctual_linux::park::EventCount;
use punctual_linux::process::Guard;
use punctual_linux::sched::{Class, SchedError};
use punctual_linux::{clock, sched, thread};
use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, Instant, JobId, Reservation, Service};
use punctual_policy::table_dispatcher::Pending;
use punctual_policy::timetable::Turns;
use punctual_ring::spsc;
use punctual_ring::spsc::Consumer;
use punctual_trace::Event;
use punctual_trace::constraint::{Answer, ConstraintRequest, Given};
use punctual_trace::slots::Slots;

use super::dispatcher::{Dispatcher, MOST, Message};
use super::error::{Refused, StartError};
use super::mailbox::{Outbox, mailbox};
use super::owner::{DISPATCHER, Owner};
use super::requests::Log;
use super::server::{HIGHEST, Looks, Server};
use super::settings::Settings;

/// The time before a new table takes effect at which the dispatcher must know of it.
const NOTICE: Duration = Duration::from_millis(2);

/// The name of the first server; those of slots begin with zero.
const FIRST_SERVER: u32 = 1 << 31;

/// The pause before sending again to a dispatcher that has no slot free.
const PAUSE: Duration = Duration::from_millis(1);

/// A time constraint in force, as admission sees it.
struct Standing {
    name: u32,
    asked: TimeConstraint,
    left: Arc<AtomicU64>,
}

/// One CPU.
pub(super) struct Lane {
    cpu: usize,
    slots: Limits,
    /// The CPU's number in `analysis`.
    number: u16,
    /// The admitted reservations, by the names that their owners have in the slots.
    system: System<u32>,
    next_name: u32,
    /// The next name of a server, which no slot has. Of equal periods the earlier one has the higher
    /// level, here as in the admission state of a broker.
    next_server: u32,
    /// The newest table, and from when on it is followed.
    newest: Option<(Instant, Turns)>,
    once: Vec<Standing>,
    next_once: u32,
    outbox: Outbox<Message>,
    changed: Arc<EventCount>,
    thread: Option<JoinHandle<()>>,
    /// Held so that no other process dispatches this CPU: two processes that both think it is
    /// theirs would give away its time twice.
    _claim: UnixListener,
    events: Consumer<Event>,
    requests: Log,
    /// The servers in force, by their names, and their looks.
    servers: Vec<(u32, Server)>,
    looks: Arc<Looks>,
}

impl Lane {
    pub(super) fn start(
        cpu: usize,
        settings: &Settings,
        guard: Arc<Guard>,
        requests: Log,
    ) -> Result<Self, StartError> {
        let claim = claim(cpu)?;
        // Linux has no more CPUs than that.
        let number = u16::try_from(cpu).map_err(std::io::Error::other)?;
        let Settings { context_switch, event_room, .. } = *settings;
        let (outbox, inbox) = mailbox();
        let changed = Arc::new(EventCount::new());
        let (tells, events) = spsc::channel(event_room.max(1));
        let tells = (event_room > 0).then_some(tells);
        let looks = Arc::new(Looks::new(cpu, Arc::clone(&guard)));
        let dispatcher =
            Dispatcher::new(cpu, context_switch, inbox, Arc::clone(&changed), guard, tells);
        let (ready_tx, ready) = mpsc::sync_channel(1);
        let body = move || {
            let entered = enter(cpu);
            let may_run = entered.is_ok();
            // The receiver waits for exactly this message.
            let _ = ready_tx.send(entered);
            drop(ready_tx);
            if may_run {
                dispatcher.run();
            }
        };
        let thread = std::thread::Builder::new().name(format!("dispatch-{cpu}")).spawn(body)?;
        ready.recv().unwrap_or(Err(StartError::Ended { cpu }))?;
        Ok(Self {
            cpu,
            slots: settings.rules().limits,
            number,
            system: System::of_timetable(number, settings.rules()),
            next_name: 0,
            next_server: FIRST_SERVER,
            newest: None,
            once: Vec::new(),
            next_once: 0,
            outbox,
            changed,
            thread: Some(thread),
            _claim: claim,
            events,
            requests,
            servers: Vec::new(),
            looks,
        })
    }

    pub(super) fn cpu(&self) -> usize {
        self.cpu
    }

    /// Returns the limits on the slots of its timetable.
    pub(super) fn slots(&self) -> Limits {
        self.slots
    }

    /// Returns the newest table and from when on it is followed; `None` while nothing is reserved.
    pub(super) fn newest(&self) -> Option<(Instant, Turns)> {
        self.newest.clone()
    }

    pub(super) fn taken_ppm(&self) -> u64 {
        self.system.followed_ppm(self.number)
    }

    /// Returns whether `asked` would be admitted now.
    pub(super) fn would_admit(&self, asked: Reservation) -> Result<(), Refused> {
        let standing = self.standing();
        let joining = self.joining(asked, &standing);
        let mut trial = self.system.clone();
        trial.settle(clock::now());
        let outcome = trial.admit(self.next_name, joining, &mut Steps::default());
        outcome.map(|_| ()).map_err(|refused| self.refused(refused))
    }

    /// Admits `asked` for an owner that is still to [`join`](Self::join). Returns its name, and
    /// from when on it counts.
    fn admit(&mut self, asked: Reservation) -> Result<(u32, Instant), Refused> {
        self.settle();
        let (name, standing) = (self.next_name, self.standing());
        let joining = self.joining(asked, &standing);
        let outcome = self.system.admit(name, joining, &mut Steps::default());
        outcome.map_err(|refused| self.refused(refused))?;
        self.next_name = name.wrapping_add(1);
        Ok((name, self.follow_for(name)?))
    }

    /// Admits all of `asked`, at least one, for owners that begin together, while nothing is
    /// reserved yet. Returns the name of the first, which the names of the others follow, and from
    /// when on they count.
    fn admit_together(&mut self, asked: &[Reservation]) -> Result<(u32, Instant), Refused> {
        self.settle();
        let first = self.next_name;
        let names = (0..).map(|at| first.wrapping_add(at));
        let requests: Vec<(u32, Request<'_>)> = names
            .zip(asked)
            .map(|(name, &reservation)| {
                let (enforcement, backend) = (Enforcement::Soft, Backend::Timetable);
                let cpu = Some(self.number);
                (name, Request::Command { reservation, enforcement, backend, cpu })
            })
            .collect();
        let outcome = self.system.exchange(&[], &requests, None, &mut Steps::default());
        outcome.map_err(|refused| self.refused(refused))?;
        self.next_name = first.wrapping_add(requests.len() as u32);
        self.system.follow(self.number, clock::now() + NOTICE);
        Ok((first, self.follow_for(first)?))
    }

    /// Gives the reservation that was admitted as `name`, from `from` on, to `owner`. Returns from
    /// when on the owner has it. The table is followed by then: joining may freeze this very
    /// process, and only a table thaws it again.
    pub(super) fn join(
        &mut self,
        name: u32,
        asked: Reservation,
        from: Instant,
        owner: Arc<Owner>,
    ) -> Instant {
        let now = clock::now();
        // A later owner is announced to the dispatcher later, and gets no slot that has begun.
        let later = || self.system.joins_at(name, now + NOTICE).unwrap_or(from);
        let from = if from >= now { from } else { later() };
        let slots = Some(Slots::new(owner.task, asked, from));
        self.send(Message::Join { name, owner, slots });
        from
    }

    /// Admits `asked` for an owner in a server, which is still to be
    /// [served](Self::serve). Returns its name, and from when on it counts.
    fn admit_server(&mut self, asked: Reservation) -> Result<(u32, Instant), Refused> {
        self.settle();
        let now = clock::now();
        let (name, request) = (self.next_server, self.server(asked));
        let outcome = self.system.admit(name, request, &mut Steps::default());
        outcome.map_err(|refused| self.refused(refused))?;
        self.next_server = name.checked_add(1).unwrap_or(FIRST_SERVER);
        Ok((name, now))
    }

    /// Returns a request for a server here. Soft or hard, it takes the same from others.
    fn server(&self, reservation: Reservation) -> Request<'static> {
        let (backend, cpu) = (Backend::Server, Some(self.number));
        Request::Command { reservation, enforcement: Enforcement::Soft, backend, cpu }
    }

    /// Returns the level of the server that was admitted as `name`.
    pub(super) fn level_of(&self, name: u32) -> u8 {
        let before = self.system.served_on(self.number).take_while(|(other, _)| *other != name);
        // Admission has fewer servers than levels.
        HIGHEST.saturating_sub(before.count() as u8)
    }

    /// Serves `owner` by the server that was admitted as `name`, from now on, with the time that
    /// `clock` counts. Returns from when on.
    pub(super) fn serve(
        &mut self,
        name: u32,
        asked: Reservation,
        owner: Arc<Owner>,
        clock: GroupClock,
    ) -> Result<Instant, Refused> {
        // Those below give way first.
        self.set_levels();
        let is_free = |place: &usize| self.servers.iter().all(|(_, one)| one.place() != *place);
        let place = (0..MOST_SERVERS).find(is_free);
        let place = place.ok_or(Refused::TooMany { most: MOST_SERVERS })?;
        let (level, looks) = (self.level_of(name), Arc::clone(&self.looks));
        let server =
            Server::start((asked, self.slots.context_switch), level, place, owner, clock, looks)?;
        self.servers.push((name, server));
        Ok(clock::now())
    }

    fn set_levels(&self) {
        for (name, server) in &self.servers {
            server.set_level(self.level_of(*name));
        }
    }

    /// Returns whether nothing is reserved.
    pub(super) fn is_empty(&self) -> bool {
        let has_server = self.system.served_on(self.number).next().is_some();
        !has_server && self.system.continuing(self.number).next().is_none()
    }

    pub(super) fn change(&mut self, name: u32, asked: Reservation) -> Result<Instant, Refused> {
        self.settle();
        if let Some((_, server)) = self.servers.iter().find(|(other, _)| *other == name) {
            // Unless only the budget changes, the old server counts as one that leaves now.
            let (request, now) = (self.server(asked), clock::now());
            let outcome = self.system.change(name, request, Some(now), &mut Steps::default());
            outcome.map_err(|refused| self.refused(refused))?;
            server.change(asked);
            self.set_levels();
            return Ok(now);
        }
        let standing = self.standing();
        if self.system.handover(name).is_none() {
            return Err(Refused::Gone);
        }
        let joining = self.joining(asked, &standing);
        let outcome = self.system.change(name, joining, None, &mut Steps::default());
        outcome.map_err(|refused| self.refused(refused))?;
        let from = self.follow_for(name)?;
        self.send(Message::Change { name, asked, from });
        Ok(from)
    }

    pub(super) fn drain(&mut self, take: &mut impl FnMut(Event)) {
        while let Some(event) = self.events.pop() {
            take(event);
        }
    }

    pub(super) fn events_lost(&self) -> u64 {
        self.events.lost()
    }

    /// Releases an owner at once: other work may use the time of its slots, or of its server.
    pub(super) fn release(&mut self, name: u32) {
        if let Some(BackEnd::Server { .. }) = self.system.back_end(name) {
            if let Some(at) = self.servers.iter().position(|(other, _)| *other == name) {
                let (_, server) = self.servers.swap_remove(at);
                drop(server);
            }
            self.system.retire(name, clock::now());
            self.set_levels();
            return;
        }
        self.send(Message::Leave { name });
        self.settle();
        if let Some(handover) = self.system.leave(name, clock::now() + NOTICE) {
            self.follow(handover);
        }
    }

    /// Returns whether `asked` would be accepted now.
    pub(super) fn would_begin(&self, asked: TimeConstraint) -> Result<(), Refused> {
        let known = clock::now() + NOTICE;
        let asked = TimeConstraint { start: asked.start.max(known), ..asked };
        let outcome = self.system.has_room(self.number, asked, &self.standing(), known);
        outcome.map_err(|refusal| Refused::NoRoom { cpu: self.cpu, refusal })
    }

    /// Begins a time constraint for the calling thread, which is `owner`. Returns its name. Events
    /// name it `job`.
    pub(super) fn begin(
        &mut self,
        asked: TimeConstraint,
        job: JobId,
        owner: Arc<Owner>,
    ) -> Result<u32, Refused> {
        let now = clock::now();
        // A constraint that is over may still be held: the dispatcher keeps it until it is ended.
        if self.once.len() >= MOST {
            return Err(Refused::TooMany { most: MOST });
        }
        self.would_begin(asked)?;
        // The request counts from when the dispatcher knows of it.
        let start = asked.start.max(now + NOTICE);
        let asked = TimeConstraint { start, ..asked };
        let name = self.next_once;
        self.next_once = name.wrapping_add(1);
        let left = Arc::new(AtomicU64::new(asked.estimate.as_nanos()));
        let TimeConstraint { estimate, deadline, .. } = asked;
        let pending = Pending { name, start, deadline, left: estimate };
        self.once.push(Standing { name, asked, left: Arc::clone(&left) });
        let answer = Answer::Granted;
        let request =
            ConstraintRequest { at: clock::now(), job, start, estimate, deadline, answer };
        // Recorded before anything happens to it.
        self.requests.record(thread::current(), request);
        let given = self.requests.is_on().then(|| Given::new(request));
        self.send(Message::Once { pending, owner, left, given });
        Ok(name)
    }

    pub(super) fn end(&mut self, name: u32) {
        self.once.retain(|one| one.name != name);
        self.send(Message::EndOnce { name, at: clock::now() });
    }

    /// Returns a request to join the timetable as soon as the dispatcher can know of it.
    fn joining<'a>(&self, reservation: Reservation, standing: &'a [TimeConstraint]) -> Request<'a> {
        let earliest = clock::now() + NOTICE;
        Request::Joining(Joining { reservation, cpu: self.number, earliest, standing })
    }

    /// Makes the dispatcher follow the table that now holds `name`. Returns from when on.
    fn follow_for(&mut self, name: u32) -> Result<Instant, Refused> {
        let handover = self.system.handover(name).ok_or(Refused::Gone)?;
        debug_assert_eq!(handover.owner, name, "both are counted alike");
        let from = handover.from;
        self.follow(handover);
        Ok(from)
    }

    fn follow(&mut self, handover: Handover) {
        let Handover { follow, from, .. } = handover;
        let any = !self.is_empty();
        let turns = any.then(|| Turns::new(follow.table, follow.origin));
        self.newest = turns.clone().map(|turns| (from, turns));
        self.send(Message::Follow { from, turns });
    }

    /// Waits until the last change counts: there is one change at a time. What left before is free
    /// then, if it has no more effect.
    fn settle(&mut self) {
        if let Some((from, _)) = &self.newest {
            clock::sleep_until(*from);
        }
        self.system.settle(clock::now());
    }

    fn send(&mut self, message: Message) {
        let mut message = message;
        while let Err(back) = self.outbox.send(message) {
            // Without a dispatcher there is never room; the guard releases what it held.
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return;
            }
            message = back;
            self.changed.notify();
            clock::sleep(PAUSE);
        }
        self.changed.notify();
    }

    fn standing(&self) -> Vec<TimeConstraint> {
        let now = clock::now();
        let left = |one: &Standing| {
            let left = one.left.load(Ordering::Relaxed);
            TimeConstraint { estimate: Service::from_nanos(left), ..one.asked }
        };
        let stands = |one: &TimeConstraint| one.deadline > now && !one.estimate.is_zero();
        self.once.iter().map(left).filter(stands).collect()
    }

    fn refused(&self, refusal: Box<Refusal>) -> Refused {
        Refused::DoesNotFit { cpu: self.cpu, refusal }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, the panic was printed then.
            let _ = thread.join();
        }
    }
}

/// Has the calling thread dispatch on `cpu`.
pub(super) fn enter(cpu: usize) -> Result<(), StartError> {
    thread::pin_to(cpu).map_err(|error| StartError::Cpu { cpu, error })?;
    // Before Linux 6.12 a real-time thread's futex(2) is late by its slack as well, 50 µs by
    // default.
    thread::set_timer_slack(Duration::from_nanos(1));
    sched::set(thread::current(), Class::Fifo { priority: DISPATCHER })
        .map_err(|error: SchedError| StartError::Class(error))
}

/// Claims an abstract name (unix(7)): the kernel gives it back when the process ends, however it
/// ends. There is one for each network namespace, and any user may take it.
fn claim(cpu: usize) -> Result<UnixListener, StartError> {
    let name = SocketAddr::from_abstract_name(format!("punctual-dispatcher-cpu-{cpu}"))?;
    UnixListener::bind_addr(&name).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => StartError::Taken { cpu },
        _ => StartError::Thread(error),
    })
}

pub(super) fn locked(lane: &Mutex<Lane>) -> MutexGuard<'_, Lane> {
    // A panic inside leaves whole numbers; the tables themselves are the dispatcher's.
    lane.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Room in the timetable of a CPU, or for a server there. Other work may use it until an owner takes
/// it. Dropping this gives it back.
pub struct Room {
    lane: Arc<Mutex<Lane>>,
    reservation: Reservation,
    /// The name in the timetable, unless the room was taken.
    name: Option<u32>,
    from: Instant,
}

impl Room {
    /// Makes room for one reservation.
    pub(super) fn of(lane: &Arc<Mutex<Lane>>, reservation: Reservation) -> Result<Self, Refused> {
        let (name, from) = locked(lane).admit(reservation)?;
        Ok(Self { lane: Arc::clone(lane), reservation, name: Some(name), from })
    }

    /// Makes room for a server.
    pub(super) fn of_server(
        lane: &Arc<Mutex<Lane>>,
        reservation: Reservation,
    ) -> Result<Self, Refused> {
        let (name, from) = locked(lane).admit_server(reservation)?;
        Ok(Self { lane: Arc::clone(lane), reservation, name: Some(name), from })
    }

    /// Makes room for all of `asked`, which begin together, or for none.
    pub(super) fn of_all(
        lane: &Arc<Mutex<Lane>>,
        asked: &[Reservation],
    ) -> Result<Vec<Self>, Refused> {
        let admitted = {
            // Under one lock, so that no other request comes in between.
            let mut lane = locked(lane);
            (!asked.is_empty() && lane.is_empty()).then(|| lane.admit_together(asked))
        };
        let Some(admitted) = admitted else {
            return asked.iter().map(|reservation| Self::of(lane, *reservation)).collect();
        };
        let (first, from) = admitted?;
        let names = (0..).map(|at| first.wrapping_add(at));
        let room = |(reservation, name): (&Reservation, u32)| Self {
            lane: Arc::clone(lane),
            reservation: *reservation,
            name: Some(name),
            from,
        };
        Ok(asked.iter().zip(names).map(room).collect())
    }

    /// Returns the budget and the period.
    pub fn reservation(&self) -> Reservation {
        self.reservation
    }

    /// Returns the CPU of its timetable or server.
    pub fn cpu(&self) -> usize {
        locked(&self.lane).cpu()
    }

    /// Returns the level at which the first thread begins, if it is of a server.
    pub(super) fn level(&self) -> Option<u8> {
        let (lane, name) = (locked(&self.lane), self.name?);
        let of_server = matches!(lane.system.back_end(name), Some(BackEnd::Server { .. }));
        of_server.then(|| lane.level_of(name))
    }

    pub(super) fn lane(&self) -> &Arc<Mutex<Lane>> {
        &self.lane
    }

    /// Leaves the room to the caller: returns its name, its reservation, and from when on it
    /// counts.
    pub(super) fn into_parts(mut self) -> (u32, Reservation, Instant) {
        let name = self.name.take().expect("taken once");
        (name, self.reservation, self.from)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(name) = self.name {
            locked(&self.lane).release(name);
        }
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { reservation, name, from, .. } = self;
        let mut all = f.debug_struct("Room");
        all.field("reservation", reservation).field("name", name).field("from", from);
        all.finish_non_exhaustive()
    }
}
