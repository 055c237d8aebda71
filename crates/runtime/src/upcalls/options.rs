//! Options of upcalls, set before the first is created or before they run.

use std::error::Error;

use punctual_linux::thread::Tid;
use punctual_model::{Duration, Handler};

use super::{Notice, Upcalls};
use crate::placement::Placement;

impl<H: Handler + Send + 'static> Upcalls<H> {
    /// Sets the function that has the thread granted its class under [`Placement::Granted`]; has no
    /// effect elsewhere.
    ///
    /// The thread that is to run the upcalls calls `grant`, with its kernel id, before anything is
    /// released. When it has returned, the thread must be in a real-time class, which is checked.
    /// After a containment the thread that goes on calls it again: the class of the replaced thread
    /// is gone by then, and `grant` must first give back the grant behind it. No upcall runs until
    /// it returns.
    ///
    /// `crates/broker/examples/granted_upcalls.rs` is a whole program that asks the broker.
    ///
    /// ```no_run
    /// use punctual_linux::sched::{self, Class};
    /// use punctual_model::{Handler, HostProfile, Instant};
    /// use punctual_runtime::{Placement, Upcalls};
    ///
    /// # struct Sender;
    /// # impl Handler for Sender {
    /// #     fn iterate(&mut self, _: Instant, pdus: u32) -> u32 { pdus }
    /// # }
    /// let upcalls: Upcalls<Sender> = Upcalls::new(Placement::Granted, HostProfile::ideal(1))
    ///     .with_grant(|thread| Ok(sched::set(thread, Class::Fifo { priority: 10 })?));
    /// ```
    #[must_use]
    pub fn with_grant(
        mut self,
        grant: impl FnMut(Tid) -> Result<(), Box<dyn Error + Send + Sync>> + Send + 'static,
    ) -> Self {
        self.grant = Some(Box::new(grant));
        self
    }

    /// Sets the time by which an iteration may exceed its quantum before its thread is replaced,
    /// counted as processor time for as long as it wants more. Admission counts it: a handler that
    /// does not return costs the other upcalls no deadline, as long as it is the only such handler
    /// within one busy period. Must be set before the first upcall is created.
    ///
    /// A grace below some 100 µs has little effect: waking the guard takes about as long, and if it
    /// finds no iteration under way it looks again after 100 µs.
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
    /// Panics if an upcall was created: it was admitted with another grace.
    #[must_use]
    pub fn with_grace(mut self, grace: Duration) -> Self {
        assert!(self.handlers.is_empty(), "say the grace before the first upcall");
        if self.promises.placement != Placement::Ordinary {
            self.promises.grace = Some(grace);
        }
        self
    }

    /// Disables containment: a handler that does not return holds up every upcall of the host.
    /// Admission counts no grace, and no thread watches. Must be set before the first upcall is
    /// created. See [`Self::with_grace`].
    ///
    /// # Panics
    /// Panics if an upcall was created: it was admitted with a grace.
    #[must_use]
    pub fn without_containment(mut self) -> Self {
        assert!(self.handlers.is_empty(), "say it before the first upcall");
        self.promises.grace = None;
        self
    }

    /// Sets the time by which a release may be noticed late (zero without this), so that releases
    /// within one window share a wake-up. With nothing to do, the thread sleeps until `window`
    /// after the next release instead of until that release. While it has something to do, releases
    /// are noticed as ever.
    ///
    /// It pays if many upcalls with different phases have little to do each: an empty job alone in
    /// its wake-up costs some microseconds, most of them for the kernel's timer and switch; one
    /// that shares a wake-up costs a fraction of that. Admission counts the window as a stretch in
    /// which all upcalls wait: once a busy period at most, at its beginning. So an upcall whose
    /// deadline is not longer than the window is refused. (Inside a reservation only under
    /// [`Self::with_proof_inside`].)
    ///
    /// Other processes see the thread's time to wake, not the release, as the time from which it
    /// waits. It waits at the level of its most urgent upcall that is not suspended. Best effort
    /// does not run in the window.
    ///
    /// Must be set before the first upcall is created.
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
    /// Panics if an upcall was created: it was admitted without this.
    #[must_use]
    pub fn with_release_window(mut self, window: Duration) -> Self {
        assert!(self.handlers.is_empty(), "say the window before the first upcall");
        self.promises.release_window = window;
        self
    }

    /// Closes an upcall when it is contained for the `most`-th time (at least once; without this,
    /// the third). Its containments are forgotten after a minute without another. See
    /// [`Self::with_grace`].
    #[must_use]
    pub fn with_most_containments(mut self, most: u32) -> Self {
        self.most_contained = most.max(1);
        self
    }

    /// Sets how many events can wait for [`Running::drain`](super::Running::drain), rounded up to a
    /// power of two; more are dropped and counted
    /// ([`Running::events_lost`](super::Running::events_lost)).
    ///
    /// The default is four for each job that the upcalls created before [`Self::run`] release in
    /// four seconds, but between 4,096 and 65,536. An event takes 48 bytes of memory, which is
    /// touched at the start.
    ///
    /// ```
    /// use punctual_model::{Handler, HostProfile, Instant};
    /// use punctual_runtime::{Placement, Upcalls};
    ///
    /// # struct Sender;
    /// # impl Handler for Sender {
    /// #     fn iterate(&mut self, _: Instant, pdus: u32) -> u32 { pdus }
    /// # }
    /// // Nothing is drained before the end: the events of a whole run are kept.
    /// let upcalls: Upcalls<Sender> = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1))
    ///     .with_event_room(1 << 18);
    /// ```
    #[must_use]
    pub fn with_event_room(mut self, events: usize) -> Self {
        self.event_room = Some(events);
        self
    }

    /// Sets how many more upcalls can be created while others run (64 without this).
    #[must_use]
    pub fn with_room(mut self, more: usize) -> Self {
        self.room = more;
        self
    }

    /// Holds upcalls inside a reservation to a proof that they are in time
    /// ([`punctual_analysis::supply::fits_inside`], the budget arriving as late as it may) instead
    /// of to the sum of their utilisations, which is necessary and not sufficient. It refuses much:
    /// also the soft modem study's own 2 ms every 8 ms for a driver of 12.5 ms.
    #[must_use]
    pub fn with_proof_inside(mut self) -> Self {
        self.promises.sound_inside = true;
        self
    }

    /// Calls `observer` for every notice, on an ordinary thread of its own: at once for urgent ones
    /// (an overrun under `notify`, and containment), within 50 ms for others. Without this the
    /// owner polls [`Running::notices`](super::Running::notices).
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
    pub fn observe(mut self, observer: impl FnMut(Notice) + Send + 'static) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }
}
