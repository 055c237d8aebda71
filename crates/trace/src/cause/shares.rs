//! From where a job's time went to what made it late.
//!
//! A job has its relative deadline D for its own work, at most the declared C, and for everything
//! that comes between. Of what came between, D − C was there to be used: it made nothing late. That
//! room is given first to the threads that the contract knows of, because admission reckoned with
//! them, and then to all causes alike, in proportion. What is left adds up to the tardiness, to the
//! nanosecond.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, JobId, Service};

use super::observer::Stretch;
use super::spent::Spent;

/// A job that completed after its absolute deadline, or that passed it and is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateJob {
    /// Which.
    pub job: JobId,
    /// When it was released.
    pub release: Instant,
    /// When it was to be complete.
    pub absolute_deadline: Instant,
    /// When it was complete, or how far it has been watched.
    pub end: Instant,
    /// What it was declared to need.
    pub wcet: Option<Service>,
}

impl LateJob {
    /// By how much it is late.
    pub fn tardiness(&self) -> Duration {
        self.end.saturating_since(self.absolute_deadline)
    }
}

/// One cause of a late job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// What.
    pub cause: Spent,
    /// How long it took between release and end: the evidence.
    pub took: Duration,
    /// In how many stretches.
    pub times: u32,
    /// When the longest of them began.
    pub longest_at: Instant,
    /// How much of the tardiness is laid to it.
    pub share: Duration,
}

/// Why a job was late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Which job.
    pub late: LateJob,
    /// How long it worked itself.
    pub own: Duration,
    /// The causes, the largest share first; the shares add up to the tardiness. Those that the room
    /// of the promise covers have a share of nothing.
    pub shares: Vec<Share>,
}

impl Verdict {
    /// What made it late most of all.
    pub fn main(&self) -> Option<&Share> {
        self.shares.first().filter(|share| share.share > Duration::ZERO)
    }
}

/// Lays the tardiness of a job to its causes.
///
/// `stretches` are those of its thread from its release to its end, in order ([`Observer::stretches`]).
/// `reckoned` says of a thread whether the contract knows it, so that admission counted on it.
///
/// [`Observer::stretches`]: super::Observer::stretches
pub fn judge(late: LateJob, stretches: &[Stretch], reckoned: impl Fn(u32) -> bool) -> Verdict {
    let took = gathered(stretches);
    let own = took.iter().filter(|one| one.cause == Spent::Own).map(|one| one.took);
    let own = own.fold(Duration::ZERO, Duration::saturating_add);
    let relative_deadline = late.absolute_deadline.saturating_since(late.release);
    let declared =
        late.wcet.map_or(relative_deadline, |wcet| Duration::from_nanos(wcet.as_nanos()));
    let allowed = own.min(declared).min(relative_deadline);

    let mut shares: Vec<Share> = took
        .into_iter()
        .map(|one| {
            let share = if one.cause == Spent::Own { own - allowed } else { one.took };
            Share { share, ..one }
        })
        .filter(|one| one.cause != Spent::Own || one.share > Duration::ZERO)
        .collect();
    let all = total(&shares, |_| true);
    // All of it, less the tardiness, had room.
    let room = all.saturating_sub(late.tardiness());
    let is_reckoned = |share: &Share| match share.cause {
        Spent::Other(other) => reckoned(other.tid),
        // Whoever has a subject is in the contract.
        Spent::Subject(_) | Spent::Switching => true,
        _ => false,
    };
    let first = room.min(total(&shares, is_reckoned));
    take_away(&mut shares, first, is_reckoned);
    take_away(&mut shares, room - first, |_| true);
    shares.sort_by_key(|share| core::cmp::Reverse((share.share, share.took)));
    Verdict { late, own, shares }
}

/// The stretches, cause by cause. To have been asleep before the job's first work, until an interrupt
/// came, is a late timer.
fn gathered(stretches: &[Stretch]) -> Vec<Share> {
    let mut took: Vec<Share> = Vec::new();
    let mut longest: Vec<Duration> = Vec::new();
    let mut begun = false;
    for stretch in stretches {
        begun |= stretch.spent == Spent::Own;
        let cause = match stretch.spent {
            Spent::Blocked { waker: None, .. } if !begun => Spent::LateTimer,
            other => other,
        };
        let length = stretch.length();
        match took.iter().position(|one| one.cause == cause) {
            Some(at) => {
                let one = &mut took[at];
                one.took = one.took.saturating_add(length);
                one.times += 1;
                if length > longest[at] {
                    longest[at] = length;
                    one.longest_at = stretch.start;
                }
            }
            None => {
                let (longest_at, share) = (stretch.start, Duration::ZERO);
                took.push(Share { cause, took: length, times: 1, longest_at, share });
                longest.push(length);
            }
        }
    }
    took
}

fn total(shares: &[Share], which: impl Fn(&Share) -> bool) -> Duration {
    let chosen = shares.iter().filter(|share| which(share)).map(|share| share.share);
    chosen.fold(Duration::ZERO, Duration::saturating_add)
}

/// Takes `away` from these shares in proportion to each; what rounding leaves, from the largest.
fn take_away(shares: &mut [Share], away: Duration, which: impl Fn(&Share) -> bool) {
    let all = u128::from(total(shares, &which).as_nanos());
    if all == 0 {
        return;
    }
    let mut left = away.as_nanos();
    for share in shares.iter_mut().filter(|share| which(share)) {
        let part = u128::from(share.share.as_nanos()) * u128::from(away.as_nanos()) / all;
        // No more than the share, which is a u64.
        let part = u64::try_from(part).unwrap_or(u64::MAX).min(left);
        share.share = Duration::from_nanos(share.share.as_nanos() - part);
        left -= part;
    }
    while left > 0 {
        let largest = shares.iter_mut().filter(|share| which(share)).max_by_key(|one| one.share);
        let Some(largest) = largest.filter(|one| one.share > Duration::ZERO) else {
            return;
        };
        let part = left.min(largest.share.as_nanos());
        largest.share = Duration::from_nanos(largest.share.as_nanos() - part);
        left -= part;
    }
}
