//! Upcalls that run, as their owner sees them: their notices, and their end, with what is left of
//! them. `orders` has the operations: create, close, suspend, resume, change.

mod orders;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::{io, panic};

use punctual_linux::clock;
use punctual_model::{Backlog, Duration, Instant, Service};
use punctual_ring::spsc::Consumer;
use punctual_trace::Event;

use super::admission::Promises;
use super::notice::{Activity, Notice};
use crate::run_loop::{End, Finish, Order, Out, Reply, Shared, drop_quietly};
use crate::upcalls::StartError;

/// The time for which [`Running::stop`] waits for contained handlers, and for the turn that runs.
const PATIENCE: Duration = Duration::from_secs(2);

/// The interval at which the observer looks for notices that are not urgent.
const LOOKS: Duration = Duration::from_millis(50);

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

    /// Asks the upcalls to end at the end of the current turn, waits for that, and returns the
    /// handlers. Their threads, and with them their scheduling classes, are gone then.
    ///
    /// Waits up to two seconds more for contained handlers; [`Stopped::stuck`] lists those that
    /// have not returned. Without containment it waits for the running handler, however long that
    /// takes.
    ///
    /// Returns an error if the kernel took the class away while they ran, if handlers could be
    /// contained no longer, or in a process forked from theirs. A panic of a handler goes on in the
    /// caller, also if the handler was contained. In either case all threads have ended, as without
    /// an error.
    pub fn stop(mut self) -> Result<Stopped<H>, StartError> {
        if self.is_elsewhere() {
            return Err(StartError::Forked { owner: self.owner });
        }
        let (finish, stuck, panic) = self.end_all();
        let Finish { end, unfinished, exec_time, mut handlers, .. } = finish;
        match (end, panic) {
            (End::Stopped, None) => {}
            (End::Class(refused), _) => return Err(refused.into()),
            (End::NotGranted(why), _) => return Err(StartError::NotGranted(why)),
            (End::Unwatched(why), _) => return Err(StartError::Unwatched(why)),
            (End::Panicked(panic), _) | (End::Stopped, Some(panic)) => panic::resume_unwind(panic),
        }
        handlers.sort_by_key(|(task, _)| *task);
        let (tasks, handlers) =
            handlers.into_iter().map(|(task, handler)| (task, *handler)).unzip();
        let events: Vec<Event> = self.drain().collect();
        let events_lost = self.events_lost();
        Ok(Stopped { handlers, tasks, stuck, events, events_lost, unfinished, exec_time })
    }

    /// Ends the run loop, the guard and the observer, however the upcalls ended. Returns the
    /// remains, the upcalls whose handlers are stuck, and the panic of a contained handler. Does
    /// not wait for a stuck thread to end.
    fn end_all(&mut self) -> (Finish<H>, Vec<u32>, Option<Payload>) {
        let mut finish = self.end();
        let out = std::mem::take(&mut finish.out);
        let (stuck, panic) = come_home(out, &mut finish.handlers);
        self.join_all(stuck.len(), finish.is_lost);
        self.end_observer();
        (finish, stuck, panic)
    }

    fn end_observer(&mut self) {
        if let Some(observer) = &mut self.observer {
            let shared = &self.shared;
            observer.end(|| shared.noticed.notify());
        }
    }

    /// Ends the run loop and the guard. Returns what is left.
    fn end(&mut self) -> Finish<H> {
        if let Some(orders) = &mut self.orders {
            // The queue is full only if the run loop has ended.
            let _ = orders.push(Order::Stop);
        }
        self.shared.wakeups.notify();
        let finish = self.finished.recv();
        self.shared.end_guard();
        self.orders = None;
        finish.expect("the sender is in what we share")
    }

    /// Waits for the threads to end, but only a moment for those of stuck handlers. With `or_more`
    /// there may be more stuck handlers than the `stuck` known ones.
    fn join_all(&self, stuck: usize, or_more: bool) {
        let may_stay = stuck > 0 || or_more;
        let threads = &self.shared.threads;
        let threads = std::mem::take(&mut *threads.lock().unwrap_or_else(PoisonError::into_inner));
        let mut threads = threads;
        let until = clock::now() + PATIENCE;
        while !threads.is_empty() {
            let (ended, running): (Vec<_>, Vec<_>) =
                threads.into_iter().partition(std::thread::JoinHandle::is_finished);
            for thread in ended {
                // A panic in it was printed when it happened.
                let _ = thread.join();
            }
            threads = running;
            if threads.len() <= stuck || (may_stay && clock::now() >= until) {
                return;
            }
            clock::sleep(Duration::from_micros(200));
        }
    }
}

/// A panic that was sent home instead of a handler.
type Payload = Box<dyn std::any::Any + Send>;

/// The remains of upcalls that ran.
pub struct Stopped<H> {
    /// The handlers that were not closed and are not stuck, in the order of their creation.
    pub handlers: Vec<H>,
    /// The number of the upcall of each of them.
    pub tasks: Vec<u32>,
    /// Upcalls whose handlers were contained and have not returned. Each has a thread, an ordinary
    /// one of the least weight, that is leaked: it ends when its handler returns.
    pub stuck: Vec<u32>,
    /// Events that were not drained.
    pub events: Vec<Event>,
    /// The number of events dropped because they were not drained in time.
    pub events_lost: u64,
    /// Jobs that were released and not complete.
    pub unfinished: Vec<Backlog>,
    /// The processor time of all their threads together; for a replaced thread, up to its
    /// replacement.
    pub exec_time: Service,
}

/// Waits for contained handlers. Returns the numbers of the upcalls whose handlers have not
/// returned, and the first panic that came instead of one.
fn come_home<H>(
    mut out: Vec<Out<H>>,
    handlers: &mut Vec<(u32, Box<H>)>,
) -> (Vec<u32>, Option<Payload>) {
    let mut panic = None;
    let until = clock::now() + PATIENCE;
    loop {
        out.retain_mut(|out| {
            // In this order, because its thread sends the handler home before it drops its end.
            let has_let_go = out.comes_by.is_abandoned();
            let came = out.comes_by.pop().ok();
            let is_out = came.is_none() && !has_let_go;
            match came {
                Some(Ok(handler)) => handlers.push((out.task, handler)),
                Some(Err(another)) => match &panic {
                    None => panic = Some(another),
                    Some(_) => drop_quietly(another),
                },
                None => {}
            }
            is_out
        });
        if out.is_empty() || clock::now() >= until {
            return (out.into_iter().map(|out| out.task).collect(), panic);
        }
        clock::sleep(Duration::from_millis(1));
    }
}

impl<H> Drop for Running<H> {
    fn drop(&mut self) {
        if self.is_elsewhere() {
            // The threads behind these handles do not exist in this process.
            std::mem::forget((self.observer.take(), Arc::clone(&self.shared)));
            return;
        }
        if self.orders.is_some() && self.shared.has_begun() {
            // There is no caller in which its panic could go on, and perhaps another one is under
            // way.
            drop_quietly(self.end_all());
        }
        self.shared.end_guard();
        self.join_all(0, false);
        self.end_observer();
    }
}

/// The receiving end of the notices.
pub(super) enum Observer {
    /// Without a thread: the owner takes the notices out itself.
    Polled(Consumer<Notice>),
    /// A thread that calls the owner's function.
    Thread { ends: Arc<AtomicBool>, thread: Option<JoinHandle<()>> },
}

impl Observer {
    pub(super) fn new<H: Send + 'static>(
        callback: Option<Box<dyn FnMut(Notice) + Send>>,
        mut notices: Consumer<Notice>,
        shared: Arc<Shared<H>>,
    ) -> io::Result<Self> {
        let Some(mut callback) = callback else { return Ok(Self::Polled(notices)) };
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = Arc::clone(&ends);
        let body = move || {
            loop {
                let events = shared.noticed.count();
                let is_last = is_over.load(Ordering::Acquire);
                while let Some(notice) = notices.pop() {
                    callback(notice);
                }
                if is_last {
                    return;
                }
                shared.noticed.sleep_until(events, clock::now() + LOOKS);
            }
        };
        let thread = std::thread::Builder::new().name("upcalls-notices".into()).spawn(body)?;
        Ok(Self::Thread { ends, thread: Some(thread) })
    }

    fn pop(&mut self) -> Option<Notice> {
        match self {
            Self::Polled(notices) => notices.pop(),
            Self::Thread { .. } => None,
        }
    }

    /// Reports the last notices and ends. Called when no more notices are made.
    fn end(&mut self, wake: impl FnOnce()) {
        let Self::Thread { ends, thread } = self else { return };
        ends.store(true, Ordering::Release);
        wake();
        if let Some(thread) = thread.take() {
            // A panic of the owner's function was printed when it happened.
            let _ = thread.join();
        }
    }
}
