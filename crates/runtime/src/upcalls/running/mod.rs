//! Upcalls that run, as their owner sees them.
//!
//! - `orders`: create, close, suspend, resume, change.
//! - `ending`: stop.

mod ending;
mod orders;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use punctual_linux::clock;
use punctual_model::Instant;
use punctual_ring::spsc::Consumer;
use punctual_trace::Event;

use super::admission::Promises;
use super::notice::Observer;
use super::{Activity, Notice};
use crate::run_loop::{Finish, Order, Reply, Shared};

pub use ending::Stopped;

/// Upcalls that run. Dropping it stops them.
///
/// A process forked from the one that started them has none of their threads: there every call
/// reports that they have ended, and dropping it does nothing.
///
/// Every call here is for ordinary threads: it may wait for the end of the current turn. None of
/// them holds the upcalls up: the executor takes orders between two turns, without a lock.
pub struct Running<H> {
    /// The process that has the threads.
    pub(super) owner: u32,
    promises: Promises,
    /// The slots of all upcalls that were not closed, by number.
    members: BTreeMap<u32, u32>,
    room: usize,
    next_task: u32,
    shared: Arc<Shared<H>>,
    finished: Receiver<Finish<H>>,
    events: Option<Consumer<Event>>,
    orders: Option<rtrb::Producer<Order<H>>>,
    answers: Option<rtrb::Consumer<Reply<H>>>,
    pub(super) observer: Option<Observer>,
}

impl<H> Running<H> {
    pub(super) fn new(
        promises: Promises,
        room: usize,
        next_task: u32,
        shared: Arc<Shared<H>>,
        finished: Receiver<Finish<H>>,
    ) -> Self {
        // Upcalls created before the start have the first slots, in their order.
        let members = (0..next_task).map(|task| (task, task)).collect();
        let (events, orders, answers, observer) = (None, None, None, None);
        Self {
            owner: std::process::id(),
            promises,
            members,
            room,
            next_task,
            shared,
            finished,
            events,
            orders,
            answers,
            observer,
        }
    }

    pub(super) fn queues(
        &mut self,
        events: Consumer<Event>,
        orders: rtrb::Producer<Order<H>>,
        answers: rtrb::Consumer<Reply<H>>,
    ) {
        (self.events, self.orders, self.answers) = (Some(events), Some(orders), Some(answers));
    }

    /// Takes out the events since the last call.
    pub fn drain(&mut self) -> impl Iterator<Item = Event> + '_ {
        std::iter::from_fn(|| self.events.as_mut()?.pop())
    }

    /// Returns the number of events dropped so far because they were not drained in time: at most a
    /// ring's worth waits. The record of a run in which this grew has gaps.
    ///
    /// ```no_run
    /// # fn example<H>(mut running: punctual_runtime::Running<H>) {
    /// let events = running.drain().count();
    /// println!("{events} events, {} lost", running.events_lost());
    /// # }
    /// ```
    pub fn events_lost(&self) -> u64 {
        self.events.as_ref().map_or(0, Consumer::lost)
    }

    /// Returns whether the upcalls have ended by themselves: a handler panicked, or the kernel took
    /// the class away. [`Self::stop`] gives the reason.
    ///
    /// ```no_run
    /// # use punctual_model::Duration;
    /// # fn example<H>(running: punctual_runtime::Running<H>) {
    /// while !running.has_ended() {
    ///     punctual_linux::clock::sleep(Duration::from_millis(100));
    /// }
    /// # }
    /// ```
    pub fn has_ended(&self) -> bool {
        self.is_elsewhere() || self.shared.is_over()
    }

    /// Returns whether the threads belong to a process from which this one was forked.
    fn is_elsewhere(&self) -> bool {
        std::process::id() != self.owner
    }

    /// Takes out the notices since the last call; none if an observer gets them
    /// ([`super::Upcalls::observe`]).
    ///
    /// ```no_run
    /// # fn example<H>(mut running: punctual_runtime::Running<H>) {
    /// for notice in running.notices() {
    ///     println!("{}: upcall {}: {:?}", notice.at, notice.task, notice.kind);
    /// }
    /// # }
    /// ```
    pub fn notices(&mut self) -> impl Iterator<Item = Notice> + '_ {
        std::iter::from_fn(|| self.observer.as_mut()?.pop())
    }

    /// Returns the number of notices dropped so far because they were not taken out in time. The
    /// last eighth of their queue is reserved for urgent ones (containment, and an overrun under
    /// `notify`).
    ///
    /// ```no_run
    /// # fn example<H>(running: punctual_runtime::Running<H>) {
    /// if running.notices_lost() > 0 {
    ///     println!("some notices were not read in time");
    /// }
    /// # }
    /// ```
    pub fn notices_lost(&self) -> u64 {
        self.shared.notices_lost()
    }

    /// Returns whether an upcall is released, suspended, contained or closed.
    ///
    /// ```no_run
    /// # use punctual_runtime::Activity;
    /// # fn example<H>(running: punctual_runtime::Running<H>) {
    /// assert_eq!(running.activity(0), Activity::Active);
    /// # }
    /// ```
    pub fn activity(&self, task: u32) -> Activity {
        let slot = self.members.get(&task);
        slot.map_or(Activity::Closed, |slot| self.shared.activity(*slot, task))
    }

    /// Waits until at least one of these upcalls is inactive (suspended, contained or closed), but
    /// not beyond `until`. Returns the inactive ones. Returns none if the time came first, or if
    /// the upcalls have ended ([`Self::has_ended`]): then nothing would ever change.
    ///
    /// ```no_run
    /// # use punctual_model::Duration;
    /// # fn example<H>(mut running: punctual_runtime::Running<H>) {
    /// let in_a_second = punctual_linux::clock::now() + Duration::from_secs(1);
    /// let inactive = running.wait(&[0, 1], in_a_second);
    /// # }
    /// ```
    pub fn wait(&self, tasks: &[u32], until: Instant) -> Vec<u32> {
        loop {
            let events = self.shared.changed.count();
            // Read before the activities, so that every activity set before the end is seen.
            let has_ended = self.has_ended();
            let inactive = |task: &&u32| self.activity(**task) != Activity::Active;
            let inactive: Vec<u32> = tasks.iter().filter(inactive).copied().collect();
            if !inactive.is_empty() || has_ended || clock::now() >= until {
                return inactive;
            }
            self.shared.changed.sleep_until(events, until);
        }
    }
}
