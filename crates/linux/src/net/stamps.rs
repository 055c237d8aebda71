//! Stamps that the kernel puts on datagrams, and their conversion to instants of CLOCK_MONOTONIC.
//!
//! The kernel stamps sockets' datagrams only with CLOCK_REALTIME (timestamping.rst of its
//! documentation). Both clocks run at one rate, slewed together; their difference changes only when
//! the time is set, at a leap second, or over a suspend. So one subtraction converts a stamp to an
//! instant. Its error is that of the measured difference, some tens of nanoseconds; and a changed
//! difference shows that the clock was set.

use std::os::fd::AsFd as _;

use punctual_model::time::{Duration, Instant};
use rustix::time::{ClockId, clock_gettime};

use super::control::Message;
use super::error::{OptionError, of_option};
use super::raw;
use super::socket::UdpSocket;
use crate::clock;

/// An instant of CLOCK_REALTIME, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallStamp(i64);

impl WallStamp {
    /// Returns nanoseconds since 1970.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Parses SCM_TIMESTAMPING: three `timespec`s, the first of them made by software. All zero
    /// means no stamp.
    pub(super) fn of(message: &Message<'_>) -> Option<Self> {
        let seconds = message.long(0)?;
        let nanos = message.long(1)?;
        let stamp = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
        (stamp != 0).then_some(Self(stamp))
    }
}

/// The measured difference by which CLOCK_REALTIME is ahead of CLOCK_MONOTONIC.
///
/// ```
/// use punctual_linux::net::WallOffset;
///
/// let offset = WallOffset::measure();
/// // Clocks of one host keep their distance unless the time is set.
/// assert!(offset.holds(&WallOffset::measure()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallOffset {
    nanos: i64,
    error: Duration,
}

impl WallOffset {
    /// Reads CLOCK_REALTIME between two readings of CLOCK_MONOTONIC, three times, and keeps the
    /// narrowest. Takes some 200 ns.
    pub fn measure() -> Self {
        let one = || {
            let before = clock::now();
            let wall = clock_gettime(ClockId::Realtime);
            let after = clock::now();
            let wall = wall.tv_sec.saturating_mul(1_000_000_000).saturating_add(wall.tv_nsec);
            let half = after.saturating_since(before).as_nanos().div_ceil(2);
            let middle = before.as_nanos().saturating_add(half).cast_signed();
            // One more: each of the three readings is truncated to whole nanoseconds.
            Self { nanos: wall.saturating_sub(middle), error: Duration::from_nanos(half + 1) }
        };
        let first = one();
        [one(), one()].into_iter().fold(
            first,
            |best, next| {
                if next.error < best.error { next } else { best }
            },
        )
    }

    /// Returns the largest error of [`monotonic`](Self::monotonic) while the time is not set.
    pub fn error(&self) -> Duration {
        self.error
    }

    /// Returns true if `later` agrees within the errors of both. If not, the time was set between
    /// them, and stamps made meanwhile mean nothing.
    pub fn holds(&self, later: &Self) -> bool {
        let error = self.error.saturating_add(later.error).as_nanos();
        self.nanos.abs_diff(later.nanos) <= error
    }

    /// Converts to CLOCK_MONOTONIC. Returns `None` for a stamp before its beginning.
    pub fn monotonic(&self, stamp: WallStamp) -> Option<Instant> {
        let nanos = stamp.0.checked_sub(self.nanos)?;
        Some(Instant::from_nanos(u64::try_from(nanos).ok()?))
    }
}

/// The stamps that a socket requests. The kernel's software makes all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// The time at which a datagram came from the driver.
    pub receive: bool,
    /// The time at which a datagram entered the queueing discipline.
    pub queued: bool,
    /// The time at which a datagram was handed to the driver, after all queues.
    pub sent: bool,
}

impl UdpSocket {
    /// Sets which stamps are made (SO_TIMESTAMPING). Those of sent datagrams come as
    /// [`Notice::Sent`](super::Notice::Sent), numbered from 0 in the order of sending since they
    /// were last requested; a train has one. Receive stamps begin a moment later: the kernel turns
    /// them on in the background.
    ///
    /// # Errors
    /// If the kernel does not support them.
    pub fn set_stamps(&self, which: Stamps) -> Result<(), OptionError> {
        let of = |on: bool, flags: u32| if on { flags } else { 0 };
        let sent = which.queued || which.sent;
        let flags = of(which.receive, libc::SOF_TIMESTAMPING_RX_SOFTWARE)
            | of(which.queued, libc::SOF_TIMESTAMPING_TX_SCHED)
            | of(which.sent, libc::SOF_TIMESTAMPING_TX_SOFTWARE)
            | of(sent, libc::SOF_TIMESTAMPING_OPT_ID | libc::SOF_TIMESTAMPING_OPT_TSONLY)
            | of(sent || which.receive, libc::SOF_TIMESTAMPING_SOFTWARE);
        let set = |flags: u32| {
            raw::set_int(self.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags.cast_signed())
                .map_err(of_option("SO_TIMESTAMPING", "Linux 4.0", flags.into()))
        };
        // Numbers restart only when OPT_ID is set where it was not.
        set(0)?;
        set(flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_of_now_is_now() {
        let offset = WallOffset::measure();
        let before = clock::now();
        let wall = clock_gettime(ClockId::Realtime);
        let stamp = WallStamp(wall.tv_sec * 1_000_000_000 + wall.tv_nsec);
        let after = clock::now();
        let seen = offset.monotonic(stamp).expect("after boot");
        assert!(seen.saturating_add(offset.error()) >= before, "{seen:?} {before:?}");
        assert!(seen <= after.saturating_add(offset.error()), "{seen:?} {after:?}");
    }

    #[test]
    fn a_clock_that_was_set_is_seen() {
        let offset = WallOffset { nanos: 1_000_000, error: Duration::from_nanos(30) };
        let same = WallOffset { nanos: 1_000_050, ..offset };
        let other = WallOffset { nanos: 1_000_061, ..offset };
        assert!(offset.holds(&same) && !offset.holds(&other));
        assert_eq!(offset.monotonic(WallStamp(999_999)), None);
    }
}
