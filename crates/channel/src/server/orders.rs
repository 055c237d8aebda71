//! The queues between the control side and a thread that carries messages: one each way, and an
//! eventfd each way to wake the other side.
//!
//! Neither side waits for the other. The control side does everything that takes long (connecting,
//! mapping, unmapping, closing): an order brings the new objects, and a report takes the old ones
//! away.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::EventfdFlags;
use rustix::io::Errno;

/// The control side's end.
#[derive(Debug)]
pub struct Desk<O, R> {
    orders: Producer<O>,
    reports: Consumer<R>,
    from: Arc<OwnedFd>,
    // Dropped last: the side that this wakes must find the queues abandoned.
    to: Rings,
}

/// The carrying thread's end.
#[derive(Debug)]
pub struct Post<O, R> {
    orders: Consumer<O>,
    reports: Producer<R>,
    to: Arc<OwnedFd>,
    // Dropped last, as above; also if the thread panics.
    from: Rings,
}

/// Wakes the other side, and once more when it is dropped.
#[derive(Debug)]
struct Rings(Arc<OwnedFd>);

impl Rings {
    fn ring(&self) {
        // This fails only if it was rung 2⁶⁴ times without being read: then the other side is awake
        // anyway.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.ring();
    }
}

/// Both ends.
pub type Sides<O, R> = (Desk<O, R>, Post<O, R>);

/// Creates both ends, with room for `orders` orders and `reports` reports.
///
/// # Errors
/// Returns an error if no descriptor is left (eventfd(2)).
pub fn desk_and_post<O, R>(orders: usize, reports: usize) -> Result<Sides<O, R>, Errno> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let wake = || rustix::event::eventfd(0, flags).map(Arc::new);
    let (to, from) = (wake()?, wake()?);
    let (order, ordered) = RingBuffer::new(orders);
    let (report, reported) = RingBuffer::new(reports);
    let (rings, heard) = (Rings(Arc::clone(&to)), Arc::clone(&from));
    let desk = Desk { orders: order, reports: reported, from: heard, to: rings };
    Ok((desk, Post { orders: ordered, reports: report, to, from: Rings(from) }))
}

impl<O, R> Desk<O, R> {
    /// Sends an order.
    ///
    /// # Errors
    /// Returns the order if the other side does not keep up.
    pub fn order(&mut self, order: O) -> Result<(), O> {
        self.orders.push(order).map_err(|rtrb::PushError::Full(order)| order)?;
        self.to.ring();
        Ok(())
    }

    /// Returns whether the other side is gone.
    pub fn is_abandoned(&self) -> bool {
        self.reports.is_abandoned()
    }

    /// Takes the oldest report. Poll(2) this [`AsFd`] to know when there is one.
    pub fn report(&mut self) -> Option<R> {
        let report = self.reports.pop().ok();
        if report.is_none() {
            silence(&self.from);
            // A report may have come before the eventfd was read.
            return self.reports.pop().ok();
        }
        report
    }
}

impl<O, R> AsFd for Desk<O, R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }
}

impl<O, R> Post<O, R> {
    /// Takes the oldest order. Poll(2) this [`AsFd`] to know when there is one.
    pub fn take(&mut self) -> Option<O> {
        self.orders.pop().ok()
    }

    /// Resets the eventfd. Call this when this [`AsFd`] was readable, before the orders are taken.
    pub fn silence(&self) {
        silence(&self.to);
    }

    /// Sends a report.
    ///
    /// # Errors
    /// Returns the report if the other side does not keep up.
    pub fn report(&mut self, report: R) -> Result<(), R> {
        self.reports.push(report).map_err(|rtrb::PushError::Full(report)| report)?;
        self.from.ring();
        Ok(())
    }

    /// Returns whether the other side is gone.
    pub fn is_abandoned(&self) -> bool {
        self.orders.is_abandoned()
    }
}

impl<O, R> AsFd for Post<O, R> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.to.as_fd()
    }
}

fn silence(bell: &OwnedFd) {
    let _ = rustix::io::read(bell, &mut [0; 8]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_go_one_way_and_reports_the_other() {
        let (mut desk, mut post) = desk_and_post::<u32, String>(2, 1).expect("descriptors");
        assert!(desk.order(1).is_ok() && desk.order(2).is_ok());
        assert_eq!(desk.order(3), Err(3));
        post.silence();
        assert_eq!((post.take(), post.take(), post.take()), (Some(1), Some(2), None));
        assert_eq!(post.report("a".into()), Ok(()));
        assert_eq!(post.report("b".into()), Err("b".into()));
        assert_eq!((desk.report(), desk.report()), (Some("a".into()), None));
        assert!(!post.is_abandoned() && !desk.is_abandoned());
        drop(desk);
        assert!(post.is_abandoned());
        let (desk, post) = desk_and_post::<u32, u32>(1, 1).expect("descriptors");
        drop(post);
        assert!(desk.is_abandoned());
    }
}
