//! The upcalls of a process, from their creation to their end.
//!
//! The calls of the paper (real-time upcalls, §6, Table 1): [`Upcalls::create`] and
//! [`Running::create`] are `rts_creat`, [`Upcalls::run`] and [`Running::resume`] are `rts_run`,
//! [`Running::suspend`] is `rts_suspend`, [`Running::wait`] is `rts_sleep`, [`Running::close`] and
//! [`Running::stop`] are `rts_close`.
//!
//! - [`Upcalls`]: what does not run yet.
//! - [`Running`]: what runs.
//! - [`Notice`], [`Activity`]: what an owner is told.
//! - `admission`: what they were promised, together.

pub(crate) mod admission;
mod error;
pub(crate) mod notice;
mod observer;
mod running;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::mpsc;

use punctual_linux::clock;
use punctual_model::{BestEffort, Duration, Handler, HostProfile, Instant, Upcall};
use punctual_ring::baton::Held;
use punctual_ring::spsc;

use crate::placement::Placement;
use crate::turning::{self, Crew, Queues, Shared};
use admission::{Promises, Work};
use observer::Observer;

pub use error::{CreateError, OrderError, StartError};
pub use notice::{Activity, Notice, NoticeKind};
pub use running::{Running, Stopped};

/// Events that wait in the ring until somebody drains it: some seconds of a busy process.
const EVENTS: usize = 1 << 16;

/// Notices that wait.
const NOTICES: usize = 1 << 12;

/// Upcalls of which no more is said than that they may be created while others run.
const ROOM: usize = 64;

/// How much more than its quantum an iteration may take before it is put aside.
const GRACE: Duration = Duration::from_millis(1);

/// Containments after which an upcall is closed.
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
    /// Each with the offset of its first release.
    handlers: Vec<(H, Duration)>,
    room: usize,
    most_contained: u32,
    observer: Option<Box<dyn FnMut(Notice) + Send>>,
}

impl<H: Handler + Send + 'static> Upcalls<H> {
    /// No upcalls yet, to run at `placement` on a host of which admission knows `host`.
    ///
    /// Handlers that do not come back are contained, with a grace of 1 ms, except in an ordinary
    /// thread, which promises nothing.
    pub fn new(placement: Placement, host: HostProfile) -> Self {
        let grace = (placement != Placement::Ordinary).then_some(GRACE);
        Self {
            promises: Promises::new(placement, host, grace),
            handlers: Vec::new(),
            room: ROOM,
            most_contained: MOST_CONTAINED,
            observer: None,
        }
    }

    /// An iteration may take so much more than its quantum's time before its thread is put aside,
    /// counted as processor time for as long as it wants more. Admission counts it: a handler that
    /// does not come back costs the other upcalls no deadline, as long as it is the only one of
    /// them within one busy period. To be said before the first upcall is created.
    ///
    /// Below some 100 µs it says little: waking the thread that contains takes about as long, and
    /// where it finds nobody amid an iteration it looks again after 100 µs.
    ///
    /// ```
    /// use punctual_model::{Duration, Handler, HostProfile, Instant};
    /// use punctual_runtime::{Placement, Upcalls};
    ///
    /// # struct Sender;
    /// # impl Handler for Sender {
    /// #     fn iterate(&mut self, _: Instant, pdus: u32) -> u32 { pdus }
    /// # }
    /// let upcalls: Upcalls<Sender> = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1))
    ///     .with_grace(Duration::from_micros(300))
    ///     .with_most_containments(1);
    /// ```
    ///
    /// # Panics
    /// If an upcall was created: it was admitted with another grace.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        assert!(self.handlers.is_empty(), "say the grace before the first upcall");
        if self.promises.placement != Placement::Ordinary {
            self.promises.grace = Some(grace);
        }
        self
    }

    /// Handlers that do not come back are not contained: they hold up every upcall of the host.
    /// Admission counts no grace, and no thread watches. To be said before the first upcall is
    /// created. See [`Self::with_grace`].
    ///
    /// # Panics
    /// If an upcall was created: it was admitted with a grace.
    #[must_use]
    pub fn without_containment(mut self) -> Self {
        assert!(self.handlers.is_empty(), "say it before the first upcall");
        self.promises.grace = None;
        self
    }

    /// A release may be noticed so much late (not at all without this), so that those of one window
    /// share a wake-up: with nothing to do, the thread sleeps until `window` after the next release
    /// instead of until that release. While it has something to do, releases are noticed as ever.
    ///
    /// It pays where many upcalls with unlike phases have little to do each: an empty job alone in
    /// its wake-up costs some microseconds, most of them the kernel's timer and switch; one that
    /// shares a wake-up costs a fraction of that. Admission counts the window as a stretch in which
    /// all upcalls wait: once a busy period at most, at its beginning. So an upcall whose deadline is
    /// not longer than the window is refused. (Inside a reservation only under
    /// [`Self::with_proof_inside`].)
    ///
    /// Other processes learn that the thread waits when it is to wake, not at the release; it waits
    /// at the level of its most urgent upcall that is not suspended. Best effort does not run
    /// in the window.
    ///
    /// To be said before the first upcall is created.
    ///
    /// ```
    /// use punctual_model::{Duration, Handler, HostProfile, Instant};
    /// use punctual_runtime::{Placement, Upcalls};
    ///
    /// # struct Sender;
    /// # impl Handler for Sender {
    /// #     fn iterate(&mut self, _: Instant, pdus: u32) -> u32 { pdus }
    /// # }
    /// let upcalls: Upcalls<Sender> = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1))
    ///     .with_release_window(Duration::from_micros(500));
    /// ```
    ///
    /// # Panics
    /// If an upcall was created: it was admitted without this.
    #[must_use]
    pub fn with_release_window(mut self, window: Duration) -> Self {
        assert!(self.handlers.is_empty(), "say the window before the first upcall");
        self.promises.release_window = window;
        self
    }

    /// An upcall is closed when it is contained for the `most`-th time (at least once; without
    /// this, the third). See [`Self::with_grace`].
    #[must_use]
    pub fn with_most_containments(mut self, most: u32) -> Self {
        self.most_contained = most.max(1);
        self
    }

    /// While upcalls run there is room for so many more (without this, 64).
    #[must_use]
    pub fn with_room(mut self, more: usize) -> Self {
        self.room = more;
        self
    }

    /// Inside a reservation, upcalls are held to a proof that they are in time
    /// ([`punctual_analysis::supply::fits_inside`], the budget arriving as late as it may) instead
    /// of to the sum of what they need, which is necessary and not sufficient. It refuses much:
    /// also the soft modem study's own 2 ms every 8 ms for a driver of 12.5 ms.
    #[must_use]
    pub fn with_proof_inside(mut self) -> Self {
        self.promises.sound_inside = true;
        self
    }

    /// `told` is called for every notice, on an ordinary thread of its own: at once for urgent ones
    /// (an overrun under `notify`, and containment), within 50 ms for others. See
    /// [`Running::notices`] for those who ask instead.
    ///
    /// ```no_run
    /// use punctual_model::{Handler, HostProfile, Instant};
    /// use punctual_runtime::{Placement, Upcalls};
    ///
    /// # struct Sender;
    /// # impl Handler for Sender {
    /// #     fn iterate(&mut self, _: Instant, pdus: u32) -> u32 { pdus }
    /// # }
    /// let upcalls: Upcalls<Sender> = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1))
    ///     .observe(|notice| eprintln!("upcall {}: {:?}", notice.task, notice.kind));
    /// ```
    #[must_use]
    pub fn observe(mut self, told: impl FnMut(Notice) + Send + 'static) -> Self {
        self.observer = Some(Box::new(told));
        self
    }

    /// Admits an upcall, and gives its number, which is `JobId::task` in all events: 0 for the
    /// first, and one more for each.
    ///
    /// As real-time upcalls, all are admitted together by the exact test, with the grace of
    /// containment. Inside a reservation the sum of what they need is held against it: necessary,
    /// not sufficient ([`Self::with_proof_inside`] is). An ordinary thread promises nothing, so
    /// everything is admitted.
    pub fn create(&mut self, upcall: Upcall, handler: H) -> Result<u32, CreateError> {
        self.create_at(upcall, handler, Duration::ZERO)
    }

    /// As [`Self::create`], first released `phase` after the start of [`Self::run`]; a phase of more
    /// than a period is a start that is later by that much.
    ///
    /// Admission does not lean on phases: what is admitted holds for all of them, as a late start or
    /// a change of period moves them. What they change is how much happens at once.
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
    /// an ordinary thread of the host. Its quantum is admitted as something the others may have to
    /// wait for. Gives its number, as [`Self::create`].
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
    ///         0 // Nothing to write: asked again 20 ms later.
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
        self.promises.add(task, work)?;
        self.handlers.push((handler, phase));
        Ok(task)
    }

    /// Starts a thread that runs them all, each first released at `start` (CLOCK_MONOTONIC) or its
    /// phase after it ([`Self::create_at`]), and one that watches it.
    ///
    /// Returns when the threads have the scheduling classes they need, or with the reason why not.
    pub fn run(self, start: Instant) -> Result<Running<H>, StartError> {
        let Self { promises, handlers, room, most_contained, observer } = self;
        let (events, for_events) = spsc::channel(EVENTS);
        let (notices, for_notices) = spsc::channel(NOTICES);
        let (for_orders, orders) = rtrb::RingBuffer::new(1);
        let (answers, for_answers) = rtrb::RingBuffer::new(1);
        let (finish, finished) = mpsc::sync_channel(1);
        let room = handlers.len() + room;
        let shared = Arc::new(Shared::new(room, finish)?);
        let queues = Queues { events, notices, notices_room: NOTICES, orders, answers };
        let (placement, grace) = (promises.placement, promises.grace);
        let release_window = promises.release_window;
        let mut crew = Crew::new(room, placement, grace, most_contained, release_window, queues);
        let next_task = handlers.len() as u32;
        let best_effort_from = clock::now();
        for ((handler, phase), task) in handlers.into_iter().zip(0..) {
            let work = promises.of(task).expect("admitted").clone();
            let first = match work {
                Work::RealTime(_) => start.saturating_add(phase),
                Work::BestEffort(_) => best_effort_from,
            };
            crew.enlist(task, work, Box::new(handler), first, &shared);
        }
        let crew = Held::new(crew);
        let mut running = Running::new(promises, room, next_task, Arc::clone(&shared), finished);
        running.queues(for_events, for_orders, for_answers);
        if let Some(grace) = grace {
            turning::start_guard(&shared, crew.seizer(), grace)?;
        }
        let (ready, is_ready) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("upcalls".into()).spawn({
            let shared = Arc::clone(&shared);
            move || turning::begin(crew, &shared, &ready)
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
