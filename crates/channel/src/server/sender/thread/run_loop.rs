//! The thread's work: a block, a look at the bells, a sleep.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_linux::clock;
use punctual_linux::net::UdpSocket;
use punctual_model::{Duration, Instant};
use punctual_policy::egress::Terms;
use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;

use super::super::{Sender, Turn};
use crate::server::orders::Post;
use crate::server::sender::{Channel, Ended};
use crate::transport::Wire;

/// The orders' own number among those of the channels.
pub(super) const POST: u64 = u64::MAX;

#[derive(Debug)]
pub(super) enum Order {
    Open { key: u32, channel: Box<Channel>, socket: Option<Arc<UdpSocket>> },
    Change { key: u32, terms: Terms },
    Close { key: u32 },
    Finish { key: u32 },
    Look,
}

#[derive(Debug)]
pub(super) enum Report {
    Ended {
        key: u32,
        why: Ended,
    },
    /// The control side destroys the channel.
    Closed {
        key: u32,
        channel: Box<Channel>,
        socket: Option<Arc<UdpSocket>>,
    },
}

/// The number of blocks in a row after which the bells are looked at, whatever the time.
const BLOCKS: u32 = 8;

/// The same in time: the longest that a message that has just come may wait for the thread to see
/// it, beside the block that is leaving.
pub const LOOKS_EVERY: Duration = Duration::from_micros(10);

/// The time below which the thread polls instead of sleeping: sleeping and waking take the
/// processor as long, and end later, so that a fast link would be idle between any two packets.
pub const SPIN: Duration = Duration::from_micros(20);

/// The number of bells that are taken in one look.
pub(super) const BELLS: usize = 64;

/// The thread's own state.
pub(super) struct RunLoop {
    pub(super) sender: Sender<Wire>,
    pub(super) post: Post<Order, Report>,
    pub(super) bells: Arc<OwnedFd>,
    /// The time at which the bells were looked at last, for other threads to see.
    pub(super) looked: Arc<AtomicU64>,
    /// The last instant at which nothing waited to be handed over, for other threads to see.
    pub(super) idle: Arc<AtomicU64>,
    /// Bells wake the thread no more often than this; later rings are handled together.
    pub(super) pace: Duration,
    /// The time until which a thread that a bell woke sleeps on.
    pub(super) deaf_until: Instant,
}

impl RunLoop {
    pub(super) fn run(mut self) {
        let mut rung = Vec::with_capacity(BELLS);
        let mut looked = Instant::ZERO;
        loop {
            let sleep = self.work(looked);
            let Some(at) = self.hear(&mut rung, sleep) else { return };
            looked = at;
        }
    }

    /// Hands over what is due until the bells must be looked at, which was last done at `looked`.
    /// Returns how long the thread may sleep then; `None` is for ever.
    pub(super) fn work(&mut self, looked: Instant) -> Option<Duration> {
        let mut blocks = 0;
        loop {
            let now = clock::now();
            let turn = self.sender.turn(now, clock::now);
            self.report_ends();
            blocks += 1;
            match turn {
                Turn::Again if blocks < BLOCKS && now - looked < LOOKS_EVERY => {}
                Turn::Again => return Some(Duration::ZERO),
                Turn::At(at) => {
                    let left = at.saturating_since(clock::now());
                    return Some(if left < SPIN { Duration::ZERO } else { left });
                }
                Turn::Idle => {
                    self.idle.store(now.as_nanos(), Ordering::Release);
                    return None;
                }
            }
        }
    }

    /// Waits for a bell, and handles the bells and orders. Returns when it looked at the bells, or
    /// `None` if the control side is gone.
    pub(super) fn hear(
        &mut self,
        rung: &mut Vec<epoll::Event>,
        sleep: Option<Duration>,
    ) -> Option<Instant> {
        let heard = self.wait(rung, sleep);
        let looked = clock::now();
        let since = *heard.as_ref().unwrap_or(&looked);
        self.looked.store(looked.as_nanos(), Ordering::Relaxed);
        heard.ok()?;
        let mut ordered = false;
        for event in rung.drain(..) {
            if event.data.u64() == POST {
                ordered = true;
            } else {
                // The number under which it was registered.
                self.sender.look_since(clock::now(), event.data.u64() as u32, since);
            }
        }
        // Orders come after the bells: the bells that rang belong to the channels that have the
        // numbers until here.
        if ordered {
            self.post.silence();
            while let Some(order) = self.post.take() {
                self.report_ends();
                self.carry_out(order);
            }
            if self.post.is_abandoned() {
                return None;
            }
        }
        Some(looked)
    }

    fn report_ends(&mut self) {
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
                // Its bell is in the set already. A message for which the bell rang earlier is in
                // its ring, which is looked at here.
                let opened = self.sender.open(clock::now(), key, channel);
                debug_assert!(opened.is_ok(), "a number that is free");
            }
            Order::Change { key, terms } => {
                // It may have ended by itself meanwhile.
                let _there = self.sender.change(key, terms);
            }
            // The thread is awake, and notes whether it has anything to do.
            Order::Look => {}
            Order::Finish { key } => self.sender.finish(clock::now(), key),
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

    /// Waits for a bell for `sleep` at the longest; `None` is for ever. Returns since when the
    /// bells may have rung.
    ///
    /// If a bell wakes the thread too soon after the last time, the thread sleeps on, so that many
    /// clients cannot keep it from resting by ringing one after another.
    ///
    /// Time-outs of epoll_wait(2) are whole milliseconds, those of ppoll(2) are not, and
    /// epoll_pwait2(2) does not exist on all kernels: so this polls the set of bells.
    fn wait(
        &mut self,
        rung: &mut Vec<epoll::Event>,
        sleep: Option<Duration>,
    ) -> Result<Instant, Errno> {
        rung.clear();
        let mut since = None;
        if sleep != Some(Duration::ZERO) {
            let until = sleep.map(|sleep| clock::now().saturating_add(sleep));
            let timeout = sleep.map(|sleep| clock::timespec(sleep.as_nanos()));
            let mut ready = [PollFd::new(&*self.bells, PollFlags::IN)];
            match rustix::event::poll(&mut ready, timeout.as_ref()) {
                Ok(0) => return Ok(clock::now()),
                Ok(_) => {
                    let now = clock::now();
                    let deaf_until = until.map_or(self.deaf_until, |at| at.min(self.deaf_until));
                    if deaf_until.saturating_since(now) >= SPIN {
                        clock::sleep_until(deaf_until);
                        since = Some(now);
                    }
                    self.deaf_until = clock::now().saturating_add(self.pace);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(&*self.bells, rustix::buffer::spare_capacity(rung), Some(&at_once)) {
            Ok(_) | Err(Errno::INTR) => Ok(since.unwrap_or_else(clock::now)),
            Err(errno) => Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_linux::pass::Doorbell;
    use punctual_model::channel::{Link, Packetisation};
    use punctual_policy::egress::EgressScheduler;
    use punctual_policy::queues::ServiceOrder;
    use rustix::event::epoll::{CreateFlags, EventData};

    use super::super::desk_and_post;
    use super::*;
    use crate::transport::NullDevice;

    /// Checks that the second of two bells waits for the pace, and counts as one that may have rung
    /// at its beginning.
    #[test]
    fn bells_wake_the_thread_no_more_often_than_its_pace() {
        let link = Link::with_picos(Duration::ZERO, 0).expect("valid");
        let cut = Packetisation::new(100, 1).expect("valid");
        let egress = EgressScheduler::new(link, cut, ServiceOrder::Deadline, 1);
        let wire = Wire::Null(NullDevice::new(link, 100, Duration::MAX, ()));
        let (_desk, post) = desk_and_post(1, 2).expect("descriptors");
        let mut run_loop = RunLoop {
            sender: Sender::new(egress, cut, 1, wire),
            post,
            bells: Arc::new(epoll::create(CreateFlags::CLOEXEC).expect("a descriptor")),
            looked: Arc::default(),
            idle: Arc::default(),
            pace: Duration::from_millis(200),
            deaf_until: Instant::ZERO,
        };
        let doorbell = Doorbell::new().expect("a descriptor");
        doorbell.watch(&*run_loop.bells, EventData::new_u64(0)).expect("watched");
        let mut rung = Vec::with_capacity(BELLS);
        doorbell.ring().expect("an eventfd");
        let first = run_loop.wait(&mut rung, None).expect("an epoll");
        assert_eq!((rung.len(), run_loop.deaf_until > first), (1, true));
        let deaf_until = run_loop.deaf_until;
        doorbell.ring().expect("an eventfd");
        let since = run_loop.wait(&mut rung, None).expect("an epoll");
        let heard = clock::now();
        assert!(rung.len() == 1 && since < deaf_until && heard >= deaf_until);
        // Work that is due sooner is not delayed: no bell rang, and only the time passes.
        let before = clock::now();
        doorbell.ring().expect("an eventfd");
        let _since = run_loop.wait(&mut rung, Some(Duration::from_millis(1))).expect("an epoll");
        let (waited, rest) = (clock::now() - before, run_loop.pace);
        assert!(rung.len() == 1 && waited >= Duration::from_millis(1), "{waited} of {rest}");
    }
}
