//! Discards best effort that cannot be served before it costs this thread anything.
//!
//! An XDP policer does it, if there is one and packets are seen to pass it: that costs least. A
//! filter at the socket does it for datagrams that still come too fast, and for messages of several
//! datagrams, which are kept or lost together. The socket's own small buffer discards the rest.

use std::net::SocketAddr;

use punctual_linux::net::UdpSocket;
use punctual_linux::net::early::{EarlyPolicer, Rate};
use punctual_linux::net::filter::{Filter, Flow, PayloadByte, Verdict};

use punctual_model::channel::{Framing, LinearBounded};
use punctual_model::{Duration, Instant};
use punctual_policy::ingress::QUANTUM;

use super::terms::Terms;

/// The offset of the lowest byte of a message's number in the header of a fragment.
const NUMBER: u16 = 15;

/// The number of datagrams after which the policer is taken not to be in their path if it has seen
/// none.
const UNSEEN: u64 = 64;

/// The lowest rate at which a channel is taken to be read: one datagram of so many of its contract.
const SLOWEST: u64 = 64;

/// The observations of a channel since the last look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The time of this look.
    pub(super) now: Instant,
    /// Datagrams read, and those that came to the socket and were dropped.
    pub(super) read: u64,
    pub(super) lost: u64,
    /// True if its client or the thread did not keep up with what came.
    pub(super) behind: bool,
}

/// The early discarding of one channel.
#[derive(Debug)]
pub(super) struct Early {
    /// True if messages have several datagrams.
    by_message: bool,
    /// The time between two datagrams of its contract, and how much earlier one may come.
    spacing: Duration,
    tolerance: Duration,
    /// The part of datagrams that the filter at the socket keeps, in units of 2⁻³².
    kept: Option<u32>,
    /// The time between two datagrams at the rate at which they are read, if that is less than its
    /// contract's.
    pace: Option<Duration>,
    /// Its address at the policer, and the spacing set there.
    flow: Option<(SocketAddr, Duration)>,
    /// The number of datagrams discarded by the policer that the account includes.
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
            pace: None,
            flow: None,
            discarded: 0,
            came: 0,
            since: now,
        }
    }

    /// Returns whether datagrams are discarded at the socket.
    pub(super) fn is_filtered(&self) -> bool {
        self.kept.is_some()
    }

    /// Has the policer limit its datagrams to those that are read, if the policer has room.
    pub(super) fn police(&mut self, policer: &dyn EarlyPolicer, socket: &UdpSocket) {
        let Ok(flow) = socket.local_address() else { return };
        let spacing = self.read_each();
        // A portion may come at once, whatever the contract says about bursts.
        let portion = spacing.checked_mul(QUANTUM.into()).unwrap_or(Duration::MAX);
        let rate = Rate { spacing, tolerance: self.tolerance.max(portion) };
        if !self.by_message && policer.set(flow, rate) {
            self.flow = Some((flow, spacing));
        }
    }

    /// Returns how many datagrams the policer discarded since the last call.
    pub(super) fn count(&mut self, policer: &dyn EarlyPolicer) -> u64 {
        let counts = self.flow.and_then(|(flow, _)| policer.counts(flow));
        let discarded = counts.map_or(self.discarded, |counts| counts.discarded);
        discarded.saturating_sub(std::mem::replace(&mut self.discarded, discarded))
    }

    /// Removes it from the policer.
    pub(super) fn release(&mut self, policer: &dyn EarlyPolicer) {
        if let Some((flow, _)) = self.flow.take() {
            policer.remove(flow);
        }
    }

    /// Returns the time between two datagrams at the rate at which they are read.
    fn read_each(&self) -> Duration {
        self.pace.unwrap_or(self.spacing)
    }

    /// Adjusts the discarding to the observations. If the kernel refuses, it is tried again; until
    /// then the socket's buffer discards.
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
        self.pace = pace(self.pace, elapsed, self.spacing, &seen);
        let spacing = self.read_each();
        if let (Some((flow, before)), Some(policer)) = (self.flow, policer) {
            let unseen = policer.counts(flow).is_some_and(|counts| counts.passed == 0);
            if unseen && self.came >= UNSEEN {
                self.release(policer);
            } else if before != spacing {
                self.police(policer, socket);
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
            // This keeps messages whose numbers are multiples of a power of two, up to that of a
            // byte: at least as many as requested.
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

/// Returns the time between two datagrams at the rate at which they are read, after another look;
/// `None` means that of the contract. If client or thread did not keep up, the rate is an eighth
/// more than was read, so that an increase is noticed; otherwise it is twice as high as before, and
/// the contract's as soon as no more datagrams come than are read. `contract` is the time between
/// two datagrams of the contract.
fn pace(
    before: Option<Duration>,
    elapsed: Duration,
    contract: Duration,
    seen: &Seen,
) -> Option<Duration> {
    let spacing = if seen.behind {
        elapsed / Duration::from_nanos(1) / (seen.read + seen.read / 8 + 1)
    } else {
        before.filter(|before| seen.read + seen.lost > elapsed / *before)?.as_nanos() / 2
    };
    // A channel of which nothing is read for a while soon gets its rate again.
    let most = contract.checked_mul(SLOWEST).unwrap_or(Duration::MAX);
    let spacing = Duration::from_nanos(spacing).min(most);
    (spacing > contract).then_some(spacing)
}

/// Returns the part of `came` datagrams to keep before the socket, in units of 2⁻³², if `served` of
/// them can be read. `kept` is the part kept meanwhile; `None` means all.
///
/// An eighth more is kept than can be read, so that no turn is left without datagrams by chance;
/// the socket's buffer discards the rest. Discarding begins if half as many more come as can be
/// read, and ends when no more than that come.
fn part_to_keep(came: u64, served: u64, kept: Option<u32>) -> Option<u32> {
    let served = served.max(1);
    let begins = served.saturating_add(served / 2);
    if came <= served || (kept.is_none() && came < begins) {
        return None;
    }
    let wanted = u128::from(served.saturating_add(served / 8)) << 32;
    // A part of nearly one overflows, and means all.
    u32::try_from(wanted / u128::from(came)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarding_begins_at_half_more_than_is_read_and_ends_at_once() {
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

    fn seen(read: u64, behind: bool) -> Seen {
        Seen { now: Instant::ZERO, read, lost: 0, behind }
    }

    #[test]
    fn a_channel_that_is_read_more_slowly_than_its_contract_is_followed_down_and_up() {
        let (elapsed, contract) = (Duration::from_millis(100), Duration::from_micros(10));
        let next = |before, read, behind| pace(before, elapsed, contract, &seen(read, behind));
        assert_eq!(next(None, 500, false), None);
        let slow = next(None, 800, true);
        // 901 in a tenth of a second.
        assert_eq!(slow, Some(Duration::from_nanos(110_987)));
        assert_eq!(next(slow, 800, true), slow);
        let faster = next(slow, 902, false);
        assert_eq!(faster, Some(Duration::from_nanos(55_493)));
        // It has its rate again when no more come than are read, and soon when nothing was read.
        assert_eq!(next(slow, 900, false), None);
        let (mut none, mut looks) = (next(faster, 0, true), 0);
        while none.is_some() {
            none = next(none, 100_000, false);
            looks += 1;
        }
        assert!((2..=7).contains(&looks), "{looks}");
        // The contract is slower than the client.
        assert_eq!(next(None, 100_000, true), None);
    }
}
