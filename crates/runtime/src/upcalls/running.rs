//! Upcalls that run, in their owner's hands.

use std::panic;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};
use std::time::Duration as StdDuration;

use punctual_linux::clock;
use punctual_model::{Backlog, BestEffort, Duration, Instant, Service, Upcall};
use punctual_ring::spsc::Consumer;
use punctual_trace::Event;

use super::admission::{Promises, Work};
use super::observer::Observer;
use super::{Activity, CreateError, Notice, OrderError, StartError};
use crate::turning::{Answer, End, Finish, Order, Out, Shared};

/// How long [`Running::stop`] waits for handlers that were put aside, and for the turn that runs.
const PATIENCE: Duration = Duration::from_secs(2);

/// Upcalls that run. Dropping it stops them.
///
/// Every call here is for ordinary threads: it may wait for the end of the turn that runs. None of
/// them holds the upcalls up: they take orders between two turns, without a lock.
pub struct Running<H> {
    promises: Promises,
    /// Numbers and slots of all that were not closed.
    members: Vec<(u32, u32)>,
    room: usize,
    next_task: u32,
    shared: Arc<Shared<H>>,
    finished: Receiver<Finish<H>>,
    events: Option<Consumer<Event>>,
    orders: Option<rtrb::Producer<Order<H>>>,
    answers: Option<rtrb::Consumer<Answer<H>>>,
    pub(super) observer: Option<Observer>,
}

/// What is left of upcalls that ran.
pub struct Stopped<H> {
    /// The handlers that were not closed and are not stuck, in the order of their creation.
    pub handlers: Vec<H>,
    /// The number of the upcall of each of them.
    pub tasks: Vec<u32>,
    /// Upcalls whose handlers had been put aside and have not come back. Each has a thread, as an
    /// ordinary one of the least weight, that is leaked: it ends when its handler returns.
    pub stuck: Vec<u32>,
    /// Events that nobody had drained.
    pub events: Vec<Event>,
    /// Events dropped because nobody drained them in time.
    pub events_lost: u64,
    /// Jobs that were released and not complete.
    pub unfinished: Vec<Backlog>,
    /// Processor time that all of them took together; of a thread that was put aside, until then.
    pub exec_time: Service,
}

impl<H> Running<H> {
    pub(super) fn new(
        promises: Promises,
        room: usize,
        next_task: u32,
        shared: Arc<Shared<H>>,
        finished: Receiver<Finish<H>>,
    ) -> Self {
        // Those created before they ran have the first slots, in their order.
        let members = (0..next_task).map(|task| (task, task)).collect();
        let (events, orders, answers, observer) = (None, None, None, None);
        Self {
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
        answers: rtrb::Consumer<Answer<H>>,
    ) {
        (self.events, self.orders, self.answers) = (Some(events), Some(orders), Some(answers));
    }

    /// Takes out what happened since the last call.
    pub fn drain(&mut self) -> impl Iterator<Item = Event> + '_ {
        std::iter::from_fn(|| self.events.as_mut()?.pop())
    }

    /// Takes out the notices since the last call; none if somebody observes them
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

    /// Admits one more upcall beside those that run, first released at `first_release`; gives its
    /// number.
    ///
    /// ```no_run
    /// # use punctual_model::{Duration, Handler, Upcall};
    /// # fn example<H: Handler + Send + 'static>(
    /// #     mut running: punctual_runtime::Running<H>, upcall: Upcall, handler: H,
    /// # ) -> Result<(), punctual_runtime::CreateError> {
    /// let soon = punctual_linux::clock::now() + Duration::from_millis(10);
    /// let number = running.create(upcall, handler, soon)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create(
        &mut self,
        upcall: Upcall,
        handler: H,
        first_release: Instant,
    ) -> Result<u32, CreateError> {
        self.add(Work::RealTime(upcall), handler, first_release)
    }

    /// Adds one more best-effort upcall, which is asked from now on; gives its number. As
    /// [`super::Upcalls::create_best_effort`].
    pub fn create_best_effort(
        &mut self,
        upcall: BestEffort,
        handler: H,
    ) -> Result<u32, CreateError> {
        self.add(Work::BestEffort(upcall), handler, clock::now())
    }

    fn add(&mut self, work: Work, handler: H, first_release: Instant) -> Result<u32, CreateError> {
        let task = self.next_task;
        self.promises.add(task, work.clone())?;
        let handler = Box::new(handler);
        let outcome = match self.ask(Order::Create { task, work, handler, first_release }) {
            Some(Answer::Created { slot }) => {
                self.next_task += 1;
                self.members.push((task, slot));
                return Ok(task);
            }
            Some(Answer::NoRoom { handler }) => {
                drop(handler);
                CreateError::NoRoom { room: self.room }
            }
            _ => CreateError::Ended,
        };
        self.promises.remove(task);
        Err(outcome)
    }

    /// Lets an upcall go: it is released no more, what was released and is not complete is dropped,
    /// and its handler is given back.
    ///
    /// ```no_run
    /// # fn example<H>(mut running: punctual_runtime::Running<H>)
    /// # -> Result<(), punctual_runtime::OrderError> {
    /// let handler = running.close(0)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn close(&mut self, task: u32) -> Result<H, OrderError> {
        match self.ask(Order::Close { task }) {
            Some(Answer::Closed { handler, old }) => {
                drop(old);
                // Those it was promised beside keep their promise: what is out is below all.
                self.promises.remove(task);
                self.members.retain(|(member, _)| *member != task);
                handler.map(|handler| *handler).ok_or(OrderError::StillOut { task })
            }
            Some(_) => Err(OrderError::NoSuchUpcall { task }),
            None => Err(OrderError::Ended),
        }
    }

    /// Releases an upcall no more, until it is resumed; what was released and is not complete is
    /// dropped. Its promise stays admitted.
    ///
    /// ```no_run
    /// # fn example<H>(mut running: punctual_runtime::Running<H>)
    /// # -> Result<(), punctual_runtime::OrderError> {
    /// running.suspend(0)?;
    /// running.resume(0)?; // Released again at the instants it would have been.
    /// # Ok(())
    /// # }
    /// ```
    pub fn suspend(&mut self, task: u32) -> Result<(), OrderError> {
        self.tell(task, Order::Suspend { task })
    }

    /// Releases an upcall again, at the instants it would have been released had it never been
    /// suspended, from the next on. See [`Self::suspend`].
    pub fn resume(&mut self, task: u32) -> Result<(), OrderError> {
        self.tell(task, Order::Resume { task })
    }

    fn tell(&mut self, task: u32, order: Order<H>) -> Result<(), OrderError> {
        match self.ask(order) {
            Some(Answer::Done { old }) => {
                drop(old);
                Ok(())
            }
            Some(_) => Err(OrderError::NoSuchUpcall { task }),
            None => Err(OrderError::Ended),
        }
    }

    /// Changes the contract of an upcall while it runs, if everything holds with the new one; else
    /// nothing changes.
    ///
    /// With the same period the phase stays; with another, its first release is at the end of the
    /// current one. Of several jobs that are late then only one remains.
    ///
    /// ```no_run
    /// # fn example<H>(mut running: punctual_runtime::Running<H>, faster: punctual_model::Upcall)
    /// # -> Result<(), punctual_runtime::CreateError> {
    /// running.change(0, faster)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn change(&mut self, task: u32, upcall: Upcall) -> Result<(), CreateError> {
        let before = self.promises.of(task).cloned();
        self.promises.change(task, upcall.clone())?;
        match self.ask(Order::Change { task, upcall }) {
            Some(Answer::Done { old }) => {
                drop(old);
                Ok(())
            }
            answer => {
                self.promises.remove(task);
                if let Some(before) = before {
                    // It held before.
                    let _ = self.promises.add(task, before);
                }
                let ended = answer.is_none();
                Err(if ended { CreateError::Ended } else { CreateError::NoSuchUpcall { task } })
            }
        }
    }

    /// Whether an upcall is being released.
    ///
    /// ```no_run
    /// # use punctual_runtime::Activity;
    /// # fn example<H>(running: punctual_runtime::Running<H>) {
    /// assert_eq!(running.activity(0), Activity::Active);
    /// # }
    /// ```
    pub fn activity(&self, task: u32) -> Activity {
        let slot = self.members.iter().find(|(member, _)| *member == task);
        slot.map_or(Activity::Closed, |(_, slot)| self.shared.activity(*slot, task))
    }

    /// Waits until at least one of these upcalls is inactive (suspended, contained or closed), but
    /// not beyond `until`; those that are.
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
            let rings = self.shared.changed.rings();
            let inactive = |task: &&u32| self.activity(**task) != Activity::Active;
            let inactive: Vec<u32> = tasks.iter().filter(inactive).copied().collect();
            if !inactive.is_empty() || clock::now() >= until {
                return inactive;
            }
            self.shared.changed.sleep_until(rings, until);
        }
    }

    /// Gives an order and waits for the answer; none if nobody turns any more.
    fn ask(&mut self, order: Order<H>) -> Option<Answer<H>> {
        let (orders, answers) = (self.orders.as_mut()?, self.answers.as_mut()?);
        // One order at a time: there is room.
        orders.push(order).ok()?;
        self.shared.bell.ring();
        loop {
            let rings = self.shared.answered.rings();
            if let Ok(answer) = answers.pop() {
                return Some(answer);
            }
            if self.shared.is_over() {
                return answers.pop().ok();
            }
            self.shared.answered.sleep_until(rings, clock::now() + Duration::from_millis(100));
        }
    }

    /// Asks the upcalls to end at the next end of a turn, waits for it, and gives the handlers
    /// back. Their threads, and with them their scheduling classes, are gone then.
    ///
    /// For handlers that were put aside it waits up to two seconds more; [`Stopped::stuck`] says
    /// which have not come back. Without containment it waits for the handler that runs, however
    /// long that takes.
    ///
    /// An error if the kernel took the class away while they ran. A panic of a handler goes on in
    /// the caller.
    pub fn stop(mut self) -> Result<Stopped<H>, StartError> {
        let Finish { end, unfinished, exec_time, mut handlers, out } = self.end();
        match end {
            End::Stopped => {}
            End::Class(refused) => return Err(refused.into()),
            End::Unwatched(none) => return Err(none.into()),
            End::Panicked(panic) => panic::resume_unwind(panic),
        }
        let stuck = come_home(out, &mut handlers);
        self.join_all(stuck.len());
        if let Some(observer) = &mut self.observer {
            let shared = &self.shared;
            observer.end(|| shared.noticed.ring());
        }
        handlers.sort_by_key(|(task, _)| *task);
        let (tasks, handlers) =
            handlers.into_iter().map(|(task, handler)| (task, *handler)).unzip();
        let events: Vec<Event> = self.drain().collect();
        let events_lost = self.events.as_ref().map_or(0, Consumer::lost);
        Ok(Stopped { handlers, tasks, stuck, events, events_lost, unfinished, exec_time })
    }

    /// Ends turning and watching; what is left.
    fn end(&mut self) -> Finish<H> {
        if let Some(orders) = &mut self.orders {
            // Full only if nobody turns any more.
            let _ = orders.push(Order::Stop);
        }
        self.shared.bell.ring();
        let finish = self.finished.recv();
        self.shared.end_guard();
        self.orders = None;
        finish.expect("the sender is in what we share")
    }

    /// Waits for the threads to end, but for those of stuck handlers only a moment.
    fn join_all(&self, stuck: usize) {
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
            if threads.len() <= stuck || (stuck > 0 && clock::now() >= until) {
                return;
            }
            std::thread::sleep(StdDuration::from_micros(200));
        }
    }
}

/// Waits for handlers that were put aside; the numbers of those that have not come.
fn come_home<H>(mut out: Vec<Out<H>>, handlers: &mut Vec<(u32, Box<H>)>) -> Vec<u32> {
    let until = clock::now() + PATIENCE;
    loop {
        out.retain_mut(|out| {
            // In this order: its thread sends the handler home and only then lets go. Of one that
            // was lost in a panic nothing comes.
            let has_let_go = out.comes_by.is_abandoned();
            let came = out.comes_by.pop().ok();
            let is_out = came.is_none() && !has_let_go;
            handlers.extend(came.map(|handler| (out.task, handler)));
            is_out
        });
        if out.is_empty() || clock::now() >= until {
            return out.into_iter().map(|out| out.task).collect();
        }
        std::thread::sleep(StdDuration::from_millis(1));
    }
}

impl<H> Drop for Running<H> {
    fn drop(&mut self) {
        let mut stuck = 0;
        if self.orders.is_some() && self.shared.has_begun() {
            let finish = self.end();
            stuck = come_home(finish.out, &mut Vec::new()).len();
        }
        self.shared.end_guard();
        self.join_all(stuck);
        if let Some(observer) = &mut self.observer {
            let shared = &self.shared;
            observer.end(|| shared.noticed.ring());
        }
    }
}
