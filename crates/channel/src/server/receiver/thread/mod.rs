//! A thread that receives; [`trial`] measures the time of its work.

pub mod trial;

use std::collections::VecDeque;
use std::os::fd::AsFd as _;

use punctual_linux::clock;
use punctual_linux::net::WallOffset;
use punctual_model::{Duration, Instant};
use rustix::io::Errno;

use super::{Channel, Ended, OpenError, Opening, Receiver, Turn};
use crate::server::orders::Post;

/// The interval at which it checks whether the clock of the kernel's stamps was set.
const WALL: Duration = Duration::from_millis(500);

/// The time to wait for a control side that does not take its reports.
const REPORTS: Duration = Duration::from_millis(10);

/// An order to the thread.
#[derive(Debug)]
pub enum Order {
    /// Receive on a channel, which the control side knows by this number.
    Open(u64, Box<Opening>),
    /// Stop receiving on it.
    Close(u64),
}

/// A report of the thread.
#[derive(Debug)]
pub enum Report {
    /// It receives on the channel.
    Opened(u64),
    /// It cannot receive on it.
    NotOpened(u64, OpenError),
    /// It has stopped receiving on the channel, as ordered, or because of an error. The control
    /// side destroys the channel. No such report answers an order to close a channel that has ended
    /// by itself before.
    Closed(u64, Box<Channel>, Option<Ended>),
}

/// Receives until the control side is gone. Returns the receiver with its open channels.
///
/// The caller must set the thread's class and CPU before.
///
/// # Errors
/// Returns an error if orders cannot be watched (epoll_ctl(2)).
pub fn run(receiver: Receiver, post: Post<Order, Report>) -> Result<Receiver, Errno> {
    let mut run_loop = RunLoop::new(receiver, post)?;
    while run_loop.go() != Round::Abandoned {}
    Ok(run_loop.receiver)
}

/// The thread's own state.
#[derive(Debug)]
struct RunLoop {
    receiver: Receiver,
    post: Post<Order, Report>,
    /// Reports for which the control side has no room at the moment.
    reports: VecDeque<Report>,
    wall_at: Instant,
    /// The time until which it may sleep.
    until: Instant,
}

/// The outcome of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// There may be more to do.
    On,
    /// There is nothing to do: the next round sleeps.
    Idle,
    /// The control side is gone.
    Abandoned,
}

impl RunLoop {
    fn new(receiver: Receiver, post: Post<Order, Report>) -> Result<Self, Errno> {
        receiver.wake_for(post.as_fd())?;
        let (wall_at, until) = (Instant::ZERO, Instant::ZERO);
        Ok(Self { receiver, post, reports: VecDeque::new(), wall_at, until })
    }

    /// Sleeps if there is nothing to do, then does the most urgent thing.
    fn go(&mut self) -> Round {
        let ordered = self.receiver.wait(self.until, clock::now);
        let now = clock::now();
        if now >= self.wall_at {
            self.receiver.set_wall(WallOffset::measure());
            self.wall_at = now.saturating_add(WALL);
        }
        if ordered {
            self.post.silence();
            while let Some(order) = self.post.take() {
                self.reports.extend(carry_out(&mut self.receiver, now, order));
            }
        }
        if self.post.is_abandoned() {
            return Round::Abandoned;
        }
        let (went, until) = match self.receiver.turn(now) {
            Turn::Served(_) => (Round::On, now),
            Turn::Ended(id, channel, ended) => {
                self.reports.push_back(Report::Closed(id, channel, Some(ended)));
                (Round::On, now)
            }
            // The sleep is bounded: the control side's last wake-up may come before it is seen to
            // be gone.
            Turn::Idle(next) => {
                (Round::Idle, next.unwrap_or(Instant::MAX).min(now.saturating_add(WALL)))
            }
        };
        self.until = until;
        while let Some(report) = self.reports.pop_front() {
            if let Err(report) = self.post.report(report) {
                self.reports.push_front(report);
                self.until = until.min(now.saturating_add(REPORTS));
                break;
            }
        }
        went
    }
}

fn carry_out(receiver: &mut Receiver, now: Instant, order: Order) -> Option<Report> {
    match order {
        Order::Open(id, opening) => Some(match receiver.open(now, id, *opening) {
            Ok(()) => Report::Opened(id),
            Err(why) => Report::NotOpened(id, why),
        }),
        Order::Close(id) => {
            receiver.close(now, id).map(|channel| Report::Closed(id, channel, None))
        }
    }
}
