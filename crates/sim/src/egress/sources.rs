//! Who sends what and when.

use punctual_model::channel::{LinearBounded, Sensitivity};
use punctual_model::{Duration, Instant};
use rand::{Rng, RngExt};

/// A message comes from its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// When; an instant before that of the message before counts as that one.
    pub at: Instant,
    /// Its size.
    pub bytes: u32,
}

/// One message of `bytes` at `first` and after every `period`. With a period below what is declared,
/// a source that does not keep its word.
pub fn periodic(first: Instant, period: Duration, bytes: u32) -> impl Iterator<Item = Message> {
    let mut next = first;
    core::iter::from_fn(move || {
        let message = Message { at: next, bytes };
        next = next.saturating_add(period);
        Some(message)
    })
}

/// All that `traffic` allows as soon as it allows it: the whole burst at `first`, then one message
/// after every `I_min`; all of the largest size.
pub fn greedy(traffic: LinearBounded, first: Instant) -> impl Iterator<Item = Message> {
    let bytes = traffic.max_message();
    let burst = core::iter::repeat_n(Message { at: first, bytes }, traffic.max_burst() as usize);
    let spacing = traffic.min_inter_arrival();
    burst.chain(periodic(first.saturating_add(spacing), spacing, bytes))
}

/// All that credits allow: those of an interval at `first`, of the next as late as they allow it, and of all others as early,
/// so that twice those of an interval come at once; all of the largest size. The first interval begins at the beginning
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

/// Conforming messages of drawn sizes at drawn instants from `first` on: some as early as `traffic`
/// allows, some up to a spacing later.
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
        // The next may come before its logical arrival by so much.
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

/// A best-effort sender, one message at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The size of its messages, at least 1.
    pub bytes: u32,
    /// When the first comes.
    pub first: Instant,
    /// After the last packet of one is made, until the next comes.
    pub pause: Duration,
}
