//! Replays arrivals from a list, and records them into one.

use alloc::vec;
use alloc::vec::Vec;

use super::{Arrival, Arrivals};

/// The arrivals listed for each task, and then no more.
#[derive(Clone, Debug)]
pub struct Listed<'a> {
    lists: &'a [Vec<Arrival>],
    given: Vec<usize>,
}

impl<'a> Listed<'a> {
    /// Takes the jobs of task `i` from `lists[i]`, in the order of their releases. A task without a
    /// list has no jobs.
    pub fn new(lists: &'a [Vec<Arrival>]) -> Self {
        Self { lists, given: vec![0; lists.len()] }
    }
}

impl Arrivals for Listed<'_> {
    fn next(&mut self, task: u32) -> Arrival {
        let Some(given) = self.given.get_mut(task as usize) else { return Arrival::NEVER };
        let arrival = self.lists[task as usize].get(*given);
        *given += 1;
        arrival.copied().unwrap_or(Arrival::NEVER)
    }
}

/// Another pattern, with a record of its arrivals. [`Listed`] can replay the run.
#[derive(Clone, Debug)]
pub struct Recorded<A> {
    arrivals: A,
    lists: Vec<Vec<Arrival>>,
}

impl<A: Arrivals> Recorded<A> {
    /// Wraps the `arrivals` of `tasks` tasks.
    pub fn new(tasks: usize, arrivals: A) -> Self {
        Self { arrivals, lists: vec![Vec::new(); tasks] }
    }

    /// Returns the recorded arrivals, task by task. A run requests one job more than it uses.
    pub fn into_lists(self) -> Vec<Vec<Arrival>> {
        self.lists
    }
}

impl<A: Arrivals> Arrivals for Recorded<A> {
    fn next(&mut self, task: u32) -> Arrival {
        let arrival = self.arrivals.next(task);
        self.lists[task as usize].push(arrival);
        arrival
    }
}
