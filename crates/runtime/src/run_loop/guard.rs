//! The thread that catches handlers that do not return.
//!
//! One thread per process sleeps in read(2) on a timer, just above the running level. It needs no
//! signal, so no handler's system call is interrupted, and it also catches a handler that sleeps
//! where no signal reaches it. The timer is set when the process becomes busy, unless the guard
//! will look in time anyway, and when a turn is to be shorter than the one before; never between
//! two iterations. If the guard wakes early, it sets the timer anew for the instant published
//! since.
//!
//! When that instant has truly passed, the guard seizes the executor from the stuck thread, which
//! has it lent while a handler runs, and goes on with it at the running level. The stuck thread
//! goes on as an ordinary one of the least weight, with its handler, and ends when the handler
//! returns. Another guard is created before any other handler runs.
//!
//! A thread that was kept from running is not at fault: it is held to the processor time it had,
//! for as long as it wants more (`REPRIEVES` times). A thread that sleeps or waits had its time.
//! The account is taken at each look, and by the thread itself when it sets the timer.
//!
//! A stuck thread under SCHED_DEADLINE stays in its class, which only it can leave: the kernel
//! throttles it. The guard takes a reservation of its own for the other upcalls; if there is no
//! bandwidth for a second one, the upcalls end, with that reason.
//!
//! If another program grants the class ([`Placement::Granted`]), the guard has none. It is an
//! ordinary thread that keeps off the CPU of the executor's thread, and looks as soon as another
//! CPU runs it. Taking a class away from the stuck thread needs no privilege. The guard asks for a
//! grant of its own before it goes on; if that is refused, the upcalls end, with that reason.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, mpsc};

use punctual_linux::sched::Class;
use punctual_linux::thread::Tid;
use punctual_linux::{clock, sched, thread, usage};
use punctual_model::{Duration, Handler, Instant};
use punctual_ring::lease::{Held, Seizer};

use super::containment::{CompletionGuard, Demotion};
use super::turns::{finish, turn};
use super::watch::Account;
use super::watchdog::{Iteration, OverrunWatchdog, SHORTEST_PAUSE, Standing};
use super::{End, Executor, Shared};
use crate::level_order::GUARD;
use crate::placement::{Placement, obtain};
use crate::upcalls::StartError;

/// More CPUs than there are: the kernel ignores those that do not exist (sched_setaffinity(2)).
const CPUS: usize = 1024;

/// The guard's own state.
struct Guard<H> {
    shared: Arc<Shared<H>>,
    seizer: Seizer<Executor<H>>,
    grace: Duration,
    /// The account of the executor's thread at the last look.
    account: Account,
    watchdog: OverrunWatchdog,
    /// The demotion of the handler that was contained last.
    demotion: Option<Demotion>,
    /// The CPUs that it keeps off, if it is an ordinary thread.
    off: Option<Vec<usize>>,
}

/// Starts the first guard. Returns when it has its class, if it needs one.
pub(crate) fn start<H: Handler + Send + 'static>(
    shared: &Arc<Shared<H>>,
    seizer: Seizer<Executor<H>>,
    grace: Duration,
    placement: Placement,
) -> Result<(), StartError> {
    if placement == Placement::Granted {
        return Ok(spawn(shared, seizer, (grace, placement), None, None)?);
    }
    let (ready, is_ready) = mpsc::sync_channel(1);
    spawn(shared, seizer, (grace, placement), None, Some(ready))?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(refused)) => Err(StartError::Class(refused)),
        Err(mpsc::RecvError) => unreachable!("it says whether it has its class first"),
    }
}

/// Starts a guard. One started by another guard has its class already, because threads inherit it.
fn spawn<H: Handler + Send + 'static>(
    shared: &Arc<Shared<H>>,
    seizer: Seizer<Executor<H>>,
    (grace, placement): (Duration, Placement),
    demotion: Option<Demotion>,
    ready: Option<SyncSender<Result<(), sched::SchedError>>>,
) -> io::Result<()> {
    let (account, watchdog) = (Account::NONE, OverrunWatchdog::default());
    let off = (placement == Placement::Granted).then(Vec::new);
    let shared_too = Arc::clone(shared);
    let guard = Guard { shared: shared_too, seizer, grace, account, watchdog, demotion, off };
    let body = move || {
        if let Some(ready) = ready {
            let entered = sched::set(thread::current(), Class::Fifo { priority: GUARD });
            let refused = entered.is_err();
            // The receiver waits for exactly this message.
            let _ = ready.send(entered);
            if refused {
                return;
            }
        }
        guard.watch();
    };
    let thread = std::thread::Builder::new().name("upcalls-guard".into()).spawn(body)?;
    shared.add_thread(thread);
    Ok(())
}

impl<H: Handler + Send + 'static> Guard<H> {
    fn watch(mut self) {
        loop {
            // Also checked before waiting: looking may have set the timer after the end was
            // requested.
            if self.shared.ends.load(Ordering::Acquire) {
                return;
            }
            self.keep_off();
            let due = self.shared.watch.wait();
            if let Err(failed) = due {
                // Until the run loop has ended, the guard watches as well as it can.
                if self.shared.unwatched.set(failed).is_ok() {
                    self.shared.wakeups.notify();
                }
                clock::sleep(self.grace.max(SHORTEST_PAUSE));
            }
            if self.shared.ends.load(Ordering::Acquire) {
                return;
            }
            // The lateness of an ordinary thread proves nothing: other threads run.
            let due = due.ok().filter(|_| self.off.is_none());
            if let Some((executor, stuck)) = self.look(due) {
                return self.take_over(executor, stuck);
            }
        }
    }

    /// Keeps an ordinary guard off the CPU that a stuck thread holds at a real-time priority.
    fn keep_off(&mut self) {
        let Some(off) = &mut self.off else { return };
        // The run loop starts only after the grant, which takes as long as the broker's answer
        // takes.
        while self.shared.watch.runner().is_none() {
            if self.shared.ends.load(Ordering::Acquire) {
                return;
            }
            clock::sleep(Duration::from_millis(1));
        }
        let taken = self.shared.watch.runner().map(thread::affinity_of).unwrap_or_default();
        if taken != *off {
            let others: Vec<usize> = (0..CPUS).filter(|cpu| !taken.contains(cpu)).collect();
            // Refused if there is no other CPU: then the guard waits for this one.
            let _ = thread::set_affinity(&others);
            *off = taken;
        }
    }

    /// Seizes the executor if its thread is overdue; otherwise sets the timer for the next look.
    /// `due` is the time for which the timer that caused this look was set.
    fn look(&mut self, mut due: Option<Instant>) -> Option<(Held<Executor<H>>, Tid)> {
        loop {
            let now = clock::now();
            let shared = Arc::clone(&self.shared);
            let watch = &shared.watch;
            let runner = watch.runner()?;
            let lift_at = self.lift(runner, now);
            let demotion_at = self.look_aside(now);
            let also = lift_at.into_iter().chain(demotion_at).min();
            let ticket = self.seizer.lent();
            self.count(ticket, runner, now);
            let (began, ends_by) = (watch.began(), watch.ends_by());
            if let Some(due) = due.take() {
                let late = now.saturating_since(due);
                self.watchdog.woken(late, Iteration { began, ends_by }, now);
            }
            let over_at = self.watchdog.due(ends_by);
            let next = match ticket {
                _ if ends_by == Instant::MAX => also?,
                _ if now < over_at => over_at,
                // Between two iterations: soon there is another, or the thread is idle.
                None => now.saturating_add(self.grace.max(SHORTEST_PAUSE)),
                Some(ticket) => match self.reprieve(runner, ends_by, now) {
                    Some(until) => until,
                    None => match self.seizer.seize(ticket) {
                        Some(executor) => return Some((executor, runner)),
                        None => continue,
                    },
                },
            };
            let next = also.map_or(next, |at| next.min(at));
            watch.arm(next);
            // An instant published meanwhile may be earlier.
            let published = watch.ends_by();
            if published == ends_by || published >= next {
                return None;
            }
        }
    }

    /// Lifts the thread if it is an ordinary one and something real-time was released. Returns when
    /// it must be lifted if that is later.
    fn lift(&mut self, runner: Tid, now: Instant) -> Option<Instant> {
        let (at, level) = self.shared.watch.to_lift()?;
        if now < at {
            return Some(at);
        }
        let watch = &self.shared.watch;
        let lifted = watch.lift_now(at, || {
            // This fails only without the privilege that the thread came with.
            let _ = sched::set(runner, Class::Fifo { priority: level });
        });
        if lifted {
            watch.lifted(now);
            self.account = watch.account_of(runner, now);
            self.watchdog = OverrunWatchdog::default();
        }
        None
    }

    /// Takes the account, and adds up from it how long the current lease was deprived of the CPU.
    fn count(&mut self, ticket: Option<u64>, runner: Tid, now: Instant) {
        let watch = &self.shared.watch;
        let counted = watch.counted();
        let before = if counted.at > self.account.at { counted } else { self.account };
        self.account = watch.account_of(runner, now);
        self.watchdog.observe(ticket.unwrap_or(0), watch.began(), before, self.account);
    }

    /// Returns until when the current lease is left alone although its time is over.
    fn reprieve(&mut self, runner: Tid, ends_by: Instant, now: Instant) -> Option<Instant> {
        let in_background = self.shared.watch.to_lift().is_some();
        let standing = Standing { wants_cpu: usage::wants_cpu(runner), in_background };
        self.watchdog.reprieve(standing, ends_by, self.grace, now)
    }

    /// Looks after the demoted handler. Returns when to look again.
    fn look_aside(&mut self, now: Instant) -> Option<Instant> {
        let next = self.demotion.as_mut()?.look(now);
        if next.is_none() {
            self.demotion = None;
        }
        self.shared.watch.looks_aside_at(next);
        next
    }

    /// Takes over the executor and goes on with the other upcalls.
    fn take_over(self, executor: Held<Executor<H>>, stuck: Tid) {
        let Self { shared, seizer, grace, demotion, .. } = self;
        // This comes first: if anything else fails, no other thread lowers the stuck one.
        let next = Self::put_aside(&executor, stuck);
        // There is one demotion at a time: the previous one is over.
        drop(demotion);
        CompletionGuard::kept(&shared, |completion_guard| {
            Self::go_on(executor, (stuck, next), &shared, (seizer, grace), completion_guard)
        });
    }

    /// Lowers the stuck thread below all upcalls. Returns its demotion, if it gets one: a
    /// best-effort handler ran in an ordinary thread already, and a granted class belongs to the
    /// thread that goes on.
    fn put_aside(executor: &Executor<H>, stuck: Tid) -> Option<Demotion> {
        let demotion = match executor.placement {
            Placement::Upcalls => Demotion::begin(stuck, executor.limit_of_running(), clock::now()),
            _ => None,
        };
        if demotion.is_none() {
            // A thread under SCHED_DEADLINE cannot be lowered; the kernel throttles it.
            let _ = sched::set(stuck, Class::Other { nice: 19 });
        }
        demotion
    }

    fn go_on(
        mut executor: Held<Executor<H>>,
        (stuck, demotion): (Tid, Option<Demotion>),
        shared: &Arc<Shared<H>>,
        (seizer, grace): (Seizer<Executor<H>>, Duration),
        completion_guard: &CompletionGuard<'_, H>,
    ) {
        executor.contain(clock::now(), stuck, shared);
        // The next guard is started before anything else can be stuck.
        let how = (grace, executor.placement);
        let first_look = demotion.as_ref().map(Demotion::next);
        shared.watch.looks_aside_at(first_look);
        if let Some(at) = first_look {
            shared.watch.arm(at);
        }
        if let Err(none) = spawn(shared, seizer, how, demotion, None) {
            return finish(executor, End::Unwatched(none), completion_guard, shared);
        }
        shared.watch.watch_this_thread();
        let (home, comes_by) = rtrb::RingBuffer::new(1);
        executor.home = Some(comes_by);
        let entered = match (executor.placement, &mut executor.level_order) {
            (_, Some(level_order)) => level_order.take_over().map_err(End::Class),
            (Placement::Reserved(reservation), None) => {
                let class = Class::Deadline { reservation, reset_on_fork: true };
                sched::set(thread::current(), class).map_err(End::Class)
            }
            (Placement::Granted, None) => obtain(executor.grant.as_mut()).map_err(End::NotGranted),
            (_, None) => Ok(()),
        };
        match entered {
            Ok(()) => turn(executor, shared, home, completion_guard),
            Err(end) => finish(executor, end, completion_guard, shared),
        }
    }
}
