//! Provides the sources of messages.

use punctual_model::channel::{LinearBounded, Sensitivity};
use punctual_model::{Duration, Instant};
use rand::{Rng, RngExt};

/// A message that comes from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// The instant at which it comes. An instant before that of the previous message counts as that
    /// one.
    pub at: Instant,
    /// Its size in bytes.
    pub bytes: u32,
}

/// Sends one message of `bytes` at `first` and after every `period`. With a period below the
/// declared one, the source violates its contract.
pub fn periodic(first: Instant, period: Duration, bytes: u32) -> impl Iterator<Item = Message> {
    let mut next = first;
    core::iter::from_fn(move || {
        let message = Message { at: next, bytes };
        next = next.saturating_add(period);
        Some(message)
    })
}

/// Sends all that `traffic` allows as soon as it allows it: the whole burst at `first`, then one
/// message after every `I_min`, all of the largest size.
pub fn greedy(traffic: LinearBounded, first: Instant) -> impl Iterator<Item = Message> {
    let bytes = traffic.max_message();
    let burst = core::iter::repeat_n(Message { at: first, bytes }, traffic.max_burst() as usize);
    let spacing = traffic.min_inter_arrival();
    burst.chain(periodic(first.saturating_add(spacing), spacing, bytes))
}

/// Sends all that credits allow: those of one interval at `first`, those of the next as late as
/// allowed, and those of all later intervals as early as allowed. Twice the credits of an interval
/// thus come at once. All messages have the largest size. The first interval begins at the origin
/// of time.
pub fn credited(
    traffic: LinearBounded,
    sensitivity: Sensitivity,
    first: Instant,
) -> impl Iterator<Item = Message> {
    let (bytes, messages) = (traffic.max_message(), u64::from(sensitivity.pdus()));
    let interval = traffic.min_inter_arrival() * messages;
    let of_first = first.as_nanos() / interval.as_nanos();
    let begins = move |nth: u64| {
        let since = interval.checked_mul(of_first.saturating_add(nth));
        Instant::ZERO.saturating_add(since.unwrap_or(Duration::MAX))
    };
    let at = move |nth| match nth {
        0 => first,
        1 => begins(2) - Duration::from_nanos(1),
        _ => begins(nth),
    };
    (0..).map(move |index: u64| Message { at: at(index / messages), bytes })
}

/// Sends conforming messages of drawn sizes at drawn instants from `first` on. Some come as early
/// as `traffic` allows, some up to a spacing later.
pub fn drawn<R: Rng>(
    traffic: LinearBounded,
    first: Instant,
    mut rng: R,
) -> impl Iterator<Item = Message> {
    let most_early = traffic.jitter().unwrap_or(Duration::MAX);
    let spacing = traffic.min_inter_arrival();
    let (mut at, mut logical) = (first, first);
    core::iter::from_fn(move || {
        let bytes = if rng.random_bool(0.6) {
            traffic.max_message()
        } else {
            rng.random_range(traffic.min_message()..=traffic.max_message())
        };
        let message = Message { at, bytes };
        logical = logical.max(at).saturating_add(spacing);
        // The next may come this much before its logical arrival.
        let earliest =
            Instant::from_nanos(logical.as_nanos().saturating_sub(most_early.as_nanos()));
        at = at.max(earliest);
        if rng.random_bool(0.4) {
            let later = rng.random_range(0..=spacing.as_nanos());
            at = at.saturating_add(Duration::from_nanos(later));
        }
        Some(message)
    })
}

/// A best-effort sender, with one message at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The size of its messages in bytes, at least 1.
    pub bytes: u32,
    /// The instant of its first message.
    pub first: Instant,
    /// The time from the last packet of a message to the next message.
    pub pause: Duration,
}
