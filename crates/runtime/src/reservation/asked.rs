//! What was asked for of time constraints, kept for a trace until somebody takes it.
//!
//! A thread's requests are the jobs of one subject, whose number is the thread's own for life. One that
//! asks while it holds another has a second number for those: a subject has one job at a time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_linux::thread::Tid;
use punctual_model::JobId;
use punctual_trace::Event;
use punctual_trace::constraint::Asked;

use super::owner::next_number;

/// What [`Reservations::drain_all`](super::Reservations::drain_all) tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Something happened to a job: a period of a reservation, or a time constraint.
    Event(Event),
    /// A thread of this process asked for a time constraint. It comes before the events of its job.
    Asked {
        /// The thread.
        thread: Tid,
        /// For what, and what it was told.
        asked: Asked,
    },
}

/// What nobody has taken yet; shared by those who ask and those who take.
#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    room: usize,
    all: VecDeque<(Tid, Asked)>,
    lost: u64,
}

impl Log {
    /// With room for so many; none: nothing is kept or counted.
    pub(super) fn new(room: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner { room, all: VecDeque::new(), lost: 0 })))
    }

    pub(super) fn is_on(&self) -> bool {
        self.inner().room > 0
    }

    pub(super) fn tell(&self, thread: Tid, asked: Asked) {
        let mut inner = self.inner();
        if inner.all.len() < inner.room {
            inner.all.push_back((thread, asked));
        } else if inner.room > 0 {
            inner.lost += 1;
        }
    }

    pub(super) fn take(&self) -> VecDeque<(Tid, Asked)> {
        std::mem::take(&mut self.inner().all)
    }

    pub(super) fn lost(&self) -> u64 {
        self.inner().lost
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Whoever panicked in it left a queue that is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One number of a thread.
#[derive(Debug)]
struct Number {
    task: u32,
    next: u64,
    is_held: bool,
}

thread_local! {
    static NUMBERS: RefCell<Vec<Number>> = const { RefCell::new(Vec::new()) };
}

/// The job that the calling thread's next request is.
pub(super) fn next_job() -> JobId {
    NUMBERS.with_borrow_mut(|numbers| {
        let free = numbers.iter().position(|number| !number.is_held);
        let at = free.unwrap_or_else(|| {
            numbers.push(Number { task: next_number(), next: 0, is_held: false });
            numbers.len() - 1
        });
        let number = &mut numbers[at];
        let index = number.next;
        number.next += 1;
        JobId { task: number.task, index }
    })
}

/// The calling thread holds the constraint that this job is, or no more.
pub(super) fn hold(job: JobId, is_held: bool) {
    // At a thread's end its numbers may be gone before its constraints.
    let _ = NUMBERS.try_with(|numbers| {
        if let Ok(mut numbers) = numbers.try_borrow_mut()
            && let Some(number) = numbers.iter_mut().find(|number| number.task == job.task)
        {
            number.is_held = is_held;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_a_number_for_each_constraint_that_it_holds_at_a_time() {
        let first = next_job();
        hold(first, true);
        let inside = next_job();
        assert_ne!(first.task, inside.task);
        assert_eq!((first.index, inside.index), (0, 0));
        hold(first, false);
        let again = next_job();
        assert_eq!(again, JobId { index: 1, ..first });
        let elsewhere = std::thread::spawn(next_job).join().expect("ends");
        assert!(![first.task, inside.task].contains(&elsewhere.task));
    }
}
