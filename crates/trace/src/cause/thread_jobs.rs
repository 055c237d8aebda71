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

    /// The thread has ended, and is forgotten. Its end was its last sleep: the end of its last job,
    /// where it was seen.
    pub fn forget(&mut self, tid: u32) -> Option<Event> {
        let thread = self.of.remove(&tid)?;
        let (since, _) = thread.sleeps?;
        thread.complete(since)
    }

    /// Records are missing: what job a thread is in is not known until its next release.
    pub fn gap(&mut self) {
        for thread in self.of.values_mut() {
            (thread.current, thread.sleeps) = (None, None);
        }
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

    /// The run is over: the ends of the jobs whose threads wait for their next releases.
    pub fn resting(&self) -> impl Iterator<Item = Event> + '_ {
        self.of.values().filter_map(|thread| {
            let (since, syscall) = thread.sleeps?;
            if thread.is_home(syscall) { thread.complete(since) } else { None }
        })
    }
}

impl OfThread {
    /// Whether it sleeps where it waits for releases, as far as that is known.
    fn is_home(&self, syscall: Option<u32>) -> bool {
        self.home.is_none_or(|home| home == syscall)
    }

    /// Its job was complete then.
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
            // Blocked in the middle of its job.
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
