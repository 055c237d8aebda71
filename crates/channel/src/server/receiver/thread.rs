//! A thread that receives.

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
pub fn run(mut receiver: Receiver, mut post: Post<Order, Report>) -> Result<Receiver, Errno> {
    receiver.wake_for(post.as_fd())?;
    // What the side that decides has no room for at the moment.
    let mut reports = VecDeque::new();
    let mut wall_at = Instant::ZERO;
    let mut until = Instant::ZERO;
    loop {
        let ordered = receiver.wait(until, clock::now);
        let now = clock::now();
        if now >= wall_at {
            receiver.set_wall(WallOffset::measure());
            wall_at = now.saturating_add(WALL);
        }
        if ordered {
            post.silence();
            while let Some(order) = post.take() {
                reports.extend(carry_out(&mut receiver, now, order));
            }
        }
        if post.is_abandoned() {
            return Ok(receiver);
        }
        until = match receiver.turn(now) {
            Turn::Served(_) => now,
            Turn::Ended(id, channel, ended) => {
                reports.push_back(Report::Closed(id, channel, Some(ended)));
                now
            }
            // Not for ever: the other side's last ring may be heard before it is seen to be gone.
            Turn::Idle(next) => next.unwrap_or(Instant::MAX).min(now.saturating_add(WALL)),
        };
        while let Some(report) = reports.pop_front() {
            if let Err(report) = post.report(report) {
                reports.push_front(report);
                until = until.min(now.saturating_add(REPORTS));
                break;
            }
        }
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
