//! Who sends what and when.

use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant, Service};
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

/// A best-effort sender with a handler of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog {
    /// The size of its messages, at least 1.
    pub bytes: u32,
    /// When the first comes.
    pub first: Instant,
    /// After the last packet of one is made, until the next comes.
    pub pause: Duration,
    /// A message comes only if so many packets, its own included, have not left: at least as
    /// many as a message has.
    pub room: u32,
}

/// What runs before everything of the sender: `work` in every `period`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hog {
    /// Its processor time at a time.
    pub work: Service,
    /// From one to the next, not zero.
    pub period: Duration,
    /// When.
    pub pattern: HogPattern,
}

/// When a hog wants the processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HogPattern {
    /// At `first`, then every period; but what would come before `first + late` comes then. With
    /// `late = period − work`, a budget used as late as possible and then as early as possible.
    Periodic {
        /// Where the periods begin.
        first: Instant,
        /// How late the first ones are.
        late: Duration,
    },
    /// Whenever a packet goes on the link and the last time is at least a period ago: so that the
    /// link becomes free while nobody can serve it.
    AtStarts,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use punctual_policy::link::Shaper;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    /// The shaper of `policy` is the judge.
    #[test]
    fn greedy_and_drawn_sources_conform_and_greedy_ones_can_send_no_more() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let spacing = Duration::from_nanos(rng.random_range(1..100));
            let traffic = LinearBounded::new(3, 9, spacing, rng.random_range(1..6)).expect("valid");
            let first = Instant::from_nanos(rng.random_range(0..50));
            let mut shaper = Shaper::new(traffic, 1_000);
            for message in drawn(traffic, first, &mut rng).take(100) {
                let arrival = shaper.arrive(message.at, message.bytes).expect("declared");
                assert!(arrival.conforming);
            }
            let messages: Vec<_> = greedy(traffic, first).take(30).collect();
            for early in 0..30 {
                let mut shaper = Shaper::new(traffic, 1_000);
                let conform = messages.iter().enumerate().all(|(i, m)| {
                    let earlier = Duration::from_nanos(u64::from(i >= early && early > 0));
                    let at =
                        Instant::from_nanos(m.at.as_nanos().saturating_sub(earlier.as_nanos()));
                    shaper.arrive(at, m.bytes).expect("declared").conforming
                });
                // One nanosecond earlier after the burst is too early.
                if early == 0 {
                    assert!(conform);
                } else if early >= traffic.max_burst() as usize {
                    assert!(!conform, "seed {seed} {early}");
                }
            }
        }
    }
}
