//! The state of the run loop: the policies, the handlers, and its ends of the queues.

use std::any::Any;

use punctual_linux::sched::SchedError;
use punctual_model::{Duration, Instant, Service};
use punctual_policy::ready::ReadySet;
use punctual_policy::rmdp::Rmdp;
use punctual_policy::virtual_time::VirtualTime;
use punctual_ring::spsc;
use punctual_trace::Event;

use super::orders::{Order, Reply};
use crate::level_order::{LevelOrder, Rates};
use crate::placement::{Grant, NotGranted, Placement};
use crate::upcalls::admission::Work;
use crate::upcalls::notice::{Activity, Notice};

/// The state that the executor's thread owns. Its policies identify an upcall by its slot; its
/// owner uses a number that is never reused.
pub(crate) struct Executor<H> {
    pub(super) policy: Rmdp,
    pub(super) best_effort: VirtualTime,
    pub(super) slots: Vec<Slot<H>>,
    /// Free slots, by their positions: the lowest is taken first.
    pub(super) free: ReadySet,
    pub(super) placement: Placement,
    /// Obtains a class for a thread whose placement is [`Placement::Granted`].
    pub(crate) grant: Option<Grant>,
    pub(super) level_order: Option<LevelOrder>,
    pub(super) grace: Option<Duration>,
    /// The number of containments after which an upcall is closed.
    pub(super) most_contained: u32,
    /// The time by which a release may be noticed late.
    pub(super) release_window: Duration,
    pub(super) events: spsc::Producer<Event>,
    pub(super) notices: spsc::Producer<Notice>,
    pub(super) orders: rtrb::Consumer<Order<H>>,
    pub(super) answers: rtrb::Producer<Reply<H>>,
    /// The count of wake-ups when the orders were last looked at.
    pub(super) seen_events: u32,
    /// True if an order was followed since a policy last chose. An owner that sends one order
    /// after the other thus keeps no upcall from running.
    pub(super) obeyed: bool,
    /// Replaced rates of the order across processes, which the owner frees.
    pub(super) retired: Vec<Rates>,
    /// The room for notices in their queue.
    pub(super) notices_room: usize,
    /// Handlers that have not returned.
    pub(super) out: Vec<Out<H>>,
    /// The queue by which the handler that now runs returns if it is contained.
    pub(super) home: Option<rtrb::Consumer<Home<H>>>,
    /// The iteration that runs.
    pub(super) running: Option<Running>,
    pub(super) gave_way: bool,
    /// True if the guard's timer is set.
    pub(super) busy: bool,
    /// Set while best effort runs in an ordinary thread: the next release, and the period of the
    /// upcall that is released then.
    pub(super) background: Option<(Instant, Duration)>,
    /// The processor time of threads that were replaced, up to then.
    pub(super) exec_time: Service,
}

pub(super) struct Slot<H> {
    /// The upcall's number; `None` for a free slot.
    pub(super) task: Option<u32>,
    pub(super) work: Option<Work>,
    /// The handler; absent while an iteration of it runs.
    pub(super) handler: Option<Box<H>>,
    /// The time that an iteration may take.
    pub(super) limit: Duration,
    /// The number of containments, and the time of the last one.
    pub(super) contained: u32,
    pub(super) contained_at: Instant,
    pub(super) activity: Activity,
}

/// The payload of a panic.
pub(crate) type Payload = Box<dyn Any + Send>;

/// A contained handler that returned, or the panic in which it was lost.
pub(crate) type Home<H> = Result<Box<H>, Payload>;

/// A contained handler.
pub(crate) struct Out<H> {
    pub(super) slot: u32,
    pub(crate) task: u32,
    pub(crate) comes_by: rtrb::Consumer<Home<H>>,
    /// The earliest time at which it is released again.
    pub(super) not_before: Instant,
}

/// The iteration that runs.
#[derive(Clone, Copy)]
pub(super) struct Running {
    pub(super) slot: u32,
    pub(super) index: u64,
    pub(super) release: Instant,
    pub(super) real_time: bool,
}

/// The reason why the run loop ended.
pub(crate) enum End {
    /// The owner stopped it.
    Stopped,
    /// The kernel took the class away.
    Class(SchedError),
    /// A handler panicked.
    Panicked(Payload),
    /// After a containment the next thread was granted no class.
    NotGranted(NotGranted),
    /// There is no guard any more: after a containment no thread could be created for the next one,
    /// or its timer failed.
    Unwatched(std::io::Error),
}

impl From<SchedError> for End {
    fn from(error: SchedError) -> Self {
        Self::Class(error)
    }
}

impl<H> Slot<H> {
    pub(super) fn is_best_effort(&self) -> bool {
        matches!(self.work, Some(Work::BestEffort(_)))
    }

    pub(super) fn free() -> Self {
        Self {
            task: None,
            work: None,
            handler: None,
            limit: Duration::ZERO,
            contained: 0,
            contained_at: Instant::ZERO,
            activity: Activity::Closed,
        }
    }
}
