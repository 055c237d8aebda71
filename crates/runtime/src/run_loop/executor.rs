//! What the one who turns owns: the policies, the handlers, and his ends of the queues.

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

/// The turning state. Its policies know an upcall by its slot, its owner by a number that is not
/// used twice.
pub(crate) struct Executor<H> {
    pub(super) policy: Rmdp,
    pub(super) best_effort: VirtualTime,
    pub(super) slots: Vec<Slot<H>>,
    /// Slots that nobody has, by their positions: the lowest is taken first.
    pub(super) free: ReadySet,
    pub(super) placement: Placement,
    /// Who grants a thread its class, where it is not taken.
    pub(crate) grant: Option<Grant>,
    pub(super) level_order: Option<LevelOrder>,
    pub(super) grace: Option<Duration>,
    /// After so many containments an upcall is closed.
    pub(super) most_contained: u32,
    /// So much after a release it may be noticed.
    pub(super) release_window: Duration,
    pub(super) events: spsc::Producer<Event>,
    pub(super) notices: spsc::Producer<Notice>,
    pub(super) orders: rtrb::Consumer<Order<H>>,
    pub(super) answers: rtrb::Producer<Reply<H>>,
    /// How often the bell was rung when the orders were last looked at.
    pub(super) rings: u32,
    /// An order was followed, and no policy has been asked since: an owner that gives one after the
    /// other keeps no upcall from running.
    pub(super) obeyed: bool,
    /// What the order across processes was; freed by the owner.
    pub(super) retired: Vec<Rates>,
    /// Notices that may wait.
    pub(super) notices_room: usize,
    /// Handlers that have not come back.
    pub(super) out: Vec<Out<H>>,
    /// Where the handler comes back that the running thread is in, should it be put aside.
    pub(super) home: Option<rtrb::Consumer<Home<H>>>,
    /// Whose iteration runs.
    pub(super) running: Option<Running>,
    pub(super) gave_way: bool,
    /// Whether the guard's timer is set.
    pub(super) busy: bool,
    /// Of an ordinary thread, for as long as best effort runs: the next release, and the period of
    /// the upcall that is released then.
    pub(super) background: Option<(Instant, Duration)>,
    /// Processor time of threads that were put aside, until then.
    pub(super) exec_time: Service,
}

pub(super) struct Slot<H> {
    /// Its number; none of a free slot.
    pub(super) task: Option<u32>,
    pub(super) work: Option<Work>,
    /// With its owner while an iteration of it runs.
    pub(super) handler: Option<Box<H>>,
    /// How long an iteration may take.
    pub(super) limit: Duration,
    /// How often it was contained, and when it last was.
    pub(super) contained: u32,
    pub(super) contained_at: Instant,
    pub(super) activity: Activity,
}

/// What a panic leaves.
pub(crate) type Payload = Box<dyn Any + Send>;

/// A handler that was put aside and comes back, or the panic in which it was lost.
pub(crate) type Home<H> = Result<Box<H>, Payload>;

/// A handler that was put aside.
pub(crate) struct Out<H> {
    pub(super) slot: u32,
    pub(crate) task: u32,
    pub(crate) comes_by: rtrb::Consumer<Home<H>>,
    /// It is not released before this.
    pub(super) not_before: Instant,
}

/// Whose iteration runs.
#[derive(Clone, Copy)]
pub(super) struct Running {
    pub(super) slot: u32,
    pub(super) index: u64,
    pub(super) release: Instant,
    pub(super) real_time: bool,
}

/// Why nobody turns any more.
pub(crate) enum End {
    /// It was asked for.
    Stopped,
    /// The kernel took the class away.
    Class(SchedError),
    /// A handler panicked.
    Panicked(Payload),
    /// After a containment the next thread was granted no class.
    NotGranted(NotGranted),
    /// There is no guard any more: after a containment there was no thread for the next one, or its
    /// timer failed.
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
