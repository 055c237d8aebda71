//! Attributes the tardiness of a job to the causes in its stretches.
//!
//! A job has its relative deadline D for its own work, at most the declared C, and for everything
//! that interferes. Interference of up to D − C is allowed for, and makes no job late. This
//! allowance is given first to the threads of the contract, because the admission test accounts for
//! them, and then to all causes in proportion. The rest adds up to the tardiness, to the
//! nanosecond.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, JobId, Service};

use super::spent::Spent;
use crate::cause::Stretch;

/// A job that completed after its absolute deadline, or that passed it and is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateJob {
    /// The job.
    pub job: JobId,
    /// Its release.
    pub release: Instant,
    /// Its absolute deadline.
    pub absolute_deadline: Instant,
    /// The instant of its completion, or the last instant at which it was observed.
    pub end: Instant,
    /// Its declared execution time.
    pub wcet: Option<Service>,
}

impl LateJob {
    /// Returns the tardiness.
    pub fn tardiness(&self) -> Duration {
        self.end.saturating_since(self.absolute_deadline)
    }
}

/// One cause of a late job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The cause.
    pub cause: Spent,
    /// The time it took between release and end: the evidence.
    pub took: Duration,
    /// The number of stretches.
    pub times: u32,
    /// The beginning of the longest stretch.
    pub longest_at: Instant,
    /// The part of the tardiness that is attributed to it.
    pub share: Duration,
}

/// The reasons why a job was late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The late job.
    pub late: LateJob,
    /// The time of its own work, in system calls and outside.
    pub own: Duration,
    /// The causes, the largest share first. The shares add up to the tardiness. A cause that the
    /// promise's allowance covers has a share of zero.
    pub shares: Vec<Share>,
}

impl Verdict {
    /// Returns the cause with the largest share, unless that is zero.
    pub fn main(&self) -> Option<&Share> {
        self.shares.first().filter(|share| share.share > Duration::ZERO)
    }

    /// Returns the time of its own work in system calls, as far as it is among the causes.
    pub fn in_system_calls(&self) -> Duration {
        let in_calls = |share: &&Share| matches!(share.cause, Spent::System { .. });
        let took = self.shares.iter().filter(in_calls).map(|share| share.took);
        took.fold(Duration::ZERO, Duration::saturating_add)
    }
}

/// Attributes the tardiness of a job to its causes.
///
/// `stretches` are those of its thread from its release to its end, in order
/// ([`Observer::stretches`]). `reckoned` returns whether a thread is in the contract, so that the
/// admission test accounted for it.
///
/// [`Observer::stretches`]: super::Observer::stretches
pub fn judge(late: LateJob, stretches: &[Stretch], reckoned: impl Fn(u32) -> bool) -> Verdict {
    let took = gathered(stretches);
    let mut shares: Vec<Share> =
        took.into_iter().map(|one| Share { share: one.took, ..one }).collect();
    let is_own = |share: &Share| share.cause.is_own();
    let own = total(&shares, is_own);
    let relative_deadline = late.absolute_deadline.saturating_since(late.release);
    let declared =
        late.wcet.map_or(relative_deadline, |wcet| Duration::from_nanos(wcet.as_nanos()));
    take_away(&mut shares, own.min(declared).min(relative_deadline), is_own);
    shares.retain(|one| !is_own(one) || one.share > Duration::ZERO);
    let all = total(&shares, |_| true);
    // All of it but the tardiness was allowed for.
    let room = all.saturating_sub(late.tardiness());
    let is_reckoned = |share: &Share| match share.cause {
        Spent::Other(other) => reckoned(other.tid),
        // Every subject is in the contract.
        Spent::Subject(_) | Spent::Switching => true,
        _ => false,
    };
    let first = room.min(total(&shares, is_reckoned));
    take_away(&mut shares, first, is_reckoned);
    take_away(&mut shares, room - first, |_| true);
    shares.sort_by_key(|share| core::cmp::Reverse((share.share, share.took)));
    Verdict { late, own, shares }
}

/// Sums the stretches by cause. A sleep before the job's first work that an interrupt ended counts
/// as a late timer.
fn gathered(stretches: &[Stretch]) -> Vec<Share> {
    let mut took: Vec<Share> = Vec::new();
    let mut longest: Vec<Duration> = Vec::new();
    let mut begun = false;
    for stretch in stretches {
        begun |= stretch.spent.is_own();
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

/// Takes `away` from these shares in proportion. The remainder from rounding is taken from the
/// largest.
fn take_away(shares: &mut [Share], away: Duration, which: impl Fn(&Share) -> bool) {
    let all = u128::from(total(shares, &which).as_nanos());
    if all == 0 {
        return;
    }
    let mut left = away.as_nanos();
    for share in shares.iter_mut().filter(|share| which(share)) {
        let part = u128::from(share.share.as_nanos()) * u128::from(away.as_nanos()) / all;
        // The part is no more than the share, which is a u64.
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
