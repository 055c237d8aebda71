//! The upcalls of a process, from their creation to their end.
//!
//! The calls of the paper (real-time upcalls, §6, Table 1): [`Upcalls::create`] and
//! [`Running::create`] are `rts_creat`, [`Upcalls::run`] and [`Running::resume`] are `rts_run`,
//! [`Running::suspend`] is `rts_suspend`, [`Running::wait`] is `rts_sleep`, [`Running::close`] and
//! [`Running::stop`] are `rts_close`.
//!
//! - [`Upcalls`]: upcalls that do not run yet, and their start; `options`.
//! - [`Running`]: upcalls that run.
//! - [`Notice`], [`Activity`]: reports to the owner.
//! - `admission`: the promises to all of them.
//!
//! # On a virtual machine
//!
//! A host may give a virtual CPU that halts between two jobs back milliseconds late, at any
//! priority: `punctual doctor` measures that. Upcalls need no option for it: hold an
//! [`Awake`](punctual_linux::awake::Awake) while they run. It costs the CPU's whole time, as the
//! host sees it.
//!
//! ```no_run
//! use punctual_linux::awake::Awake;
//! use punctual_linux::thread;
//! # use punctual_model::{Handler, Instant};
//! use punctual_runtime::Upcalls;
//!
//! # struct Sender;
//! # impl Handler for Sender {
//! #     fn iterate(&mut self, _: Instant, pdus: u32) -> u32 { pdus }
//! # }
//! # fn example(upcalls: Upcalls<Sender>) -> Result<(), Box<dyn std::error::Error>> {
//! // Before the first release, and until after the last job.
//! let awake = Awake::start(&thread::affinity())?;
//! let running = upcalls.run(punctual_linux::clock::now())?;
//! // …
//! running.stop()?;
//! drop(awake);
//! # Ok(())
//! # }
//! ```

pub(crate) mod admission;
mod error;
pub(crate) mod notice;
mod options;
mod queues;
mod running;
#[cfg(test)]
mod tests;

use std::sync::{Arc, mpsc};

use punctual_linux::clock;
use punctual_model::{BestEffort, Duration, Handler, HostProfile, Instant, Upcall};
use punctual_ring::lease::Held;
use punctual_ring::spsc;

use crate::placement::{Grant, Placement};
use crate::run_loop;
use crate::run_loop::{Executor, Queues, Shared};
use admission::{Promises, Work};
use running::Observer;

pub use error::{CreateError, OrderError, StartError};
pub use notice::{Activity, Notice, NoticeKind};
pub use running::{Running, Stopped};

/// The default room for upcalls that are created while others run.
const ROOM: usize = 64;

/// The time by which an iteration may exceed its quantum before it is contained.
const GRACE: Duration = Duration::from_millis(1);

/// The number of containments after which an upcall is closed.
const MOST_CONTAINED: u32 = 3;

/// Upcalls that were created and do not run yet. `H` is the type of their handlers (a
/// `Box<dyn Handler + Send>` for several).
///
/// ```no_run
/// use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
/// use punctual_runtime::{Placement, Upcalls};
///
/// struct Count(u32);
/// impl Handler for Count {
///     fn iterate(&mut self, _now: Instant, pdus: u32) -> u32 {
///         self.0 += pdus;
///         pdus
///     }
/// }
///
/// let sender = Upcall::new(UpcallSpec {
///     name: "sender".into(),
///     period: Duration::from_millis(40),
///     batch: 8,
///     quantum: 2,
///     time_per_pdu: Service::from_micros(250),
/// })?;
/// let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
/// upcalls.create(sender, Count(0))?;
/// let running = upcalls.run(punctual_linux::clock::now())?;
/// # std::thread::sleep(std::time::Duration::from_secs(1));
/// let stopped = running.stop()?;
/// println!("{} PDUs", stopped.handlers[0].0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Upcalls<H> {
    promises: Promises,
    /// Each handler with the offset of its first release.
    handlers: Vec<(H, Duration)>,
    room: usize,
    event_room: Option<usize>,
    most_contained: u32,
    observer: Option<Box<dyn FnMut(Notice) + Send>>,
    grant: Option<Grant>,
}

impl<H: Handler + Send + 'static> Upcalls<H> {
    /// Creates an empty set of upcalls, to run at `placement` on a host with the profile `host`.
    ///
    /// Handlers that do not return are contained, with a grace of 1 ms, except in an ordinary
    /// thread, which promises nothing.
    pub fn new(placement: Placement, host: HostProfile) -> Self {
        let grace = (placement != Placement::Ordinary).then_some(GRACE);
        Self {
            promises: Promises::new(placement, host, grace),
            handlers: Vec::new(),
            room: ROOM,
            event_room: None,
            most_contained: MOST_CONTAINED,
            observer: None,
            grant: None,
        }
    }

    /// Admits an upcall and returns its number, which is `JobId::task` in all events: 0 for the
    /// first, and one more for each.
    ///
    /// Real-time upcalls are admitted together by the exact test, with the grace of containment.
    /// Inside a reservation the sum of their utilisations is compared with its share: a necessary
    /// condition, not a sufficient one ([`Self::with_proof_inside`] is sufficient). An ordinary
    /// thread promises nothing, so everything is admitted.
    pub fn create(&mut self, upcall: Upcall, handler: H) -> Result<u32, CreateError> {
        self.create_at(upcall, handler, Duration::ZERO)
    }

    /// Admits an upcall as [`Self::create`] does, first released `phase` after the start of
    /// [`Self::run`]. A phase of more than a period means a later start.
    ///
    /// Admission does not depend on phases: it holds for all of them, because a late start or a
    /// change of period moves them. Phases only change how many jobs are released at once.
    ///
    /// ```
    /// use punctual_model::{Duration, Handler, HostProfile, Instant, Service, Upcall, UpcallSpec};
    /// use punctual_runtime::{Placement, Upcalls};
    ///
    /// # struct Sender;
    /// # impl Handler for Sender {
    /// #     fn iterate(&mut self, _: Instant, pdus: u32) -> u32 { pdus }
    /// # }
    /// let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    /// // Four senders that take turns instead of all sending at once.
    /// for sender in 0..4 {
    ///     let upcall = Upcall::new(UpcallSpec {
    ///         name: format!("sender {sender}"),
    ///         period: Duration::from_millis(40),
    ///         batch: 1,
    ///         quantum: 1,
    ///         time_per_pdu: Service::from_micros(250),
    ///     })?;
    ///     upcalls.create_at(upcall, Sender, Duration::from_millis(10) * sender)?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_at(
        &mut self,
        upcall: Upcall,
        handler: H,
        phase: Duration,
    ) -> Result<u32, CreateError> {
        self.add(Work::RealTime(upcall), handler, phase)
    }

    /// Adds a best-effort upcall: it runs when no real-time upcall of the process wants the CPU, as
    /// an ordinary thread of the host. Its quantum is admitted as blocking of the other upcalls.
    /// Returns its number, as [`Self::create`] does.
    ///
    /// ```
    /// use punctual_model::{
    ///     BestEffort, BestEffortSpec, Duration, Handler, HostProfile, Instant, Service,
    /// };
    /// use punctual_runtime::{Placement, Upcalls};
    ///
    /// struct Log;
    /// impl Handler for Log {
    ///     fn iterate(&mut self, _now: Instant, _pdus: u32) -> u32 {
    ///         0 // Nothing to write: called again 20 ms later.
    ///     }
    /// }
    ///
    /// let log = BestEffort::new(BestEffortSpec {
    ///     name: "log".into(),
    ///     weight: 1,
    ///     quantum: 1,
    ///     time_per_pdu: Service::from_micros(100),
    ///     poll: Duration::from_millis(20),
    /// })?;
    /// let mut upcalls = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1));
    /// assert_eq!(upcalls.create_best_effort(log, Log)?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn create_best_effort(
        &mut self,
        upcall: BestEffort,
        handler: H,
    ) -> Result<u32, CreateError> {
        self.add(Work::BestEffort(upcall), handler, Duration::ZERO)
    }

    fn add(&mut self, work: Work, handler: H, phase: Duration) -> Result<u32, CreateError> {
        let task = self.handlers.len() as u32;
        self.promises.add(task, work, None)?;
        self.handlers.push((handler, phase));
        Ok(task)
    }

    /// Starts a thread that runs all upcalls, and one that watches it. Each upcall is first
    /// released at `start` (CLOCK_MONOTONIC) or its phase after it ([`Self::create_at`]). If
    /// `start` has passed, releases a period ago or more are not caught up with (see
    /// [`first_release`](punctual_policy::rmdp::first_release)).
    ///
    /// Returns when the threads have the scheduling classes they need, or with the reason why not.
    pub fn run(self, start: Instant) -> Result<Running<H>, StartError> {
        let Self { promises, handlers, room, event_room, most_contained, observer, grant } = self;
        let event_room = event_room.unwrap_or_else(|| queues::room_for_events(promises.periods()));
        let (events, for_events) = spsc::channel(event_room);
        let notices_room = queues::room_for_notices(handlers.len() + room);
        let (notices, for_notices) = spsc::channel(notices_room);
        let (for_orders, orders) = rtrb::RingBuffer::new(1);
        let (answers, for_answers) = rtrb::RingBuffer::new(1);
        let (finish, finished) = mpsc::sync_channel(1);
        let room = handlers.len() + room;
        let shared = Arc::new(Shared::new(room, finish)?);
        let queues = Queues { events, notices, notices_room, orders, answers };
        let (placement, grace) = (promises.placement, promises.grace);
        let release_window = promises.release_window;
        let mut executor =
            Executor::new(room, placement, grace, most_contained, release_window, queues);
        executor.grant = grant;
        let next_task = handlers.len() as u32;
        let now = clock::now();
        for ((handler, phase), task) in handlers.into_iter().zip(0..) {
            let work = promises.of(task).expect("admitted").clone();
            let first = match work {
                Work::RealTime(_) => start.saturating_add(phase),
                Work::BestEffort(_) => now,
            };
            executor.enrol(task, work, Box::new(handler), first, now, &shared);
        }
        let executor = Held::new(executor);
        let mut running = Running::new(promises, room, next_task, Arc::clone(&shared), finished);
        running.queues(for_events, for_orders, for_answers);
        if let Some(grace) = grace {
            run_loop::start_guard(&shared, executor.seizer(), grace, placement)?;
        }
        let (ready, is_ready) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("upcalls".into()).spawn({
            let shared = Arc::clone(&shared);
            move || run_loop::begin(executor, &shared, &ready)
        })?;
        shared.add_thread(thread);
        match is_ready.recv() {
            Ok(Ok(())) => {}
            // Dropping `running` ends the threads.
            Ok(Err(refused)) => return Err(refused),
            Err(mpsc::RecvError) => unreachable!("it says whether it has its class first"),
        }
        running.observer = Some(Observer::new(observer, for_notices, shared)?);
        Ok(running)
    }
}
