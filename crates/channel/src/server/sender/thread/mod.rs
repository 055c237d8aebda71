//! The thread that drives a [`Sender`]: it sleeps until the next block leaves, a bell rings, or an
//! order comes. This module is the control side's handle; `run_loop` is the thread's work, and
//! [`trial`] measures its time.

mod run_loop;
pub mod trial;

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

use punctual_linux::clock;
use punctual_linux::net::UdpSocket;
use punctual_linux::thread::{self, Tid};
use punctual_model::channel::{Link, Packetisation, Policing};
use punctual_model::{Duration, Instant};
use punctual_policy::egress::{EgressScheduler, Terms};
use punctual_policy::queues::ServiceOrder;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::{Channel, Ended, Opening, Sender};
use crate::server::events::Events;
use crate::server::orders::{Desk, desk_and_post};
use crate::transport::Wire;
use run_loop::{Order, POST, Report, RunLoop};

pub use run_loop::{LOOKS_EVERY, SPIN};

/// The number of orders that may wait.
const ORDERS: usize = 1024;

/// The setup of a sender's thread.
#[derive(Debug)]
pub struct Setup {
    /// The calculated link: a little slower than the wire, so that queues form here.
    pub link: Link,
    /// The packetisation of messages.
    pub cut: Packetisation,
    /// The order in which messages leave.
    pub order: ServiceOrder,
    /// The least time from one packet to the next ([`EgressScheduler::with_pace`]), and from one
    /// wake-up by a bell to the next; zero adds no limit.
    pub pace: Duration,
    /// The number of channels that can be open.
    pub room: u32,
    /// The transport.
    pub wire: Wire,
    /// The queue for events of each message, if they are wanted.
    pub events: Option<Events>,
}

/// A report of a sender's thread.
#[derive(Debug)]
pub enum News {
    /// A channel has ended by itself, and is still to be closed.
    Ended {
        /// Its number.
        key: u32,
        /// The reason.
        why: Ended,
    },
    /// A channel was closed as ordered: its number can be used again.
    Closed {
        /// Its number.
        key: u32,
        /// The channel, with its account.
        channel: Box<Channel>,
    },
}

/// The control side's handle of a sender's thread. Dropping it ends the thread.
#[derive(Debug)]
pub struct SenderThread {
    desk: Option<Desk<Order, Report>>,
    bells: Arc<OwnedFd>,
    looked: Arc<AtomicU64>,
    /// The last instant at which the thread had nothing to hand over.
    idle: Arc<AtomicU64>,
    /// The time at which something was first seen to wait for the thread, and when the thread had
    /// looked last then.
    unheard: Cell<Option<(Instant, u64)>>,
    tid: Tid,
    thread: Option<JoinHandle<()>>,
}

/// The error that the thread has more orders than it can take, or is gone: try again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender's thread does not keep up with its orders: try again in a moment")]
pub struct Busy;

impl SenderThread {
    /// Starts the thread as an ordinary one. A privileged program can give it a better class by its
    /// [`Self::tid`].
    ///
    /// # Errors
    /// Returns an error if no thread or no descriptor can be created.
    pub fn start(setup: Setup) -> io::Result<Self> {
        let Setup { link, cut, order, pace, room, wire, events } = setup;
        // An end and a close of each channel may wait to be read.
        let (desk, post) = desk_and_post(ORDERS, 2 * room as usize + ORDERS)?;
        let bells = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        let (looked, idle) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        epoll::add(&*bells, post.as_fd(), EventData::new_u64(POST), EventFlags::IN)?;
        let mut sender = Sender::new(
            EgressScheduler::new(link, cut, order, room).with_pace(pace),
            cut,
            room,
            wire,
        );
        if let Some(events) = events {
            sender.tell_events(events);
        }
        let (started, has_started) = std::sync::mpsc::sync_channel(1);
        let thread = {
            let (bells, looked, idle) =
                (Arc::clone(&bells), Arc::clone(&looked), Arc::clone(&idle));
            std::thread::Builder::new().name("sender".into()).spawn(move || {
                // Timers of ordinary threads are late by their slack, on purpose (prctl(2)).
                thread::set_timer_slack(Duration::from_nanos(1));
                let _ = started.send(thread::current());
                RunLoop { sender, post, bells, looked, idle, pace, deaf_until: Instant::ZERO }
                    .run();
            })?
        };
        let tid = has_started
            .recv()
            .map_err(|_| io::Error::other("the sender's thread did not start"))?;
        Ok(Self {
            desk: Some(desk),
            bells,
            looked,
            idle,
            unheard: Cell::new(None),
            tid,
            thread: Some(thread),
        })
    }

    /// Returns the thread's id.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Opens a channel under a number that is free.
    ///
    /// # Errors
    /// Returns an error if the thread does not keep up.
    pub fn open(
        &mut self,
        key: u32,
        opening: Opening,
        socket: Option<Arc<UdpSocket>>,
    ) -> Result<(), Busy> {
        self.open_policed(key, opening, Policing::Gcra, socket)
    }

    /// Opens a channel with a rule for early messages. The burst of its terms must be at least that
    /// of [`Policing::covering`].
    ///
    /// # Errors
    /// Returns an error if the thread does not keep up.
    pub fn open_policed(
        &mut self,
        key: u32,
        opening: Opening,
        policing: Policing,
        socket: Option<Arc<UdpSocket>>,
    ) -> Result<(), Busy> {
        // Done here, because it can fail.
        let data = EventData::new_u64(key.into());
        opening.doorbell.watch(&*self.bells, data).map_err(|_| Busy)?;
        let channel = Channel::new(opening);
        let channel = match policing {
            Policing::Gcra => channel,
            Policing::Credits(sensitivity) => channel.with_credits(clock::now(), sensitivity),
        };
        let order = Order::Open { key, channel, socket };
        self.order(order).map_err(|order| {
            if let Order::Open { channel, .. } = order {
                let _ = channel.opening.doorbell.unwatch(&*self.bells);
            }
            Busy
        })
    }

    /// Changes the terms of a channel from its next message on.
    ///
    /// # Errors
    /// Returns an error if the thread does not keep up.
    pub fn change(&mut self, key: u32, terms: Terms) -> Result<(), Busy> {
        self.order(Order::Change { key, terms }).map_err(|_| Busy)
    }

    /// Closes a channel; [`News::Closed`] reports when that is done.
    ///
    /// # Errors
    /// Returns an error if the thread does not keep up.
    pub fn close(&mut self, key: u32) -> Result<(), Busy> {
        self.order(Order::Close { key }).map_err(|_| Busy)
    }

    /// Announces that nothing more comes for a channel: the messages in its ring are sent, then it
    /// ends, which [`News::Ended`] reports.
    ///
    /// # Errors
    /// Returns an error if the thread does not keep up.
    pub fn finish(&mut self, key: u32) -> Result<(), Busy> {
        self.order(Order::Finish { key }).map_err(|_| Busy)
    }

    /// Has the thread note soon whether it is idle ([`Self::idle_at`]). If it does not keep up, it is
    /// not.
    pub fn look(&mut self) {
        let _ = self.order(Order::Look);
    }

    /// Returns the last instant at which all messages that the thread knew were handed over. It
    /// notes such an instant whenever it goes to sleep because there is nothing to do.
    pub fn idle_at(&self) -> Instant {
        Instant::from_nanos(self.idle.load(Ordering::Acquire))
    }

    /// Returns for how long at least something has waited for this thread without being looked at:
    /// a bell that was rung, or an order. Call this now and then: the time counts from the first
    /// call that finds something waiting. Nothing waits for a thread that sleeps because there is
    /// nothing to do.
    pub fn unheard(&self, now: Instant) -> Duration {
        let looked = self.looked.load(Ordering::Relaxed);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut bells = [PollFd::new(&*self.bells, PollFlags::IN)];
        let waits = rustix::event::poll(&mut bells, Some(&at_once)) == Ok(1);
        let unheard = match self.unheard.get() {
            _ if !waits => None,
            Some((since, then)) if then == looked => Some((since, then)),
            _ => Some((now, looked)),
        };
        self.unheard.set(unheard);
        unheard.map_or(Duration::ZERO, |(since, _)| now.saturating_since(since))
    }

    /// Returns whether the thread has ended, which it does only by a panic: nothing is sent any
    /// more.
    pub fn has_ended(&self) -> bool {
        self.desk.as_ref().is_none_or(Desk::is_abandoned)
    }

    /// Takes the oldest report; never waits. Poll(2) this [`AsFd`] to know when there is one.
    pub fn news(&mut self) -> Option<News> {
        match self.desk.as_mut()?.report()? {
            Report::Ended { key, why } => Some(News::Ended { key, why }),
            Report::Closed { key, channel, socket } => {
                drop(socket);
                let _ = channel.opening.doorbell.unwatch(&*self.bells);
                Some(News::Closed { key, channel })
            }
        }
    }

    fn order(&mut self, order: Order) -> Result<(), Order> {
        match &mut self.desk {
            Some(desk) => desk.order(order),
            None => Err(order),
        }
    }
}

impl AsFd for SenderThread {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.desk.as_ref().map_or_else(|| self.bells.as_fd(), AsFd::as_fd)
    }
}

impl Drop for SenderThread {
    fn drop(&mut self) {
        // Dropping the control side's end makes the thread end.
        drop(self.desk.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_linux::pass::Doorbell;

    use super::*;

    /// Checks that work that waits for a thread without a turn is found, and for how long it waits.
    #[test]
    fn work_that_a_thread_ignores_is_found_from_outside() {
        let bells = Arc::new(epoll::create(CreateFlags::CLOEXEC).expect("a descriptor"));
        let doorbell = Doorbell::new().expect("a descriptor");
        doorbell.watch(&*bells, EventData::new_u64(0)).expect("watched");
        let thread = SenderThread {
            desk: None,
            bells: Arc::clone(&bells),
            looked: Arc::default(),
            idle: Arc::default(),
            unheard: Cell::new(None),
            tid: thread::current(),
            thread: None,
        };
        let unheard = |at| thread.unheard(Instant::from_nanos(at)).as_nanos();
        assert_eq!((unheard(5), unheard(1_000)), (0, 0), "nothing waits for it");
        doorbell.ring().expect("an eventfd");
        assert_eq!((unheard(2_000), unheard(2_400), unheard(2_500)), (0, 400, 500));
        // The thread has looked, and something waits again, or another thing does.
        thread.looked.store(2_600, Ordering::Relaxed);
        assert_eq!((unheard(2_700), unheard(2_800)), (0, 100));
        // The thread has noticed it.
        let mut rung = Vec::with_capacity(4);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&*bells, rustix::buffer::spare_capacity(&mut rung), Some(&at_once))
            .expect("an epoll");
        assert_eq!((rung.len(), unheard(2_900), unheard(9_000)), (1, 0, 0));
    }
}
