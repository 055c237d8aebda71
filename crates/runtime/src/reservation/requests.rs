//! The requests for time constraints, kept for a trace until they are taken out.
//!
//! A thread's requests are the jobs of one subject, whose number the thread keeps for life. A
//! thread that makes a request while it holds another has a second number for those: a subject has
//! one job at a time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_linux::thread::Tid;
use punctual_model::JobId;
use punctual_trace::Event;
use punctual_trace::constraint::ConstraintRequest;

use super::owner::next_number;

/// An item that [`Reservations::drain_all`](super::Reservations::drain_all) takes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Something happened to a job: a period of a reservation, or a time constraint.
    Event(Event),
    /// A thread of this process requested a time constraint. It comes before the events of its job.
    Request {
        /// The thread.
        thread: Tid,
        /// The request and its answer.
        asked: ConstraintRequest,
    },
}

/// The requests that were not taken out yet; shared by the requesting threads and the owner.
#[derive(Clone, Debug)]
pub(super) struct Log(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    room: usize,
    all: VecDeque<(Tid, ConstraintRequest)>,
    lost: u64,
}

impl Log {
    /// Creates a log with room for `room` requests. With zero, none is kept or counted.
    pub(super) fn new(room: usize) -> Self {
        Self(Arc::new(Mutex::new(Inner { room, all: VecDeque::new(), lost: 0 })))
    }

    pub(super) fn is_on(&self) -> bool {
        self.inner().room > 0
    }

    pub(super) fn record(&self, thread: Tid, asked: ConstraintRequest) {
        let mut inner = self.inner();
        if inner.all.len() < inner.room {
            inner.all.push_back((thread, asked));
        } else if inner.room > 0 {
            inner.lost += 1;
        }
    }

    pub(super) fn take(&self) -> VecDeque<(Tid, ConstraintRequest)> {
        std::mem::take(&mut self.inner().all)
    }

    pub(super) fn lost(&self) -> u64 {
        self.inner().lost
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // A panic inside leaves a whole queue.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of a thread's numbers.
#[derive(Debug)]
struct Number {
    task: u32,
    next: u64,
    is_held: bool,
}

thread_local! {
    static NUMBERS: RefCell<Vec<Number>> = const { RefCell::new(Vec::new()) };
}

/// Returns the job for the calling thread's next request.
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

/// Records whether the calling thread holds the constraint of this job.
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
