//! Upcalls that run, in their owner's hands.

use std::panic;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, PoisonError};

use punctual_linux::clock;
use punctual_model::{Backlog, BestEffort, Duration, Instant, Service, Upcall};
use punctual_ring::spsc::Consumer;
use punctual_trace::Event;

use super::admission::{Promises, Work};
use super::observer::Observer;
use super::{Activity, CreateError, Notice, OrderError, StartError};
use crate::turning::{Answer, End, Finish, Order, Out, Reply, Shared, drop_quietly};

/// How long [`Running::stop`] waits for handlers that were put aside, and for the turn that runs.
const PATIENCE: Duration = Duration::from_secs(2);

/// A panic that came home instead of a handler.
type Payload = Box<dyn std::any::Any + Send>;

/// Upcalls that run. Dropping it stops them.
///
/// A process forked from the one that started them has none of their threads: there every call says
/// that they have ended, and dropping it does nothing.
///
/// Every call here is for ordinary threads: it may wait for the end of the turn that runs. None of
/// them holds the upcalls up: they take orders between two turns, without a lock.
pub struct Running<H> {
    /// The process that has the threads.
    pub(super) owner: u32,
    promises: Promises,
    /// Numbers and slots of all that were not closed.
    members: Vec<(u32, u32)>,
    room: usize,
    next_task: u32,
    shared: Arc<Shared<H>>,
    finished: Receiver<Finish<H>>,
    events: Option<Consumer<Event>>,
    orders: Option<rtrb::Producer<Order<H>>>,
    answers: Option<rtrb::Consumer<Reply<H>>>,
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

    /// Takes out what happened since the last call.
    pub fn drain(&mut self) -> impl Iterator<Item = Event> + '_ {
        std::iter::from_fn(|| self.events.as_mut()?.pop())
    }

    /// Events dropped so far because nobody drained them in time: at most a ring's worth waits. A
    /// record of a run in which this grew has gaps.
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

    /// Whether nothing runs any more although nobody stopped it: a handler panicked, or the kernel
    /// took the class away. [`Self::stop`] says which.
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

    /// Whether the threads are those of a process this one was forked from.
    fn is_elsewhere(&self) -> bool {
        std::process::id() != self.owner
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

    /// Notices dropped so far because nobody took them out in time. Of those that wait, the last
    /// eighth is kept for urgent ones (containment, and an overrun under `notify`).
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
    /// not beyond `until`; those that are. None if the time came first, or if nothing runs any more
    /// ([`Self::has_ended`]): then nothing would ever change.
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
            // Before the activities: what was said before the end is seen.
            let has_ended = self.has_ended();
            let inactive = |task: &&u32| self.activity(**task) != Activity::Active;
            let inactive: Vec<u32> = tasks.iter().filter(inactive).copied().collect();
            if !inactive.is_empty() || has_ended || clock::now() >= until {
                return inactive;
            }
            self.shared.changed.sleep_until(rings, until);
        }
    }

    /// Gives an order and waits for the answer; none if nobody turns any more.
    fn ask(&mut self, order: Order<H>) -> Option<Answer<H>> {
        if self.is_elsewhere() {
            return None;
        }
        let (orders, answers) = (self.orders.as_mut()?, self.answers.as_mut()?);
        // One order at a time: there is room.
        orders.push(order).ok()?;
        self.shared.bell.ring();
        loop {
            let rings = self.shared.answered.rings();
            let is_over = self.shared.is_over();
            if let Ok(Reply { answer, .. }) = answers.pop() {
                return Some(answer);
            }
            if is_over {
                return None;
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
    /// An error if the kernel took the class away while they ran, if handlers could be contained no
    /// longer, or in a process forked from theirs. A panic of a handler goes on in the caller, also
    /// if the handler had been put aside. Either comes when all is over, as without it.
    pub fn stop(mut self) -> Result<Stopped<H>, StartError> {
        if self.is_elsewhere() {
            return Err(StartError::Forked { owner: self.owner });
        }
        let (finish, stuck, panic) = self.end_all();
        let Finish { end, unfinished, exec_time, mut handlers, .. } = finish;
        match (end, panic) {
            (End::Stopped, None) => {}
            (End::Class(refused), _) => return Err(refused.into()),
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

    /// Ends everything: what is left, whose handlers are stuck, and the panic of one that was put
    /// aside. However they ended: a thread that is stuck keeps nobody waiting.
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
            observer.end(|| shared.noticed.ring());
        }
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

    /// Waits for the threads to end, but for those of stuck handlers only a moment; there may be more
    /// of them than those that are known.
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

/// Waits for handlers that were put aside; the numbers of those that have not come, and the first
/// panic that came instead of one.
fn come_home<H>(
    mut out: Vec<Out<H>>,
    handlers: &mut Vec<(u32, Box<H>)>,
) -> (Vec<u32>, Option<Payload>) {
    let mut panic = None;
    let until = clock::now() + PATIENCE;
    loop {
        out.retain_mut(|out| {
            // In this order: its thread sends the handler home and only then lets go.
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
            // The threads whose handles these are do not exist here.
            std::mem::forget((self.observer.take(), Arc::clone(&self.shared)));
            return;
        }
        if self.orders.is_some() && self.shared.has_begun() {
            // Its panic has nobody to go on in, and perhaps another one is under way.
            drop_quietly(self.end_all());
        }
        self.shared.end_guard();
        self.join_all(0, false);
        self.end_observer();
    }
}
