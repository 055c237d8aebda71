//! Starts upcalls that were created.

use std::sync::Arc;
use std::sync::mpsc;

use punctual_linux::clock;
use punctual_model::{Handler, Instant};
use punctual_ring::lease::Held;
use punctual_ring::spsc;

use super::admission::Work;
use super::notice::Observer;
use super::queues;
use super::{Running, StartError, Upcalls};
use crate::run_loop::{self, Executor, Queues, Shared};

impl<H: Handler + Send + 'static> Upcalls<H> {
    /// Starts a thread that runs all upcalls, and one that watches it. Each upcall is first
    /// released at `start` (CLOCK_MONOTONIC) or its phase after it ([`Self::create_at`]). If
    /// `start` has passed, releases a period ago or more are not caught up with (see
    /// [`first_release`](punctual_policy::rmdp::first_release)).
    ///
    /// Returns when the threads have the scheduling classes they need, or with the reason why not.
    pub fn run(self, start: Instant) -> Result<Running<H>, StartError> {
        let Self { promises, handlers, room, event_room, most_contained, observer, grant } = self;
        let event_room = event_room.unwrap_or_else(|| queues::room_for_events(promises.periods()));
        let (events, for_events) = spsc::channel(event_room);
        let notices_room = queues::room_for_notices(handlers.len() + room);
        let (notices, for_notices) = spsc::channel(notices_room);
        let (for_orders, orders) = rtrb::RingBuffer::new(1);
        let (answers, for_answers) = rtrb::RingBuffer::new(1);
        let (finish, finished) = mpsc::sync_channel(1);
        let room = handlers.len() + room;
        let shared = Arc::new(Shared::new(room, finish)?);
        let queues = Queues { events, notices, notices_room, orders, answers };
        let (placement, grace) = (promises.placement, promises.grace);
        let release_window = promises.release_window;
        let mut executor =
            Executor::new(room, placement, grace, most_contained, release_window, queues);
        executor.grant = grant;
        let next_task = handlers.len() as u32;
        let now = clock::now();
        for ((handler, phase), task) in handlers.into_iter().zip(0..) {
            let work = promises.of(task).expect("admitted").clone();
            let first = match work {
                Work::RealTime(_) => start.saturating_add(phase),
                Work::BestEffort(_) => now,
            };
            executor.enrol(task, work, Box::new(handler), first, now, &shared);
        }
        let executor = Held::new(executor);
        let mut running = Running::new(promises, room, next_task, Arc::clone(&shared), finished);
        running.queues(for_events, for_orders, for_answers);
        if let Some(grace) = grace {
            run_loop::start_guard(&shared, executor.seizer(), grace, placement)?;
        }
        let (ready, is_ready) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new().name("upcalls".into()).spawn({
            let shared = Arc::clone(&shared);
            move || run_loop::begin(executor, &shared, &ready)
        })?;
        shared.add_thread(thread);
        match is_ready.recv() {
            Ok(Ok(())) => {}
            // Dropping `running` ends the threads.
            Ok(Err(refused)) => return Err(refused),
            Err(mpsc::RecvError) => unreachable!("it says whether it has its class first"),
        }
        running.observer = Some(Observer::new(observer, for_notices, shared)?);
        Ok(running)
    }
}
