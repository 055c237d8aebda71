//! The thread that catches handlers that do not come back.
//!
//! One thread a process sleeps in read(2) on a timer, just above the ceiling. It needs no signal, so
//! no handler's system call is interrupted, and a handler that sleeps where no signal reaches it is
//! caught too. The timer is set when the process becomes busy, unless the guard will look in time
//! anyway, and when a turn is to be shorter than the one before; never between two iterations. Woken
//! early, the guard sets it anew for the instant published since.
//!
//! When that instant has truly passed, it takes the turning state out of the hands of the thread
//! that is stuck (which has it lent while a handler runs) and goes on with it at the ceiling. The
//! stuck thread goes on as an ordinary one of the least weight, with its handler, and ends when
//! the handler returns. Another guard is made first.
//!
//! Who was kept from running is not guilty: it is held to the processor time it had, for as long as
//! it wants more (`REPRIEVES` times). A thread that sleeps or waits had its time.
//!
//! A stuck thread under SCHED_DEADLINE stays in its class, which only it can leave: the kernel
//! throttles it. The guard takes a reservation of its own for the others; where there is no
//! bandwidth for a second one the upcalls end, with that reason.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, SyncSender};

use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread::{self, Tid};
use punctual_linux::usage;
use punctual_model::{Duration, Handler, Instant};
use punctual_ring::baton::{Held, Seizer};

use super::{Crew, End, Shared, finish, turn};
use crate::ceiling::CEILING;
use crate::placement::Placement;
use crate::upcalls::StartError;

/// Above every upcall; below the measuring callback and the kernel's own.
const PRIORITY: u8 = CEILING + 1;

/// How often a thread that wants the CPU and does not get it is waited for.
const REPRIEVES: u32 = 32;

/// The guard's own.
struct Guard<H> {
    shared: Arc<Shared<H>>,
    seizer: Seizer<Crew<H>>,
    grace: Duration,
    /// The loan that was last found to take too long, and how often it was reprieved.
    suspect: (u64, u32),
}

/// Makes the first guard. Returns when it has its class.
pub(crate) fn start<H: Handler + Send + 'static>(
    shared: &Arc<Shared<H>>,
    seizer: Seizer<Crew<H>>,
    grace: Duration,
) -> Result<(), StartError> {
    let (ready, is_ready) = mpsc::sync_channel(1);
    spawn(shared, seizer, grace, Some(ready))?;
    match is_ready.recv() {
        Ok(Ok(())) => Ok(()),
        Ok(Err(refused)) => Err(StartError::Class(refused)),
        Err(mpsc::RecvError) => unreachable!("it says whether it has its class first"),
    }
}

/// A guard made by another one has its class already: threads inherit it.
fn spawn<H: Handler + Send + 'static>(
    shared: &Arc<Shared<H>>,
    seizer: Seizer<Crew<H>>,
    grace: Duration,
    ready: Option<SyncSender<Result<(), sched::SchedError>>>,
) -> io::Result<()> {
    let guard = Guard { shared: Arc::clone(shared), seizer, grace, suspect: (0, 0) };
    let body = move || {
        if let Some(ready) = ready {
            let entered = sched::set(thread::current(), Class::Fifo { priority: PRIORITY });
            let refused = entered.is_err();
            // The other end waits for exactly this message.
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
            self.shared.watch.wait();
            if self.shared.ends.load(Ordering::Acquire) {
                return;
            }
            if let Some((crew, stuck)) = self.look() {
                return self.take_over(crew, stuck);
            }
        }
    }

    /// Whether somebody must be put aside, who then is; else the timer is set for the next look.
    fn look(&mut self) -> Option<(Held<Crew<H>>, Tid)> {
        loop {
            let now = clock::now();
            let shared = Arc::clone(&self.shared);
            let watch = &shared.watch;
            let runner = watch.runner()?;
            let lift_at = self.lift(runner, now);
            let ticket = self.seizer.lent();
            let ends_by = watch.ends_by();
            let next = match ticket {
                _ if ends_by == Instant::MAX => lift_at?,
                _ if now < ends_by => ends_by,
                // Between two iterations: soon there is another, or it is idle.
                None => now + self.grace,
                Some(ticket) => match self.reprieve(ticket, runner, ends_by, now) {
                    Some(until) => until,
                    None => match self.seizer.seize(ticket) {
                        Some(crew) => return Some((crew, runner)),
                        None => continue,
                    },
                },
            };
            let next = lift_at.map_or(next, |at| next.min(at));
            watch.arm(next);
            // What was published meanwhile may be earlier.
            let published = watch.ends_by();
            if published == ends_by || published >= next {
                return None;
            }
        }
    }

    /// Lifts the thread if it is an ordinary one and something real-time was released. When it must
    /// be lifted, if it must be later.
    fn lift(&self, runner: Tid, now: Instant) -> Option<Instant> {
        let (at, level) = self.shared.watch.to_lift()?;
        if now < at {
            return Some(at);
        }
        let watch = &self.shared.watch;
        let lifted = watch.lift_now(at, || {
            // Fails only without the privilege that the thread came with.
            let _ = sched::set(runner, Class::Fifo { priority: level });
        });
        if lifted {
            watch.lifted(runner, now);
        }
        None
    }

    /// Until when the loan with this ticket is to be left alone although its time is over.
    fn reprieve(
        &mut self,
        ticket: u64,
        runner: Tid,
        ends_by: Instant,
        now: Instant,
    ) -> Option<Instant> {
        if !usage::wants_cpu(runner) {
            return None;
        }
        let in_background = self.shared.watch.to_lift().is_some();
        let until = ends_by.saturating_add(self.shared.watch.deprived(runner, now));
        if self.suspect.0 != ticket {
            self.suspect = (ticket, 0);
        }
        // An ordinary thread may be starved for long, and harms nobody meanwhile.
        let may_wait = in_background || self.suspect.1 < REPRIEVES;
        (now < until && may_wait).then(|| {
            self.suspect.1 += 1;
            let pause = if in_background { self.grace * 4 } else { self.grace / 4 };
            until.max(now + pause)
        })
    }

    /// Goes on with everybody else's upcalls.
    fn take_over(self, mut crew: Held<Crew<H>>, stuck: Tid) {
        let Self { shared, seizer, grace, .. } = self;
        // Before anything else can be stuck.
        if let Err(none) = spawn(&shared, seizer, grace, None) {
            return finish(crew, End::Unwatched(none), &shared);
        }
        // Under SCHED_DEADLINE it cannot be; then the kernel throttles it.
        let _ = sched::set(stuck, Class::Other { nice: 19 });
        crew.contain(clock::now(), stuck, &shared);
        shared.watch.turned_by_this_thread();
        let (home, comes_by) = rtrb::RingBuffer::new(1);
        crew.home = Some(comes_by);
        let entered = match (crew.placement, &mut crew.ceiling) {
            (_, Some(ceiling)) => ceiling.take_over(),
            (Placement::Reserved(reservation), None) => {
                let class = Class::Deadline { reservation, reset_on_fork: true };
                sched::set(thread::current(), class)
            }
            (_, None) => Ok(()),
        };
        match entered {
            Ok(()) => turn(crew, &shared, home),
            Err(refused) => finish(crew, End::Class(refused), &shared),
        }
    }
}
