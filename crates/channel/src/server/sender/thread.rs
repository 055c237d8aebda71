//! The thread that turns a [`Sender`]: it sleeps until the next block leaves, a bell rings, or an
//! order comes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;

use punctual_linux::net::UdpSocket;
use punctual_linux::thread::Tid;
use punctual_linux::{clock, thread};
use punctual_model::channel::{Link, Packetisation};
use punctual_model::{Duration, Instant};
use punctual_policy::link::ServiceOrder;
use punctual_policy::outlet::{Outlet, Terms};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::{Channel, Ended, Opening, Sender, Turn};
use crate::server::orders::{Desk, Post, desk_and_post};
use crate::transport::Wire;

/// Blocks in a row after which the bells are looked at, whatever the time.
const BLOCKS: u32 = 8;

/// The same in time: what a message that has just come may wait for the thread to see it, beside the
/// block that is leaving.
pub const LOOKS_EVERY: Duration = Duration::from_micros(10);

/// A wait that is shorter is spent looking: to sleep and wake up takes the processor as long, and ends
/// late by more, so that a fast link would stand idle between any two packets.
pub const SPIN: Duration = Duration::from_micros(20);

/// Bells that are taken in one look.
const BELLS: usize = 64;

/// Orders that may wait.
const ORDERS: usize = 1024;

/// The orders' own number among those of the channels.
const POST: u64 = u64::MAX;

/// What a sender's thread is made with.
#[derive(Debug)]
pub struct Setup {
    /// As it is reckoned: a little slower than the wire, so that queues form here.
    pub link: Link,
    /// How messages are cut.
    pub cut: Packetisation,
    /// Who leaves first.
    pub order: ServiceOrder,
    /// Channels that can be open.
    pub room: u32,
    /// How packets leave.
    pub wire: Wire,
}

#[derive(Debug)]
enum Order {
    Open { key: u32, channel: Box<Channel>, socket: Option<UdpSocket> },
    Change { key: u32, terms: Terms },
    Close { key: u32 },
}

#[derive(Debug)]
enum Report {
    Ended {
        key: u32,
        why: Ended,
    },
    /// To be taken apart by the side that decides.
    Closed {
        key: u32,
        channel: Box<Channel>,
        socket: Option<UdpSocket>,
    },
}

/// What a sender's thread tells.
#[derive(Debug)]
pub enum News {
    /// A channel has ended by itself, and is still to be closed.
    Ended {
        /// Its number.
        key: u32,
        /// Why.
        why: Ended,
    },
    /// A channel that was to be closed is: its number can be used again.
    Closed {
        /// Its number.
        key: u32,
        /// With its books.
        channel: Box<Channel>,
    },
}

/// A sender's thread, as the side that decides sees it. Dropped, it ends the thread.
#[derive(Debug)]
pub struct SenderThread {
    desk: Option<Desk<Order, Report>>,
    bells: std::sync::Arc<OwnedFd>,
    tid: Tid,
    thread: Option<JoinHandle<()>>,
}

/// The thread has more orders than it can take, or is gone: try again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sender's thread does not keep up with its orders: try again in a moment")]
pub struct Busy;

impl SenderThread {
    /// Starts it, as an ordinary thread: whoever may gives it a better class by its [`Self::tid`].
    ///
    /// # Errors
    /// If no thread or no descriptor can be had.
    pub fn start(setup: Setup) -> io::Result<Self> {
        let Setup { link, cut, order, room, wire } = setup;
        // An end and a close of each channel may wait to be read.
        let (desk, post) = desk_and_post(ORDERS, 2 * room as usize + ORDERS)?;
        let bells = std::sync::Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
        epoll::add(&*bells, post.as_fd(), EventData::new_u64(POST), EventFlags::IN)?;
        let sender = Sender::new(Outlet::new(link, cut, order, room), cut, room, wire);
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let thread = {
            let bells = std::sync::Arc::clone(&bells);
            std::thread::Builder::new().name("sender".into()).spawn(move || {
                // Of ordinary threads timers are late by this much, on purpose (prctl(2)).
                thread::set_timer_slack(Duration::from_nanos(1));
                let _ = tell.send(thread::current());
                Turning { sender, post, bells }.run();
            })?
        };
        let tid = told.recv().map_err(|_| io::Error::other("the sender's thread did not start"))?;
        Ok(Self { desk: Some(desk), bells, tid, thread: Some(thread) })
    }

    /// The thread.
    pub fn tid(&self) -> Tid {
        self.tid
    }

    /// Opens a channel under a number that is free.
    ///
    /// # Errors
    /// If the thread does not keep up.
    pub fn open(
        &mut self,
        key: u32,
        opening: Opening,
        socket: Option<UdpSocket>,
    ) -> Result<(), Busy> {
        // Edges only: a ring costs one wake-up and no call to silence it.
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        let data = EventData::new_u64(key.into());
        epoll::add(&*self.bells, &opening.bell, data, flags).map_err(|_| Busy)?;
        let order = Order::Open { key, channel: Channel::new(opening), socket };
        self.order(order).map_err(|order| {
            if let Order::Open { channel, .. } = order {
                let _ = epoll::delete(&*self.bells, &channel.opening.bell);
            }
            Busy
        })
    }

    /// Other terms for a channel, from its next message on.
    ///
    /// # Errors
    /// If the thread does not keep up.
    pub fn change(&mut self, key: u32, terms: Terms) -> Result<(), Busy> {
        self.order(Order::Change { key, terms }).map_err(|_| Busy)
    }

    /// Closes a channel; [`News::Closed`] says when it is.
    ///
    /// # Errors
    /// If the thread does not keep up.
    pub fn close(&mut self, key: u32) -> Result<(), Busy> {
        self.order(Order::Close { key }).map_err(|_| Busy)
    }

    /// Whether it has ended, which it does only when it panics: nothing is sent any more.
    pub fn has_ended(&self) -> bool {
        self.desk.as_ref().is_none_or(Desk::is_abandoned)
    }

    /// What happened; never waits. Poll(2) this [`AsFd`] to know when.
    pub fn news(&mut self) -> Option<News> {
        match self.desk.as_mut()?.report()? {
            Report::Ended { key, why } => Some(News::Ended { key, why }),
            Report::Closed { key, channel, socket } => {
                drop(socket);
                let _ = epoll::delete(&*self.bells, &channel.opening.bell);
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
        // That nobody is left to order is what ends it.
        drop(self.desk.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Turning {
    sender: Sender<Wire>,
    post: Post<Order, Report>,
    bells: std::sync::Arc<OwnedFd>,
}

impl Turning {
    fn run(mut self) {
        let mut rung = Vec::with_capacity(BELLS);
        let (mut blocks, mut looked) = (0, Instant::ZERO);
        loop {
            let now = clock::now();
            let turn = self.sender.turn(now, clock::now);
            self.tell_ends();
            blocks += 1;
            let sleep = match turn {
                Turn::Again if blocks < BLOCKS && now - looked < LOOKS_EVERY => continue,
                Turn::Again => Some(Duration::ZERO),
                Turn::At(at) => {
                    let left = at.saturating_since(clock::now());
                    Some(if left < SPIN { Duration::ZERO } else { left })
                }
                Turn::Idle => None,
            };
            let heard = wait(&self.bells, &mut rung, sleep);
            (blocks, looked) = (0, clock::now());
            if heard.is_err() {
                return;
            }
            let mut ordered = false;
            for event in rung.drain(..) {
                if event.data.u64() == POST {
                    ordered = true;
                } else {
                    let flags = event.flags;
                    let ends = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
                    let gone = flags.intersects(ends);
                    // The number that it was registered with.
                    self.sender.look(clock::now(), event.data.u64() as u32, gone);
                }
            }
            // After the bells: those that rang are of the channels that have the numbers until here.
            if ordered {
                self.post.silence();
                while let Some(order) = self.post.take() {
                    self.tell_ends();
                    self.carry_out(order);
                }
                if self.post.is_abandoned() {
                    return;
                }
            }
        }
    }

    fn tell_ends(&mut self) {
        while let Some((key, why)) = self.sender.ended() {
            // There is room for the end of each channel.
            let _ = self.post.report(Report::Ended { key, why });
        }
    }

    fn carry_out(&mut self, order: Order) {
        match order {
            Order::Open { key, channel, socket } => {
                if let (Wire::Udp(udp), Some(socket)) = (self.sender.transport_mut(), socket) {
                    udp.attach(key, socket);
                }
                let opened = self.sender.open(clock::now(), key, channel);
                debug_assert!(opened.is_ok(), "a number that is free");
            }
            Order::Change { key, terms } => {
                // It may have ended by itself meanwhile.
                let _there = self.sender.change(key, terms);
            }
            Order::Close { key } => {
                let Some(channel) = self.sender.close(key) else { return };
                let socket = match self.sender.transport_mut() {
                    Wire::Udp(udp) => udp.detach(key),
                    Wire::Null(_) => None,
                };
                let _ = self.post.report(Report::Closed { key, channel, socket });
            }
        }
    }
}

/// Waits for a bell, for so long; `None` is for ever.
///
/// Time-outs of epoll_wait(2) are whole milliseconds, those of ppoll(2) are not, and epoll_pwait2(2)
/// is not everywhere: so it is the set of bells that is polled.
fn wait(
    bells: &OwnedFd,
    rung: &mut Vec<epoll::Event>,
    sleep: Option<Duration>,
) -> Result<(), Errno> {
    rung.clear();
    if sleep != Some(Duration::ZERO) {
        let timeout = sleep.map(|sleep| clock::timespec(sleep.as_nanos()));
        let mut ready = [PollFd::new(bells, PollFlags::IN)];
        match rustix::event::poll(&mut ready, timeout.as_ref()) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    match epoll::wait(bells, rustix::buffer::spare_capacity(rung), Some(&at_once)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
