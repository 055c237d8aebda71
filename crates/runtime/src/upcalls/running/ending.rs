//! Ends upcalls that run, and collects what is left of them.

use std::panic;
use std::sync::{Arc, PoisonError};

use punctual_linux::clock;
use punctual_model::{Backlog, Duration, Service};
use punctual_trace::Event;

use super::Running;
use crate::run_loop::{End, Finish, Order, Out, drop_quietly};
use crate::upcalls::StartError;

/// The time for which [`Running::stop`] waits for contained handlers, and for the turn that runs.
const PATIENCE: Duration = Duration::from_secs(2);

/// A panic that was sent home instead of a handler.
type Payload = Box<dyn std::any::Any + Send>;

/// The remains of upcalls that ran.
pub struct Stopped<H> {
    /// The handlers that were not closed and are not stuck, in the order of their creation.
    pub handlers: Vec<H>,
    /// The number of the upcall of each of them.
    pub tasks: Vec<u32>,
    /// Upcalls whose handlers were contained and have not returned. Each has a thread, an ordinary
    /// one of the least weight, that is leaked: it ends when its handler returns.
    pub stuck: Vec<u32>,
    /// Events that were not drained.
    pub events: Vec<Event>,
    /// The number of events dropped because they were not drained in time.
    pub events_lost: u64,
    /// Jobs that were released and not complete.
    pub unfinished: Vec<Backlog>,
    /// The processor time of all their threads together; for a replaced thread, up to its
    /// replacement.
    pub exec_time: Service,
}

impl<H> Running<H> {
    /// Asks the upcalls to end at the end of the current turn, waits for that, and returns the
    /// handlers. Their threads, and with them their scheduling classes, are gone then.
    ///
    /// Waits up to two seconds more for contained handlers; [`Stopped::stuck`] lists those that
    /// have not returned. Without containment it waits for the running handler, however long that
    /// takes.
    ///
    /// Returns an error if the kernel took the class away while they ran, if handlers could be
    /// contained no longer, or in a process forked from theirs. A panic of a handler goes on in the
    /// caller, also if the handler was contained. In either case all threads have ended, as without
    /// an error.
    pub fn stop(mut self) -> Result<Stopped<H>, StartError> {
        if self.is_elsewhere() {
            return Err(StartError::Forked { owner: self.owner });
        }
        let (finish, stuck, panic) = self.end_all();
        let Finish { end, unfinished, exec_time, mut handlers, .. } = finish;
        match (end, panic) {
            (End::Stopped, None) => {}
            (End::Class(refused), _) => return Err(refused.into()),
            (End::NotGranted(why), _) => return Err(StartError::NotGranted(why)),
            (End::Unwatched(why), _) => return Err(StartError::Unwatched(why)),
            (End::Panicked(panic), _) | (End::Stopped, Some(panic)) => panic::resume_unwind(panic),
        }
        handlers.sort_by_key(|(task, _)| *task);
        let (tasks, handlers) =
            handlers.into_iter().map(|(task, handler)| (task, *handler)).unzip();
        let events: Vec<Event> = self.drain().collect();
        let events_lost = self.events_lost();
        Ok(Stopped { handlers, tasks, stuck, events, events_lost, unfinished, exec_time })
    }

    /// Ends the run loop, the guard and the observer, however the upcalls ended. Returns the
    /// remains, the upcalls whose handlers are stuck, and the panic of a contained handler. Does
    /// not wait for a stuck thread to end.
    fn end_all(&mut self) -> (Finish<H>, Vec<u32>, Option<Payload>) {
        let mut finish = self.end();
        let out = std::mem::take(&mut finish.out);
        let (stuck, panic) = come_home(out, &mut finish.handlers);
        self.join_all(stuck.len(), finish.is_lost);
        self.end_observer();
        (finish, stuck, panic)
    }

    fn end_observer(&mut self) {
        if let Some(observer) = &mut self.observer {
            let shared = &self.shared;
            observer.end(|| shared.noticed.notify());
        }
    }

    /// Ends the run loop and the guard. Returns what is left.
    fn end(&mut self) -> Finish<H> {
        if let Some(orders) = &mut self.orders {
            // The queue is full only if the run loop has ended.
            let _ = orders.push(Order::Stop);
        }
        self.shared.wakeups.notify();
        let finish = self.finished.recv();
        self.shared.end_guard();
        self.orders = None;
        finish.expect("the sender is in what we share")
    }

    /// Waits for the threads to end, but only a moment for those of stuck handlers. With `or_more`
    /// there may be more stuck handlers than the `stuck` known ones.
    fn join_all(&self, stuck: usize, or_more: bool) {
        let may_stay = stuck > 0 || or_more;
        let threads = &self.shared.threads;
        let threads = std::mem::take(&mut *threads.lock().unwrap_or_else(PoisonError::into_inner));
        let mut threads = threads;
        let until = clock::now() + PATIENCE;
        while !threads.is_empty() {
            let (ended, running): (Vec<_>, Vec<_>) =
                threads.into_iter().partition(std::thread::JoinHandle::is_finished);
            for thread in ended {
                // A panic in it was printed when it happened.
                let _ = thread.join();
            }
            threads = running;
            if threads.len() <= stuck || (may_stay && clock::now() >= until) {
                return;
            }
            clock::sleep(Duration::from_micros(200));
        }
    }
}

/// Waits for contained handlers. Returns the numbers of the upcalls whose handlers have not
/// returned, and the first panic that came instead of one.
fn come_home<H>(
    mut out: Vec<Out<H>>,
    handlers: &mut Vec<(u32, Box<H>)>,
) -> (Vec<u32>, Option<Payload>) {
    let mut panic = None;
    let until = clock::now() + PATIENCE;
    loop {
        out.retain_mut(|out| {
            // In this order, because its thread sends the handler home before it drops its end.
            let has_let_go = out.comes_by.is_abandoned();
            let came = out.comes_by.pop().ok();
            let is_out = came.is_none() && !has_let_go;
            match came {
                Some(Ok(handler)) => handlers.push((out.task, handler)),
                Some(Err(another)) => match &panic {
                    None => panic = Some(another),
                    Some(_) => drop_quietly(another),
                },
                None => {}
            }
            is_out
        });
        if out.is_empty() || clock::now() >= until {
            return (out.into_iter().map(|out| out.task).collect(), panic);
        }
        clock::sleep(Duration::from_millis(1));
    }
}

impl<H> Drop for Running<H> {
    fn drop(&mut self) {
        if self.is_elsewhere() {
            // The threads behind these handles do not exist in this process.
            std::mem::forget((self.observer.take(), Arc::clone(&self.shared)));
            return;
        }
        if self.orders.is_some() && self.shared.has_begun() {
            // There is no caller in which its panic could go on, and perhaps another one is under
            // way.
            drop_quietly(self.end_all());
        }
        self.shared.end_guard();
        self.join_all(0, false);
        self.end_observer();
    }
}
