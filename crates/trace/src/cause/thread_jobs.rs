//! Derives the jobs of a thread that declares none: each lasts from a wake-up to the next wait for
//! one.
//!
//! A job is released when the timer that wakes the thread was due, or, if no timer wakes the
//! thread, when it is woken. It ends when the thread sleeps, unless the thread is then woken by
//! something other than the next release: in that case it was blocked in the middle. The system
//! call in which it slept tells them apart. Once a timer's wake-up was seen, its system call is
//! where the thread waits for releases.

use alloc::collections::BTreeMap;

use punctual_model::{Instant, JobId};

use super::observer::Edge;
use crate::event::{Event, Kind};

/// Turns the sleeps and wake-ups of threads into jobs.
#[derive(Clone, Debug, Default)]
pub struct ThreadJobs {
    of: BTreeMap<u32, ThreadState>,
}

#[derive(Clone, Copy, Debug)]
struct ThreadState {
    /// Its number in events.
    task: u32,
    /// The number of jobs that were released.
    released: u64,
    current: Option<Instant>,
    /// The instant at which it fell asleep, and the system call in which it sleeps.
    sleeps: Option<(Instant, Option<u32>)>,
    /// The system call in which it waits for its next release.
    home: Option<Option<u32>>,
}

impl ThreadJobs {
    /// Starts with no threads.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a thread, whose jobs have the number `task` in events.
    pub fn add(&mut self, tid: u32, task: u32) {
        let (current, sleeps, home) = (None, None, None);
        self.of.insert(tid, ThreadState { task, released: 0, current, sleeps, home });
    }

    /// Removes a thread that has ended. Its end was its last sleep, and so the end of its last job
    /// if that was seen.
    pub fn forget(&mut self, tid: u32) -> Option<Event> {
        let thread = self.of.remove(&tid)?;
        let (since, _) = thread.sleeps?;
        thread.complete(since)
    }

    /// Handles missing records: the job of each thread is unknown until its next release.
    pub fn gap(&mut self) {
        for thread in self.of.values_mut() {
            (thread.current, thread.sleeps) = (None, None);
        }
    }

    /// Handles something unseen that a thread did: its job is unknown until its next release.
    pub fn lose(&mut self, tid: u32) {
        if let Some(thread) = self.of.get_mut(&tid) {
            (thread.current, thread.sleeps) = (None, None);
        }
    }

    /// Returns the events that an edge implies: the end of a job, and the release of the next. A
    /// job's end is reported when the next job is released, because only then is it known to be the
    /// end.
    pub fn take(&mut self, at: Instant, edge: Edge) -> [Option<Event>; 2] {
        match edge {
            Edge::Sleeps { tid, syscall, .. } => {
                if let Some(thread) = self.of.get_mut(&tid) {
                    thread.sleeps = Some((at, syscall));
                }
                [None, None]
            }
            Edge::Passes { .. } => [None, None],
            Edge::Wakes { tid, due, .. } => {
                let Some(thread) = self.of.get_mut(&tid) else {
                    return [None, None];
                };
                thread.wakes(at, due)
            }
        }
    }

    /// Returns the ends of the jobs whose threads wait for their next releases when the run ends.
    pub fn resting(&self) -> impl Iterator<Item = Event> + '_ {
        self.of.values().filter_map(|thread| {
            let (since, syscall) = thread.sleeps?;
            if thread.is_home(syscall) { thread.complete(since) } else { None }
        })
    }
}

impl ThreadState {
    /// Returns whether a sleep in `syscall` is, as far as is known, a wait for a release.
    fn is_home(&self, syscall: Option<u32>) -> bool {
        self.home.is_none_or(|home| home == syscall)
    }

    /// Returns the event of its job's completion at `at`.
    fn complete(&self, at: Instant) -> Option<Event> {
        let job = JobId { task: self.task, index: self.released.checked_sub(1)? };
        Some(Event { at, job, release: self.current?, kind: Kind::Complete })
    }

    fn wakes(&mut self, at: Instant, due: Option<Instant>) -> [Option<Event>; 2] {
        let Some((since, syscall)) = self.sleeps.take() else {
            return [None, None];
        };
        if due.is_some() {
            self.home = Some(syscall);
        } else if !self.is_home(syscall) {
            // It was blocked in the middle of its job.
            return [None, None];
        }
        let ended = self.complete(since);
        // A timer is never due after it expired.
        let release = due.map_or(at, |due| due.min(at));
        let job = JobId { task: self.task, index: self.released };
        (self.current, self.released) = (Some(release), self.released + 1);
        [ended, Some(Event { at, job, release, kind: Kind::Start })]
    }
}
