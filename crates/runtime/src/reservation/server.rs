//! The thread that runs a deferrable server.
//!
//! It sleeps until its holder's group has used the budget, or until the next period begins if any of
//! the budget was used ([`GroupClock`]). So a server whose holder sleeps costs nothing, and one whose
//! holder stays within its budget costs a look in each period. It runs on the CPU of its holder and
//! above it, so no thread of the group runs while it looks. [`DeferrableServer`] decides; this
//! thread only carries the decisions out, takes no lock and allocates nothing.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use punctual_analysis::supply::MOST_SERVERS;
use punctual_linux::cgroup::group_clock::GroupClock;
use punctual_linux::clock;
use punctual_linux::pass::Bell;
use punctual_linux::process::Guard;
use punctual_model::{Duration, Instant, Reservation, Service};
use punctual_policy::deferrable_server::{Decision, DeferrableServer};

use super::lane::enter;
use super::owner::Owner;

/// The SCHED_FIFO priority of the holder of the first server of a CPU; each further one is one
/// lower. All are above [`crate::level_order::RUNNING`], 80.
pub(super) const HIGHEST: u8 = 87;

/// The use after which a server that slept notices that its budget is used again, unless less is
/// allowed.
const NOTICED: Service = Service::from_micros(50);

/// The longest time for which a thread that changed its own class keeps it.
const REASSERTED: Duration = Duration::from_millis(100);

/// The use after which the threads of a group that has no budget are lowered once more: one that was
/// being created when the budget ended began with the level of its creator.
const LOWERED_AGAIN: Service = Service::from_millis(1);

/// The time between two looks where the kernel lets none wait.
const IN_VAIN: Duration = Duration::from_millis(10);

/// The next looks of the servers of one CPU, for the guard: by then their threads must be back.
#[derive(Debug)]
pub(super) struct Looks {
    cpu: usize,
    /// The next look of each, in nanoseconds.
    next: [AtomicU64; MOST_SERVERS],
    guard: Arc<Guard>,
}

impl Looks {
    pub(super) fn new(cpu: usize, guard: Arc<Guard>) -> Self {
        let next = [const { AtomicU64::new(u64::MAX) }; MOST_SERVERS];
        Self { cpu, next, guard }
    }

    fn set(&self, at: usize, next: Instant) {
        self.next[at].store(next.as_nanos(), Ordering::Relaxed);
        // The servers of a CPU run on it one after the other, so none reads between these lines.
        let first = self.next.iter().map(|next| next.load(Ordering::Relaxed)).min();
        self.guard.due(self.cpu, first.map_or(Instant::MAX, Instant::from_nanos));
    }
}

/// What the holder's side tells the thread.
#[derive(Debug)]
struct Orders {
    level: AtomicU8,
    /// The new budget and period. The thread only tries to lock it, and is told afterwards.
    change: Mutex<Option<Reservation>>,
    ends: AtomicBool,
}

/// A server in force. Dropping it ends its thread; its holder is an ordinary program then.
#[derive(Debug)]
pub(super) struct Server {
    /// Its place among the servers of its CPU.
    place: usize,
    orders: Arc<Orders>,
    bell: Bell,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts the thread on the CPU of `looks`, which may be late by the allowance, for the group of `owner` whose `clock` counts there.
    /// The `place` must be free.
    pub(super) fn start(
        (reservation, allowance): (Reservation, Service),
        level: u8,
        place: usize,
        owner: Arc<Owner>,
        clock: GroupClock,
        looks: Arc<Looks>,
    ) -> std::io::Result<Self> {
        let (bell, rung) = Bell::pair().map_err(std::io::Error::other)?;
        let orders =
            Orders { level: level.into(), change: Mutex::new(None), ends: AtomicBool::new(false) };
        let orders = Arc::new(orders);
        let cpu = looks.cpu;
        let mut running = Running {
            acted: looks.guard.acted(),
            owner,
            clock,
            looks,
            place,
            orders: Arc::clone(&orders),
            rung,
            // Filled with ones, so that its pages exist.
            buffer: vec![1; 1 << 16].into_boxed_slice(),
        };
        let (ready_tx, ready) = std::sync::mpsc::sync_channel(1);
        let body = move || {
            let entered = enter(cpu).map_err(std::io::Error::other);
            let may_run = entered.is_ok();
            // The receiver waits for exactly this message.
            let _ = ready_tx.send(entered);
            drop(ready_tx);
            if may_run {
                running.serve(reservation, allowance);
            }
        };
        let thread = std::thread::Builder::new().name(format!("server-{cpu}")).spawn(body)?;
        let ended = |_| std::io::Error::other("the thread of the server ended before it began");
        ready.recv().map_err(ended)??;
        Ok(Self { place, orders, bell, thread: Some(thread) })
    }

    /// Returns its place among the servers of its CPU.
    pub(super) fn place(&self) -> usize {
        self.place
    }

    /// Has the holder run at another level.
    pub(super) fn set_level(&self, level: u8) {
        if self.orders.level.swap(level, Ordering::Relaxed) != level {
            let _ = self.bell.ring();
        }
    }

    /// Serves another budget and period from the next look on, which is at once.
    pub(super) fn change(&self, to: Reservation) {
        *self.orders.change.lock().unwrap_or_else(PoisonError::into_inner) = Some(to);
        // A bell fails only when it is closed: the thread has ended then.
        let _ = self.bell.ring();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.orders.ends.store(true, Ordering::Relaxed);
        // The thread also ends when this bell is closed.
        let _ = self.bell.ring();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic; if it did, the panic was printed then.
            let _ = thread.join();
        }
    }
}

/// The thread's state.
struct Running {
    owner: Arc<Owner>,
    clock: GroupClock,
    looks: Arc<Looks>,
    place: usize,
    orders: Arc<Orders>,
    rung: Bell,
    /// The last value of [`Guard::acted`].
    acted: u32,
    buffer: Box<[u8]>,
}

impl Running {
    /// Serves the holder until it is told to end.
    fn serve(&mut self, reservation: Reservation, allowance: Service) {
        let (mut now, mut used) = (clock::now(), self.used());
        let mut server = DeferrableServer::new(reservation, allowance, now, used);
        // The level of the holder's threads, `None` for that of ordinary ones, and since when.
        let (mut level, mut since) = (None, now);
        // The thread that goes first with the next budget. Threads that wait for each other by
        // spinning take turns so, and get on.
        let mut first = 0_usize;
        let mut served = Service::ZERO;
        while !self.orders.ends.load(Ordering::Relaxed) {
            let change = self.orders.change.try_lock().ok().and_then(|mut change| change.take());
            if let Some(to) = change {
                server.change(to, now, used);
            }
            let Decision { left, until, idle } = server.at(now, used);
            server.take_spent().into_iter().for_each(|spent| self.owner.spent(spent));
            let acted = self.looks.guard.acted();
            let is_released = acted != std::mem::replace(&mut self.acted, acted);
            let wanted = (!left.is_zero()).then(|| self.orders.level.load(Ordering::Relaxed));
            let is_old = now.saturating_since(since) >= REASSERTED;
            match wanted {
                None => first = (first + 1) % self.owner.lower(&mut self.buffer).max(1),
                Some(to) if level != wanted || is_released || is_old => {
                    self.owner.raise(to, first, &mut self.buffer);
                    since = now;
                }
                Some(_) => {}
            }
            level = wanted;
            let (alarm, look) = match (idle, wanted) {
                (true, _) => (NOTICED.min(allowance).min(left), None),
                (false, None) => (LOWERED_AGAIN, Some(until)),
                (false, Some(_)) => (left, Some(until)),
            };
            self.owner.count(self.clock.alarm_after(alarm).is_ok());
            self.looks.set(self.place, look.unwrap_or(Instant::MAX));
            let waited = self.clock.wait(look, &self.rung);
            self.owner.count(waited.is_ok());
            if waited.is_err() {
                // At this level a thread that does not sleep stops all others.
                clock::sleep(IN_VAIN);
            }
            let _ = self.rung.silence();
            let before = used;
            (now, used) = (clock::now(), self.used());
            if level.is_some() {
                served += used.saturating_sub(before);
                self.owner.set_inside(served);
            }
        }
        self.owner.leave(&mut self.buffer);
        self.looks.set(self.place, Instant::MAX);
    }

    fn used(&self) -> Service {
        let used = self.clock.used();
        self.owner.count(used.is_ok());
        used.unwrap_or(Service::ZERO)
    }
}
