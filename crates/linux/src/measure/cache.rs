//! The cost of a cold cache: the same work warm, and after another thread had the CPU.

use punctual_model::time::Duration;

use super::operations::Turns;
use super::seat::{MOST_SAMPLES, MeasureError, Seat, together};
use crate::clock;

/// A cache line of most processors; if lines are longer, each is touched more than once.
#[repr(align(64))]
#[derive(Clone, Default)]
struct Line {
    next: u32,
    touched: u32,
}

/// The working sets of two threads, of one size.
///
/// A set is one random cycle through all its lines, and a touch reads and writes each line. Every
/// access waits for the one before, no prefetcher can predict the next, and the lines are written
/// back. So the refill is near the most that a set of its size can cost.
pub struct WorkingSets {
    own: Vec<Line>,
    other: Vec<Line>,
    /// The shortest time so far to touch a warm set.
    warm: Duration,
}

impl WorkingSets {
    /// Makes two sets of `bytes` each, in whole lines, at least one.
    pub fn new(bytes: usize) -> Self {
        let lines = (bytes / size_of::<Line>()).clamp(1, u32::MAX as usize);
        Self { own: cycle(lines, 1), other: cycle(lines, 2), warm: Duration::MAX }
    }

    /// Measures the time to touch one set after another thread touched the other, less the shortest
    /// time to touch it warm in this call or an earlier one. Repeats for `length`, at least once.
    /// Both threads are in `seat` and hand over by futex, so the caches see a real switch; its own
    /// time is not in the samples.
    pub fn refill(&mut self, seat: Seat, length: Duration) -> Result<Vec<Duration>, MeasureError> {
        let Self { own, other, warm } = self;
        let turns = &Turns::default();
        let until = clock::now().saturating_add(length);
        // A turn of the largest set may last longer than `length`: the partner waits beyond it.
        let patience = until.saturating_add(Duration::from_secs(2));
        let measure = move || {
            let mut cold = Vec::with_capacity(MOST_SAMPLES);
            // Once from memory into the caches, then once from there.
            touch(own);
            *warm = timed(own).min(*warm);
            loop {
                *warm = timed(own).min(*warm);
                turns.pass(1);
                if !turns.wait(0, patience) {
                    break;
                }
                cold.push(timed(own));
                if clock::now() >= until || cold.len() == MOST_SAMPLES {
                    break;
                }
            }
            turns.end();
            for sample in &mut cold {
                *sample = sample.saturating_sub(*warm);
            }
            cold
        };
        let evict = move || {
            while turns.wait(1, patience) {
                touch(other);
                turns.pass(0);
            }
        };
        Ok(together([seat; 2], measure, evict)?.0)
    }
}

fn timed(set: &mut [Line]) -> Duration {
    let before = clock::now();
    touch(set);
    clock::now() - before
}

/// Touches each line once.
fn touch(set: &mut [Line]) {
    let mut at = 0;
    for _ in 0..set.len() {
        let line = &mut set[at];
        line.touched = line.touched.wrapping_add(1);
        at = line.next as usize;
    }
    std::hint::black_box(at);
}

/// Makes one cycle through all lines in random order (Sattolo 1986). The same seed gives the same
/// order.
fn cycle(lines: usize, seed: u64) -> Vec<Line> {
    let mut order: Vec<u32> = (0..lines as u32).collect();
    let mut state = seed;
    for at in (1..lines).rev() {
        // The generator of Knuth's MMIX; its upper half is good enough to defeat a prefetcher.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        order.swap(at, (state >> 33) as usize % at);
    }
    order.into_iter().map(|next| Line { next, touched: 0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_touch_reaches_each_line_once() {
        for lines in [1, 2, 3, 64, 1000] {
            let mut set = cycle(lines, 7);
            touch(&mut set);
            assert!(set.iter().all(|line| line.touched == 1), "{lines}");
        }
    }

    #[test]
    fn a_line_is_a_cache_line_and_sets_have_the_requested_size() {
        assert_eq!(size_of::<Line>(), 64);
        let WorkingSets { own, other, .. } = WorkingSets::new(16 << 10);
        assert_eq!((own.len(), other.len()), (256, 256));
        assert_eq!(WorkingSets::new(0).own.len(), 1);
    }
}
