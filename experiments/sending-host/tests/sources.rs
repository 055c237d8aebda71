//! The sources of the simulator, judged by the shaper of the study.

use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant};
use punctual_sim::egress::traffic::{drawn, greedy};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use sending_host::policy::Shaper;

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
                let at = Instant::from_nanos(m.at.as_nanos().saturating_sub(earlier.as_nanos()));
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
