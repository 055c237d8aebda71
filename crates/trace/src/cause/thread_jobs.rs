//! The jobs of a thread that declares none: from what wakes it to its next wait for that.
//!
//! A job is released when the timer that wakes the thread was due, or, for a thread that no timer
//! wakes, when it is woken. It ends with the thread's sleep, unless the thread goes on for another
//! reason than the next release: then it was blocked in the middle. The reason is told by the system
//! call it slept in: that of a timer's wake-up, once one was seen, is where releases are waited for.

use alloc::collections::BTreeMap;

use punctual_model::{Instant, JobId};

use super::observer::Edge;
use crate::event::{Event, Kind};

/// Makes jobs of the edges of threads.
#[derive(Clone, Debug, Default)]
pub struct ThreadJobs {
    of: BTreeMap<u32, OfThread>,
}

#[derive(Clone, Copy, Debug)]
struct OfThread {
    /// Its number in events.
    task: u32,
    /// Jobs that were released.
    released: u64,
    current: Option<Instant>,
    /// Since when it sleeps, and in which system call.
    sleeps: Option<(Instant, Option<u32>)>,
    /// The system call in which it waits for its next release.
    home: Option<Option<u32>>,
}

impl ThreadJobs {
    /// Jobs of nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Jobs of this thread are those of `task` in events.
    pub fn add(&mut self, tid: u32, task: u32) {
        let (current, sleeps, home) = (None, None, None);
        self.of.insert(tid, OfThread { task, released: 0, current, sleeps, home });
    }

    /// The thread has ended, and its last job with it: whether that was complete nobody can say.
    pub fn forget(&mut self, tid: u32) {
        self.of.remove(&tid);
    }

    /// What an edge means: the end of a job, and the release of the next. A job's end is told when the
    /// next is released, because only then it is known to be one.
    pub fn take(&mut self, at: Instant, edge: Edge) -> [Option<Event>; 2] {
        match edge {
            Edge::Sleeps { tid, syscall } => {
                if let Some(thread) = self.of.get_mut(&tid) {
                    thread.sleeps = Some((at, syscall));
                }
                [None, None]
            }
            Edge::Wakes { tid, due, .. } => {
                let Some(thread) = self.of.get_mut(&tid) else {
                    return [None, None];
                };
                thread.wakes(at, due)
            }
        }
    }

    /// The job of each thread that has begun and not ended at the end of a run, with its release.
    pub fn unfinished(&self) -> impl Iterator<Item = (JobId, Instant)> + '_ {
        self.of.values().filter(|thread| thread.sleeps.is_none()).filter_map(|thread| {
            let index = thread.released.checked_sub(1)?;
            Some((JobId { task: thread.task, index }, thread.current?))
        })
    }
}

impl OfThread {
    fn wakes(&mut self, at: Instant, due: Option<Instant>) -> [Option<Event>; 2] {
        let Some((since, syscall)) = self.sleeps.take() else {
            return [None, None];
        };
        if due.is_some() {
            self.home = Some(syscall);
        } else if self.home.is_some_and(|home| home != syscall) {
            // Blocked in the middle of its job.
            return [None, None];
        }
        let task = self.task;
        let ended = self.current.map(|release| Event {
            at: since,
            job: JobId { task, index: self.released - 1 },
            release,
            kind: Kind::Complete,
        });
        // A timer is never due after it expired.
        let release = due.map_or(at, |due| due.min(at));
        let job = JobId { task, index: self.released };
        (self.current, self.released) = (Some(release), self.released + 1);
        [ended, Some(Event { at, job, release, kind: Kind::Start })]
    }
}
