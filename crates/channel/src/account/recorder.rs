//! The writer of a channel's account, and the part that it shares.
//!
//! [`Judge`] decides when a message counts as arrived.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_model::{Duration, Instant};

use super::delays::Delays;
use super::verdict::{Losses, Snapshot};

// Ten thousand channels need a known amount: ten megabytes.
const _: () = assert!(size_of::<Account>() <= 1024);

/// The account of one channel, as other threads see it.
#[derive(Debug)]
#[repr(align(64))]
pub struct Account {
    /// The largest number for best effort.
    delay_bound: AtomicU64,
    offered: AtomicU64,
    offered_bytes: AtomicU64,
    taken: AtomicU64,
    taken_bytes: AtomicU64,
    not_conforming: AtomicU64,
    too_early: AtomicU64,
    wrong_size: AtomicU64,
    refused: AtomicU64,
    unreachable: AtomicU64,
    closed: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    late: AtomicU64,
    worst_delay: AtomicU64,
    /// Signed; the least number of all before the first message.
    worst_lateness: AtomicU64,
    worst_jitter: AtomicU64,
    /// The time at which the message under way must have left; the largest number if there is none.
    due: AtomicU64,
    delays: Delays,
}

/// The cause of a message's loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It came before its contract allowed it, on a channel that loses such messages.
    TooEarly,
    /// It is smaller or larger than its contract allows.
    WrongSize,
    /// The transport will never take it: it is too large for the path, or forbidden.
    Refused,
    /// Its destination could not be reached when it was its turn.
    Unreachable,
    /// The channel was closed before its turn.
    Closed,
}

/// A message that was handed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Its bytes.
    pub bytes: u32,
    /// The time at which it counted as arrived ([`Judge`]).
    pub arrived: Instant,
    /// The time at which its last packet had been handed over.
    pub handed_over: Instant,
    /// The time at which its last packet leaves the link by calculation; the promise is about this
    /// instant.
    pub ends: Instant,
}

/// Adds to `figure`. Plain loads and stores suffice, because there is one writer.
#[inline]
fn add(figure: &AtomicU64, by: u64) {
    figure.store(figure.load(Ordering::Relaxed) + by, Ordering::Release);
}

#[inline]
fn raise(figure: &AtomicU64, to: u64) {
    if to > figure.load(Ordering::Relaxed) {
        figure.store(to, Ordering::Relaxed);
    }
}

impl Account {
    /// Returns the account at this instant. Any thread may call this at any time; it never waits.
    pub fn snapshot(&self) -> Snapshot {
        let read = |figure: &AtomicU64| figure.load(Ordering::Acquire);
        // The last events in a message's life are read first, so that no message appears as sent
        // before it was taken.
        let (sent, sent_bytes) = (read(&self.sent), read(&self.sent_bytes));
        let due = read(&self.due);
        let losses = Losses {
            too_early: read(&self.too_early),
            wrong_size: read(&self.wrong_size),
            refused: read(&self.refused),
            unreachable: read(&self.unreachable),
            closed: read(&self.closed),
        };
        let (taken, taken_bytes) = (read(&self.taken), read(&self.taken_bytes));
        // Read before the worst lateness, which is stored first.
        let late = read(&self.late);
        let lateness = read(&self.worst_lateness).cast_signed();
        let bound = read(&self.delay_bound);
        Snapshot {
            delay_bound: (bound < u64::MAX).then(|| Duration::from_nanos(bound)),
            not_conforming: read(&self.not_conforming),
            taken,
            taken_bytes,
            offered: read(&self.offered),
            offered_bytes: read(&self.offered_bytes),
            losses,
            sent,
            sent_bytes,
            late,
            worst_delay: Duration::from_nanos(read(&self.worst_delay)),
            worst_lateness_nanos: (lateness > i64::MIN).then_some(lateness),
            worst_jitter: Duration::from_nanos(read(&self.worst_jitter)),
            due: (due < u64::MAX).then(|| Instant::from_nanos(due)),
            delays: self.delays.counts(),
        }
    }
}

/// Writes the account of one channel. There is one for each [`Account`].
///
/// ```
/// use punctual_channel::account::{Delivered, Recorder, Verdict};
/// use punctual_model::{Duration, Instant};
///
/// let mut recorder = Recorder::new(Some(Duration::from_millis(5)));
/// let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
/// recorder.offered(100);
/// recorder.taken(100, at(10), true);
/// recorder.sent(Delivered { bytes: 100, arrived: at(10), handed_over: at(12), ends: at(13) });
/// let account = std::sync::Arc::clone(recorder.account());
/// let seen = std::thread::spawn(move || account.snapshot()).join().expect("no panic");
/// assert_eq!((seen.sent, seen.worst_delay), (1, Duration::from_millis(2)));
/// assert_eq!(seen.verdict(at(20)), Verdict::Kept);
/// ```
#[derive(Debug)]
pub struct Recorder {
    account: Arc<Account>,
    delay_bound: Option<Duration>,
    last_delay: Option<Duration>,
}

impl Recorder {
    /// Creates an empty account of a channel with this delay bound, or of best effort.
    pub fn new(delay_bound: Option<Duration>) -> Self {
        let zero = || AtomicU64::new(0);
        let account = Account {
            delay_bound: AtomicU64::new(figure_of(delay_bound)),
            offered: zero(),
            offered_bytes: zero(),
            taken: zero(),
            taken_bytes: zero(),
            not_conforming: zero(),
            too_early: zero(),
            wrong_size: zero(),
            refused: zero(),
            unreachable: zero(),
            closed: zero(),
            sent: zero(),
            sent_bytes: zero(),
            late: zero(),
            worst_delay: zero(),
            worst_lateness: AtomicU64::new(i64::MIN.cast_unsigned()),
            worst_jitter: zero(),
            due: AtomicU64::new(u64::MAX),
            delays: Delays::new(),
        };
        Self { account: Arc::new(account), delay_bound, last_delay: None }
    }

    /// Returns the account that other threads may read.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Changes the promise from the next message on. Late messages stay late.
    pub fn change(&mut self, delay_bound: Option<Duration>) {
        self.delay_bound = delay_bound;
        self.account.delay_bound.store(figure_of(delay_bound), Ordering::Release);
    }

    /// Counts a message that came.
    #[inline]
    pub fn offered(&mut self, bytes: u32) {
        add(&self.account.offered_bytes, bytes.into());
        add(&self.account.offered, 1);
    }

    /// Counts the newest message as taken: it arrived at `arrived` ([`Judge`]) and is
    /// under way.
    #[inline]
    pub fn taken(&mut self, bytes: u32, arrived: Instant, conforming: bool) {
        let account = &*self.account;
        add(&account.not_conforming, u64::from(!conforming));
        add(&account.taken_bytes, bytes.into());
        add(&account.taken, 1);
        let due =
            self.delay_bound.map_or(u64::MAX, |bound| arrived.saturating_add(bound).as_nanos());
        account.due.store(due, Ordering::Release);
    }

    /// Counts the newest message as lost, before it was taken or after.
    pub fn lost(&mut self, cause: Loss) {
        let account = &*self.account;
        let figure = match cause {
            Loss::TooEarly => &account.too_early,
            Loss::WrongSize => &account.wrong_size,
            Loss::Refused => &account.refused,
            Loss::Unreachable => &account.unreachable,
            Loss::Closed => &account.closed,
        };
        add(figure, 1);
        if !matches!(cause, Loss::TooEarly | Loss::WrongSize) {
            account.due.store(u64::MAX, Ordering::Release);
        }
    }

    /// Counts the message that was taken last as handed over.
    #[inline]
    pub fn sent(&mut self, message: Delivered) {
        let account = &*self.account;
        let Delivered { bytes, arrived, handed_over, ends } = message;
        let delay = handed_over.saturating_since(arrived);
        account.delays.record(delay);
        raise(&account.worst_delay, delay.as_nanos());
        if let Some(last) = self.last_delay.replace(delay) {
            // For two messages, the gap less the gap of the arrivals is the delay less the delay.
            raise(&account.worst_jitter, delay.as_nanos().abs_diff(last.as_nanos()));
        }
        if let Some(bound) = self.delay_bound {
            let (took, most) = (ends.saturating_since(arrived).as_nanos(), bound.as_nanos());
            let lateness = took.cast_signed().saturating_sub_unsigned(most);
            if lateness > account.worst_lateness.load(Ordering::Relaxed).cast_signed() {
                account.worst_lateness.store(lateness.cast_unsigned(), Ordering::Relaxed);
            }
            add(&account.late, u64::from(lateness > 0));
        }
        account.due.store(u64::MAX, Ordering::Release);
        add(&account.sent_bytes, bytes.into());
        add(&account.sent, 1);
    }
}

fn figure_of(delay_bound: Option<Duration>) -> u64 {
    delay_bound.map_or(u64::MAX, Duration::as_nanos)
}

/// Regulates the arrivals by which a channel's promise is judged. They are `I_min` apart, as the
/// arrivals by which its messages are scheduled are. But they count from when each message was
/// published, not from when a server saw it. So a server that did not look is found in breach.
///
/// The client reports when a message was published, and may lie. Its time is accepted as far as it
/// can be true: after the last look at the ring that did not find the message, and before the look
/// that did. So a lie worsens the verdict on the client's own channel and changes nothing else:
/// scheduling uses only what the server saw.
///
/// ```
/// use punctual_channel::account::Judge;
/// use punctual_model::{Duration, Instant};
///
/// let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
/// let spacing = Duration::from_millis(10);
/// let mut judge = Judge::default();
/// // Published at 103, and found by a look at 105 after one at 100.
/// assert_eq!(judge.arrival(spacing, at(100), at(105), at(103)), at(103));
/// // The next one counts no earlier than its contract allows.
/// assert_eq!(judge.arrival(spacing, at(105), at(106), at(105)), at(113));
/// // An impossible time is not accepted.
/// assert_eq!(judge.arrival(spacing, at(200), at(205), at(7)), at(200));
/// assert_eq!(judge.arrival(spacing, at(300), at(305), at(999)), at(305));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Judge {
    /// The earliest arrival of the next message.
    next: Instant,
}

impl Judge {
    /// Returns when a message counts as arrived that was not there at `absent`, was there at
    /// `seen`, and was `published` in between, as its client reports. The channel's messages are
    /// `spacing` apart.
    #[inline]
    pub fn arrival(
        &mut self,
        spacing: Duration,
        absent: Instant,
        seen: Instant,
        published: Instant,
    ) -> Instant {
        let arrived = published.max(absent).min(seen).max(self.next);
        self.next = arrived.saturating_add(spacing);
        arrived
    }
}
