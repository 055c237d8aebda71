//! How upcalls are to be run: said before the first is created, or before they run.

use std::error::Error;

use punctual_linux::thread::Tid;
use punctual_model::{Duration, Handler};

use super::{Notice, Upcalls};
use crate::placement::Placement;

impl<H: Handler + Send + 'static> Upcalls<H> {
    /// Who grants the thread its class under [`Placement::Granted`]; of no effect elsewhere.
    ///
    /// `grant` is called by the thread that is to run the upcalls, with its kernel id, before anything
    /// is released; when it has returned the thread must stand under a real-time class, which is looked
    /// at. After a containment the thread that goes on calls it again: the class of the one that was put
    /// aside is gone by then, and what stood behind it is to be given back first. Until it returns no
    /// upcall runs.
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
    /// this, the third). After a minute without another its containments are forgotten. See
    /// [`Self::with_grace`].
    #[must_use]
    pub fn with_most_containments(mut self, most: u32) -> Self {
        self.most_contained = most.max(1);
        self
    }

    /// So many events wait for [`Running::drain`](super::Running::drain), rounded up to a power of two;
    /// more are dropped and counted ([`Running::events_lost`](super::Running::events_lost)).
    ///
    /// Without this: four for each job of the upcalls created before they run, for four seconds, but
    /// from 4,096 to 65,536. An event takes 48 bytes of memory, which is touched at the start.
    ///
    /// ```
    /// use punctual_model::{Handler, HostProfile, Instant};
    /// use punctual_runtime::{Placement, Upcalls};
    ///
    /// # struct Sender;
    /// # impl Handler for Sender {
    /// #     fn iterate(&mut self, _: Instant, pdus: u32) -> u32 { pdus }
    /// # }
    /// // Nobody looks before the end: what a whole run leaves is kept.
    /// let upcalls: Upcalls<Sender> = Upcalls::new(Placement::Upcalls, HostProfile::ideal(1))
    ///     .with_event_room(1 << 18);
    /// ```
    #[must_use]
    pub fn with_event_room(mut self, events: usize) -> Self {
        self.event_room = Some(events);
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
}
