//! A thread that receives; [`trial`] takes the time of what it does.

pub mod trial;

use std::collections::VecDeque;
use std::os::fd::AsFd as _;

use punctual_linux::clock;
use punctual_linux::net::WallOffset;
use punctual_model::{Duration, Instant};
use rustix::io::Errno;

use super::{Channel, Ended, OpenError, Opening, Receiver, Turn};
use crate::server::orders::Post;

/// How often it is looked whether the clock of the kernel's stamps was set.
const WALL: Duration = Duration::from_millis(500);

/// How long to wait for a side that does not take its reports.
const REPORTS: Duration = Duration::from_millis(10);

/// What the thread is to do.
#[derive(Debug)]
pub enum Order {
    /// Receive on a channel, which the side that decides knows by this number.
    Open(u64, Box<Opening>),
    /// Receive on it no more.
    Close(u64),
}

/// What it has done.
#[derive(Debug)]
pub enum Report {
    /// It receives on the channel.
    Opened(u64),
    /// It cannot.
    NotOpened(u64, OpenError),
    /// It receives on it no more, as ordered, or because of what went wrong. The channel is to be taken
    /// apart. No such report answers an order to close what has ended by itself before.
    Closed(u64, Box<Channel>, Option<Ended>),
}

/// Receives until the side that decides is gone; the receiver comes back with what was open.
///
/// The thread's class and CPU are its caller's to set, before.
///
/// # Errors
/// If orders cannot be waited for (epoll_ctl(2)).
pub fn run(receiver: Receiver, post: Post<Order, Report>) -> Result<Receiver, Errno> {
    let mut run_loop = RunLoop::new(receiver, post)?;
    while run_loop.go() != Went::Abandoned {}
    Ok(run_loop.receiver)
}

/// The thread's own.
#[derive(Debug)]
struct RunLoop {
    receiver: Receiver,
    post: Post<Order, Report>,
    /// What the side that decides has no room for at the moment.
    reports: VecDeque<Report>,
    wall_at: Instant,
    /// For how long it may sleep.
    until: Instant,
}

/// What a round came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Went {
    /// There may be more to do.
    On,
    /// There is nothing to do: the next round sleeps.
    Idle,
    /// The side that decides is gone.
    Abandoned,
}

impl RunLoop {
    fn new(receiver: Receiver, post: Post<Order, Report>) -> Result<Self, Errno> {
        receiver.wake_for(post.as_fd())?;
        let (wall_at, until) = (Instant::ZERO, Instant::ZERO);
        Ok(Self { receiver, post, reports: VecDeque::new(), wall_at, until })
    }

    /// Sleeps if there is nothing to do, then does the most urgent thing.
    fn go(&mut self) -> Went {
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
            return Went::Abandoned;
        }
        let (went, until) = match self.receiver.turn(now) {
            Turn::Served(_) => (Went::On, now),
            Turn::Ended(id, channel, ended) => {
                self.reports.push_back(Report::Closed(id, channel, Some(ended)));
                (Went::On, now)
            }
            // Not for ever: the other side's last ring may be heard before it is seen to be gone.
            Turn::Idle(next) => {
                (Went::Idle, next.unwrap_or(Instant::MAX).min(now.saturating_add(WALL)))
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
