//! The account of a channel that receives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::Duration;

use super::delays::{DelayCounts, Delays};
use crate::fragment::Counts;

/// The account of one channel that receives, as other threads see it.
#[derive(Debug)]
#[repr(align(64))]
pub struct ReceivedAccount {
    fragments: bool,
    received: AtomicU64,
    received_bytes: AtomicU64,
    ring_full: AtomicU64,
    nonconforming: AtomicU64,
    misfits: AtomicU64,
    missing: AtomicU64,
    incomplete: AtomicU64,
    open: AtomicU64,
    arrived: AtomicU64,
    at_socket: AtomicU64,
    early: AtomicU64,
    policed: AtomicU64,
    refused: AtomicU64,
    worst_residence: AtomicU64,
    worst_delay: AtomicU64,
    delayed: AtomicU64,
    residences: Delays,
    delays: Delays,
}

// Ten thousand channels need a known amount: twenty megabytes.
const _: () = assert!(size_of::<ReceivedAccount>() <= 2048);

/// A snapshot of the account of a channel that receives.
///
/// Every message that was sent is counted once: as received, as lost by one cause, or as open. If a
/// channel's framing is datagrams, only what reached this host is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedSnapshot {
    /// Messages put into the client's ring.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Messages lost, by cause.
    pub losses: ReceivedLosses,
    /// Messages of which it is not known yet whether they will be complete.
    pub open: u32,
    /// The counts of datagrams that came in.
    pub datagrams: Datagrams,
    /// The times from a message's arrival at this host to the beginning of the turn that put it
    /// into the ring.
    pub residences: DelayCounts,
    /// The longest of these.
    pub worst_residence: Duration,
    /// The times from the stamp in a message's first fragment to its arrival, if both are of one
    /// clock.
    pub delays: DelayCounts,
    /// The longest of these; `None` if there are none.
    pub worst_delay: Option<Duration>,
}

/// Messages lost, by cause. If no fragment of a message came, and this host discarded datagrams of
/// the channel, the loss is attributed to this host as far as these go. Only the rest is attributed
/// to the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceivedLosses {
    /// Message numbers of which this host has seen nothing; `None` if messages have no numbers.
    pub network: Option<u64>,
    /// Lost because the socket's buffer was full.
    pub socket: u64,
    /// Discarded because the sender broke its contract, because best effort got more than its
    /// share, or because no message of this contract has that size.
    pub discarded: u64,
    /// Incomplete: some of their fragments came.
    pub reassembly: u64,
    /// Lost because the client's ring was full.
    pub ring_full: u64,
}

impl ReceivedLosses {
    /// Returns the sum of all known losses.
    pub fn total(&self) -> u64 {
        let Self { network, socket, discarded, reassembly, ring_full } = *self;
        network.unwrap_or(0) + socket + discarded + reassembly + ring_full
    }
}

/// The counts of datagrams that came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Datagrams {
    /// Datagrams read from the socket.
    pub arrived: u64,
    /// Datagrams that the socket dropped for lack of room.
    pub socket: u64,
    /// Datagrams discarded before the socket, because best effort got more than its share.
    pub early: u64,
    /// Datagrams read that broke the contract.
    pub policed: u64,
    /// Datagrams read that were no fragment of a message that can be under way, or came twice.
    pub refused: u64,
}

/// Writes the account of one channel that receives. There is one for each [`ReceivedAccount`].
#[derive(Debug)]
pub struct Receipts {
    account: Arc<ReceivedAccount>,
}

/// The outcome of a complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is in the client's ring.
    Received,
    /// The client's ring had no room.
    RingFull,
    /// It came before its contract allows.
    NonConforming,
    /// It is longer or shorter than any declared message.
    Misfit,
}

/// Adds to a figure. Plain loads and stores suffice, because there is one writer.
fn add(figure: &AtomicU64, by: u64) {
    figure.store(figure.load(Ordering::Relaxed) + by, Ordering::Release);
}

fn raise(figure: &AtomicU64, to: u64) {
    if to > figure.load(Ordering::Relaxed) {
        figure.store(to, Ordering::Relaxed);
    }
}

impl Receipts {
    /// Creates an empty account of a channel whose messages come in fragments, or as datagrams.
    pub fn new(fragments: bool) -> Self {
        let zero = || AtomicU64::new(0);
        let account = ReceivedAccount {
            fragments,
            received: zero(),
            received_bytes: zero(),
            ring_full: zero(),
            nonconforming: zero(),
            misfits: zero(),
            missing: zero(),
            incomplete: zero(),
            open: zero(),
            arrived: zero(),
            at_socket: zero(),
            early: zero(),
            policed: zero(),
            refused: zero(),
            worst_residence: zero(),
            worst_delay: zero(),
            delayed: zero(),
            residences: Delays::new(),
            delays: Delays::new(),
        };
        Self { account: Arc::new(account) }
    }

    /// Returns the account that other threads may read.
    pub fn account(&self) -> &Arc<ReceivedAccount> {
        &self.account
    }

    /// Counts a datagram that was read.
    #[inline]
    pub fn arrived(&mut self) {
        add(&self.account.arrived, 1);
    }

    /// Counts a complete message of `bytes` bytes.
    #[inline]
    pub fn message(&mut self, bytes: u32, outcome: Outcome) {
        let account = &*self.account;
        let figure = match outcome {
            Outcome::Received => {
                add(&account.received_bytes, bytes.into());
                &account.received
            }
            Outcome::RingFull => &account.ring_full,
            Outcome::NonConforming => &account.nonconforming,
            Outcome::Misfit => &account.misfits,
        };
        add(figure, 1);
    }

    /// Records the time from a message's arrival at this host to its reception.
    #[inline]
    pub fn resided(&mut self, residence: Duration) {
        self.account.residences.record(residence);
        raise(&self.account.worst_residence, residence.as_nanos());
    }

    /// Records the time from the sending of a message to its arrival at this host.
    pub fn delayed(&mut self, delay: Duration) {
        self.account.delays.record(delay);
        raise(&self.account.worst_delay, delay.as_nanos());
        add(&self.account.delayed, 1);
    }

    /// Adds datagrams that the socket dropped, and those that were discarded before it.
    pub fn not_kept(&mut self, at_socket: u64, early: u64) {
        add(&self.account.at_socket, at_socket);
        add(&self.account.early, early);
    }

    /// Counts a fragment that was discarded because its sender broke its contract.
    pub fn policed(&mut self) {
        add(&self.account.policed, 1);
    }

    /// Stores the counts of a reassembly, and the number of open messages.
    pub fn reassembly(&mut self, counts: Counts, open: u32) {
        let Counts { complete: _, missing, given_up, crowded_out, cut_off, .. } = counts;
        let account = &*self.account;
        let store = |figure: &AtomicU64, value| figure.store(value, Ordering::Release);
        store(&account.refused, counts.duplicates + counts.over + counts.refused);
        store(&account.missing, missing);
        store(&account.incomplete, given_up + crowded_out + cut_off);
        store(&account.open, open.into());
    }
}

impl ReceivedAccount {
    /// Returns the account at this instant. Any thread may call this at any time; it never waits.
    /// While messages come, its figures are of instants some nanoseconds apart.
    pub fn snapshot(&self) -> ReceivedSnapshot {
        let read = |figure: &AtomicU64| figure.load(Ordering::Acquire);
        let datagrams = Datagrams {
            arrived: read(&self.arrived),
            socket: read(&self.at_socket),
            early: read(&self.early),
            policed: read(&self.policed),
            refused: read(&self.refused),
        };
        let whole = read(&self.nonconforming) + read(&self.misfits);
        let (network, socket, discarded) = if self.fragments {
            let missing = read(&self.missing);
            let socket = datagrams.socket.min(missing);
            let here = (datagrams.early + datagrams.policed).min(missing - socket);
            (Some(missing - socket - here), socket, here + whole)
        } else {
            (None, datagrams.socket, datagrams.early + whole)
        };
        let losses = ReceivedLosses {
            network,
            socket,
            discarded,
            reassembly: read(&self.incomplete),
            ring_full: read(&self.ring_full),
        };
        ReceivedSnapshot {
            received: read(&self.received),
            received_bytes: read(&self.received_bytes),
            losses,
            // There are never more than are reassembled at a time.
            open: read(&self.open) as u32,
            datagrams,
            residences: self.residences.counts(),
            worst_residence: Duration::from_nanos(read(&self.worst_residence)),
            delays: self.delays.counts(),
            worst_delay: (read(&self.delayed) > 0)
                .then(|| Duration::from_nanos(read(&self.worst_delay))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each message is counted once, and this host is blamed before the network.
    #[test]
    fn missing_messages_are_put_down_to_this_host_as_far_as_it_discarded() {
        let mut receipts = Receipts::new(true);
        receipts
            .reassembly(Counts { missing: 10, given_up: 2, cut_off: 1, ..Counts::default() }, 4);
        receipts.message(7, Outcome::Received);
        let network = |receipts: &Receipts| receipts.account().snapshot().losses;
        assert_eq!(network(&receipts).network, Some(10));
        receipts.not_kept(3, 2);
        receipts.policed();
        receipts.message(7, Outcome::NonConforming);
        let expected = ReceivedLosses {
            network: Some(4),
            socket: 3,
            discarded: 3 + 1,
            reassembly: 3,
            ring_full: 0,
        };
        assert_eq!(network(&receipts), expected);
        receipts.not_kept(9, 9);
        assert_eq!(network(&receipts).total(), expected.total());
        assert_eq!((network(&receipts).socket, network(&receipts).network), (10, Some(0)));
        let all = receipts.account().snapshot();
        assert_eq!((all.received, all.received_bytes, all.open), (1, 7, 4));
    }

    #[test]
    fn of_datagrams_the_network_is_not_known() {
        let mut receipts = Receipts::new(false);
        receipts.not_kept(3, 2);
        for outcome in [Outcome::RingFull, Outcome::Misfit, Outcome::NonConforming] {
            receipts.message(1, outcome);
        }
        let losses = receipts.account().snapshot().losses;
        let expected =
            ReceivedLosses { network: None, socket: 3, discarded: 4, reassembly: 0, ring_full: 1 };
        assert_eq!(losses, expected);
        assert_eq!(losses.total(), 8);
        assert_eq!(receipts.account().snapshot().worst_delay, None);
        receipts.delayed(Duration::ZERO);
        assert_eq!(receipts.account().snapshot().worst_delay, Some(Duration::ZERO));
    }
}
