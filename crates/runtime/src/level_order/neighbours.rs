//! The waiting threads of other processes, which the running thread lowers and raises.

use punctual_linux::clock;
use punctual_linux::sched::{self, SchedError};
use punctual_linux::shm::Shared;
use punctual_linux::thread::{self, Tid};
use punctual_model::{Duration, Instant};
use punctual_ring::releases::{Handoff, Releases, SLOTS, Taken};

use super::rates::{LOWEST, RUNNING};

/// The time for which a verified kernel id cannot be another thread's: the kernel hands out all ids
/// (32,768 or more) before it reuses one.
const FRESH: Duration = Duration::from_millis(250);

/// The number of times that a thread's priority is set again if its owner went on meanwhile: more
/// than once is rubbish.
const TRIES: u32 = 3;

/// The verified threads of the other processes that share the table.
#[derive(Debug)]
pub(super) struct Neighbours {
    /// For each slot, the thread that was verified to be one of the user's upcall threads, and
    /// when.
    verified: Box<[Option<(Tid, Instant)>]>,
}

impl Neighbours {
    pub(super) fn new() -> Self {
        Self { verified: vec![None; SLOTS].into_boxed_slice() }
    }

    /// Clears the entries of processes that ended without leaving the table.
    pub(super) fn clear_dead(&mut self, shared: &Shared) {
        let table = Releases::new(shared.words());
        for slot in (0..table.high()).filter(|slot| *slot != shared.place()) {
            if table.is_used(slot) {
                self.clear_if_dead(shared, slot);
            }
        }
    }

    /// Clears `slot` if its process has ended, and returns whether it had.
    pub(super) fn clear_if_dead(&mut self, shared: &Shared, slot: usize) -> bool {
        let is_dead = shared.if_vacant(slot, || Releases::new(shared.words()).vacate(slot));
        if is_dead {
            self.verified[slot] = None;
        }
        is_dead
    }

    /// Brings each thread that waits on this CPU to the priority to which it is entitled at `now`:
    /// lowers the one that went to sleep at the running level, and raises those for which something
    /// more urgent was released while they waited. Makes no system call if all have the right
    /// priority.
    ///
    /// Must be called at the running level: then none of them runs or can be about to change its
    /// own priority.
    pub(super) fn put_in_order(&mut self, shared: &Shared, now: Instant) {
        let (table, cpu) = (Releases::new(shared.words()), thread::current_cpu());
        for slot in (0..table.high()).filter(|slot| *slot != shared.place()) {
            let Some(handoff) = table.on_offer(slot) else { continue };
            let deserved = table.deserved(slot, now.as_nanos());
            let Some(level @ LOWEST..RUNNING) = deserved else { continue };
            if handoff.cpu as usize == cpu && handoff.priority != level {
                self.set(shared, slot, handoff, level, now);
            }
        }
    }

    /// Sets the priority of the thread in `slot`. If the calling thread was stopped meanwhile and
    /// the other one waits anew since, the level is outdated and is set once more.
    fn set(&mut self, shared: &Shared, slot: usize, handoff: Handoff, level: u8, now: Instant) {
        let table = Releases::new(shared.words());
        let (mut handoff, mut level) = (handoff, level);
        for _ in 0..TRIES {
            let Some(thread) = self.verify(shared, slot, handoff, now) else { return };
            if !table.claim(slot, handoff) {
                return;
            }
            // Without the privilege to raise it, or if it has just died, its priority stays.
            let is_set = sched::set_fifo_priority(thread, level).is_ok();
            if table.give_back(slot, handoff, if is_set { level } else { handoff.priority }) {
                return;
            }
            let deserved = table.deserved(slot, clock::now().as_nanos());
            match (table.on_offer(slot), deserved) {
                (Some(offered), Some(deserved @ LOWEST..RUNNING)) => {
                    (handoff, level) = (offered, deserved);
                }
                _ => return,
            }
        }
    }

    /// Returns the thread in `slot` if it is an upcall thread of this user. Any process that shares
    /// the table could have written the id of any thread of the host, and this process may have a
    /// privilege that the writer lacks.
    fn verify(
        &mut self,
        shared: &Shared,
        slot: usize,
        handoff: Handoff,
        now: Instant,
    ) -> Option<Tid> {
        let thread = Tid::from_raw(handoff.thread.cast_signed())?;
        let verified_at = self.verified[slot].filter(|of| of.0 == thread).map(|of| of.1);
        // The age is taken from our own clock, because the time stamp in the table wraps around.
        if verified_at.is_some_and(|at| now.saturating_since(at) < FRESH) {
            return Some(thread);
        }
        if !shared.is_taken(slot) {
            self.clear_if_dead(shared, slot);
            return None;
        }
        // Its process lives, and takes the priority handoff back before the thread ends.
        if verified_at.is_none() {
            let is_upcall_thread = matches!(
                sched::get(thread).map(|now| now.class()),
                Ok(Some(sched::Class::Fifo { priority: LOWEST..=RUNNING }))
            );
            if !is_upcall_thread || !thread::is_of_this_user(thread) {
                return None;
            }
        }
        self.verified[slot] = Some((thread, now));
        Some(thread)
    }
}

/// The way in which a thread came to the running level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Risen {
    /// The priority at which it got the CPU; the running level if that is uncertain.
    pub(super) from: u8,
    /// True if rising took a system call.
    pub(super) took_a_call: bool,
}

/// The calling thread's priority handoff.
#[derive(Debug)]
pub(super) struct OwnHandoff {
    thread: Tid,
    offered: Option<Handoff>,
    turn: u8,
}

impl OwnHandoff {
    /// Creates a handoff that the calling thread has not offered.
    pub(super) fn held() -> Self {
        Self { thread: thread::current(), offered: None, turn: 0 }
    }

    pub(super) fn thread(&self) -> Tid {
        self.thread
    }

    /// Lets other threads set this thread's priority, which is `priority` or about to be.
    pub(super) fn offer(&mut self, shared: &Shared, priority: u8) {
        // Other threads make it odd when they have set the priority.
        self.turn = (self.turn + 2) % 32;
        let handoff = Handoff {
            thread: self.thread.as_raw().cast_unsigned(),
            cpu: u32::try_from(thread::current_cpu()).unwrap_or(0),
            priority,
            since: Handoff::stamp(clock::now().as_nanos()),
            turn: self.turn,
        };
        Releases::new(shared.words()).offer(shared.place(), handoff);
        self.offered = Some(handoff);
    }

    /// Brings the thread to the running level, and then takes the handoff back: from here on no
    /// other thread sets its priority. Returns `None` if the handoff was not on offer.
    pub(super) fn rise(&mut self, shared: &Shared) -> Result<Option<Risen>, SchedError> {
        let (table, slot) = (Releases::new(shared.words()), shared.place());
        let Some(offered) = self.offered else { return Ok(None) };
        let seen = table.on_offer(slot);
        // On this CPU no other thread that could lower it runs at the running level.
        let is_up = seen == Some(offered) && offered.priority == RUNNING;
        if !is_up {
            sched::set_fifo_priority(self.thread, RUNNING)?;
        }
        self.offered = None;
        if table.take_back(slot, seen) != Taken::AsSeen {
            // A thread on another CPU may have set the priority before or after.
            sched::set_fifo_priority(self.thread, RUNNING)?;
            return Ok(Some(Risen { from: RUNNING, took_a_call: true }));
        }
        let from = seen.map_or(RUNNING, |seen| seen.priority);
        Ok(Some(Risen { from, took_a_call: !is_up }))
    }

    /// Keeps other threads from setting the thread's priority any more; leaves the priority as it
    /// is.
    pub(super) fn take_back(&mut self, shared: &Shared) {
        self.offered = None;
        let _ = Releases::new(shared.words()).take_back(shared.place(), None);
    }
}
