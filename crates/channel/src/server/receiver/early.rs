//! Best effort that cannot be served is discarded before it costs this thread anything.
//!
//! By an XDP policer, where there is one and packets are seen to pass it: that costs least. By a filter at
//! the socket for what still comes too fast, and for messages of several datagrams, which are kept or lost
//! together. What neither discards, the socket's own small buffer does.

use std::net::SocketAddr;

use punctual_linux::net::UdpSocket;
use punctual_linux::net::early::{EarlyPolicer, Rate};
use punctual_linux::net::filter::{Filter, Flow, PayloadByte, Verdict};

use punctual_model::channel::{Framing, LinearBounded};
use punctual_model::{Duration, Instant};
use punctual_policy::ingress::QUANTUM;

use super::terms::Terms;

/// The lowest byte of a message's number in the header of a fragment.
const NUMBER: u16 = 15;

/// Datagrams that come without one having been seen by the policer, after which it is taken not to be in
/// their way.
const UNSEEN: u64 = 64;

/// A client is taken to be able to read at least one of so many datagrams of its share.
const SLOWEST: u64 = 64;

/// What happened to a channel since the last look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// When this look is.
    pub(super) now: Instant,
    /// The time between two datagrams of its share.
    pub(super) share: Duration,
    /// Datagrams read, and those that came to the socket and were not kept.
    pub(super) read: u64,
    pub(super) lost: u64,
    /// Whether its ring was full at some time.
    pub(super) held: bool,
}

/// What its client takes, where that is less than its share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    /// The time between two datagrams at that rate.
    spacing: Duration,
}

/// What is discarded of one channel before its socket.
#[derive(Debug)]
pub(super) struct Early {
    /// Whether messages have several datagrams.
    by_message: bool,
    /// The time between two datagrams of its contract, and how much earlier one may come.
    spacing: Duration,
    tolerance: Duration,
    /// At the socket so many in 2³² are kept.
    kept: Option<u32>,
    /// What its client takes, if that is less than its share.
    room: Option<Room>,
    /// What the policer knows it by, at which spacing.
    flow: Option<(SocketAddr, Duration)>,
    /// Those discarded by the policer that are in the books.
    discarded: u64,
    came: u64,
    since: Instant,
}

impl Early {
    pub(super) fn new(terms: &Terms, arrivals: LinearBounded, now: Instant) -> Self {
        let datagrams = terms.datagrams(arrivals);
        let spacing = arrivals.min_inter_arrival().as_nanos() / u64::from(datagrams);
        Self {
            by_message: terms.framing == Framing::Fragments && datagrams > 1,
            spacing: Duration::from_nanos(spacing.max(1)),
            tolerance: arrivals.jitter().unwrap_or(Duration::MAX),
            kept: None,
            room: None,
            flow: None,
            discarded: 0,
            came: 0,
            since: now,
        }
    }

    /// Whether something is discarded at the socket.
    pub(super) fn is_filtered(&self) -> bool {
        self.kept.is_some()
    }

    /// Has its datagrams policed, one each `share`, if there is room for it.
    pub(super) fn police(
        &mut self,
        policer: &dyn EarlyPolicer,
        socket: &UdpSocket,
        share: Duration,
    ) {
        let Ok(flow) = socket.local_address() else { return };
        let spacing = self.spacing.max(share);
        // A portion may come at once, whatever the contract says of bursts.
        let portion = spacing.checked_mul(QUANTUM.into()).unwrap_or(Duration::MAX);
        let rate = Rate { spacing, tolerance: self.tolerance.max(portion) };
        if !self.by_message && policer.set(flow, rate) {
            self.flow = Some((flow, spacing));
        }
    }

    /// How many the policer discarded since the last time.
    pub(super) fn count(&mut self, policer: &dyn EarlyPolicer) -> u64 {
        let counts = self.flow.and_then(|(flow, _)| policer.counts(flow));
        let discarded = counts.map_or(self.discarded, |counts| counts.discarded);
        discarded.saturating_sub(std::mem::replace(&mut self.discarded, discarded))
    }

    /// Has it policed no more.
    pub(super) fn release(&mut self, policer: &dyn EarlyPolicer) {
        if let Some((flow, _)) = self.flow.take() {
            policer.remove(flow);
        }
    }

    /// Sets what is discarded by what was seen. What the kernel refuses is tried again: until then the
    /// socket's buffer does it.
    pub(super) fn look(
        &mut self,
        socket: &UdpSocket,
        policer: Option<&dyn EarlyPolicer>,
        seen: Seen,
    ) {
        let elapsed = seen.now.saturating_since(self.since);
        self.since = seen.now;
        let came = seen.read + seen.lost;
        self.came += came;
        let share = self.spacing.max(seen.share);
        self.room = room(self.room, elapsed, share, &seen);
        let spacing = self.room.map_or(share, |room| room.spacing);
        if let (Some((flow, before)), Some(policer)) = (self.flow, policer) {
            let unseen = policer.counts(flow).is_some_and(|counts| counts.passed == 0);
            if unseen && self.came >= UNSEEN {
                self.release(policer);
            } else if before != spacing {
                self.police(policer, socket, spacing);
            }
        }
        let wanted = part_to_keep(came, elapsed / spacing, self.kept);
        if wanted != self.kept && self.set(socket, wanted).is_some() {
            self.kept = wanted;
        }
    }

    fn set(&self, socket: &UdpSocket, kept: Option<u32>) -> Option<()> {
        let Some(part) = kept else { return socket.detach().ok() };
        let filter = if self.by_message {
            // The messages whose numbers are multiples of a power of two, up to that of a byte: at least
            // as many as were asked for.
            let mask = (1_u16 << part.leading_zeros().min(7)) as u8 - 1;
            let byte = Some(PayloadByte { at: NUMBER, mask, value: 0 });
            let flow = Flow { byte, ..Flow::default() };
            Filter::new(Verdict::Drop).rule(flow, Verdict::Keep)
        } else {
            Filter::new(Verdict::KeepPart(part))
        };
        socket.attach(&filter.compile(socket.is_v6()).ok()?).ok()
    }
}

/// What its client takes, after another look: an eighth more than it took while its ring was full, so
/// that it is seen to take more; twice as much as before where it was not.
fn room(before: Option<Room>, elapsed: Duration, share: Duration, seen: &Seen) -> Option<Room> {
    let spacing = if seen.held {
        elapsed / Duration::from_nanos(1) / (seen.read + seen.read / 8 + 1)
    } else {
        before?.spacing.as_nanos() / 2
    };
    // One that takes nothing for a while is not forgotten for long.
    let most = share.checked_mul(SLOWEST).unwrap_or(Duration::MAX);
    let spacing = Duration::from_nanos(spacing).min(most);
    (spacing > share).then_some(Room { spacing })
}

/// Of `came` datagrams, how many in 2³² are kept before the socket, where `served` of them can be read.
/// `kept` is how many were kept meanwhile; `None`: all.
///
/// An eighth more is kept than can be read, so that chance leaves nothing unread; the socket's buffer does
/// the rest. Discarding begins when half as many more come as can be read, and ends when no more do.
fn part_to_keep(came: u64, served: u64, kept: Option<u32>) -> Option<u32> {
    let served = served.max(1);
    let begins = served.saturating_add(served / 2);
    if came <= served || (kept.is_none() && came < begins) {
        return None;
    }
    let wanted = u128::from(served.saturating_add(served / 8)) << 32;
    // Where nearly all are kept, all may be.
    u32::try_from(wanted / u128::from(came)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarding_begins_at_half_more_than_the_share_and_ends_at_once() {
        let quarter = 1_u32 << 30;
        assert_eq!(part_to_keep(149, 100, None), None);
        assert_eq!(part_to_keep(3_600, 800, None), Some(quarter));
        assert_eq!(part_to_keep(1_800, 800, Some(1)), Some(2 * quarter));
        assert_eq!(part_to_keep(101, 100, Some(1)), None);
        assert_eq!(part_to_keep(100, 100, Some(1)), None);
        assert_eq!(part_to_keep(3, 0, None), Some((u64::from(u32::MAX) / 3) as u32));
        assert_eq!(part_to_keep(0, 0, None), None);
        assert_eq!(part_to_keep(u64::MAX, 1, None), Some(0));
    }

    fn seen(read: u64, held: bool) -> Seen {
        let share = Duration::from_micros(10);
        Seen { now: Instant::ZERO, share, read, lost: 0, held }
    }

    #[test]
    fn a_client_that_takes_less_than_its_share_is_followed_down_and_up() {
        let (elapsed, share) = (Duration::from_millis(100), Duration::from_micros(10));
        let next = |before, read, held| room(before, elapsed, share, &seen(read, held));
        assert_eq!(next(None, 500, false), None);
        let slow = next(None, 800, true);
        // 901 in a tenth of a second.
        assert_eq!(slow, Some(Room { spacing: Duration::from_nanos(110_987) }));
        assert_eq!(next(slow, 800, true), slow);
        let faster = next(slow, 900, false);
        assert_eq!(faster, Some(Room { spacing: Duration::from_nanos(55_493) }));
        // Whatever it does not take, the share is not far.
        let (mut none, mut looks) = (next(faster, 0, true), 0);
        while none.is_some() {
            none = next(none, 100, false);
            looks += 1;
        }
        assert!((1..=7).contains(&looks), "{looks}");
        // A share that is slower than the client.
        assert_eq!(next(None, 100_000, true), None);
    }
}
