//! A cheap test of channels on an egress scheduler.
//!
//! # The test
//! Let `C_i` be the time that thread and link take for the largest message of channel `i`, `b` the
//! work in front of every message ([`Egress::once`]), `d_i` the part of the delay bound that
//! remains when the thread sees the message, and `m_i = min(d_i, I_i)`. Every message is in time if
//!
//! ```text
//! b / min_i d_i  +  Σ_i C_i / m_i  ≤  1
//! ```
//!
//! because the demand ([`crate::edf::demand`]) at `t ≥ min d_i` is at most `b + Σ C_i·t/m_i`: a
//! channel with `d_i ≤ t` has `⌊(t − d_i)/I_i⌋ + 1 ≤ t/m_i` messages due by then. The test is
//! sufficient, not necessary, and assumes that nothing runs above the sender. Adding or removing a
//! channel costs O(log n).

use alloc::collections::BTreeMap;

use punctual_model::channel::Channel;

use super::egress::Egress;

/// The left side of the density test, updated as channels are added and removed.
#[derive(Clone, Debug)]
pub struct Density {
    egress: Egress,
    /// `Σ C_i / m_i`, each rounded up, in 2⁻⁶⁴.
    sum: u128,
    /// The number of channels with each remaining delay bound `d`.
    bounds: BTreeMap<u64, u32>,
}

/// 1.0 in units of 2⁻⁶⁴.
const ONE: u128 = 1 << 64;

impl Density {
    /// Creates the test for `egress` without channels.
    pub fn new(egress: Egress) -> Self {
        Self { egress, sum: 0, bounds: BTreeMap::new() }
    }

    /// Adds a channel.
    pub fn add(&mut self, channel: &Channel) {
        self.sum = self.sum.saturating_add(self.of(channel));
        *self.bounds.entry(self.left_of(channel)).or_default() += 1;
    }

    /// Removes a channel that was added.
    pub fn remove(&mut self, channel: &Channel) {
        self.sum = self.sum.saturating_sub(self.of(channel));
        let bound = self.left_of(channel);
        if let Some(count) = self.bounds.get_mut(&bound) {
            *count -= 1;
            if *count == 0 {
                self.bounds.remove(&bound);
            }
        }
    }

    /// Returns whether every message of these channels, and of `more`, is certainly in time.
    pub fn fits_with(&self, more: &Channel) -> bool {
        let least = self.bounds.keys().next().copied().unwrap_or(u64::MAX);
        let least = least.min(self.left_of(more));
        let once = u128::from(self.egress.once().as_nanos());
        let once = once.saturating_mul(ONE).div_ceil(u128::from(least.max(1)));
        once.saturating_add(self.sum).saturating_add(self.of(more)) <= ONE
    }

    /// Returns `C / m`, rounded up.
    fn of(&self, channel: &Channel) -> u128 {
        let time = self.egress.time_of(channel.arrivals().max_message());
        let every = channel.arrivals().min_inter_arrival().as_nanos().min(self.left_of(channel));
        (u128::from(time.as_nanos()) * ONE).div_ceil(u128::from(every.max(1)))
    }

    /// Returns `d`.
    fn left_of(&self, channel: &Channel) -> u64 {
        channel.delay_bound().saturating_sub(self.egress.looks_within()).as_nanos()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use punctual_model::channel::{LinearBounded, Link, Packetisation};
    use punctual_model::{Duration, Service};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::steps::Steps;

    fn draw(rng: &mut ChaCha8Rng, egress: &Egress, load: f64) -> Channel {
        let most = rng.random_range(1..=9_000_u32);
        let time = egress.time_of(most).as_nanos();
        let spacing = (time as f64 / load * rng.random_range(0.3..3.0)) as u64 + 1;
        let least = rng.random_range(1..=most);
        let burst = rng.random_range(1..4);
        let arrivals = LinearBounded::new(least, most, Duration::from_nanos(spacing), burst);
        let bound = Duration::from_nanos((spacing as f64 * rng.random_range(0.3..4.0)) as u64 + 1);
        Channel::new("c", &arrivals.expect("valid").into(), bound).expect("valid")
    }

    /// Demand analysis accepts whatever the density test accepts, and the sums do not depend on the
    /// history.
    #[test]
    fn channels_that_pass_the_density_test_are_in_time() {
        let (mut thin, mut in_time) = (0, 0);
        for seed in 0..3_000 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let link = Link::with_picos(
                Duration::from_nanos(rng.random_range(0..20_000)),
                rng.random_range(80..80_000),
            );
            let cut = Packetisation::new(rng.random_range(64..9_000), rng.random_range(1..4));
            let per_packet = Service::from_nanos(rng.random_range(0..20_000));
            let (link, cut) = (link.expect("valid"), cut.expect("valid"));
            let cpu = ["500us/1ms", "900us/1ms", "1ms/1ms"][seed as usize % 3].parse();
            let allowance = Duration::from_nanos(rng.random_range(0..300));
            let egress = Egress::new(link, cut, per_packet, cpu.expect("valid"), allowance);
            let egress = egress.expect("fast enough");
            let mut density = Density::new(egress);
            let mut list: Vec<Channel> = Vec::new();
            let load = rng.random_range(0.001..0.3);
            for _ in 0..rng.random_range(1..12) {
                if !list.is_empty() && rng.random_bool(0.2) {
                    density.remove(&list.swap_remove(rng.random_range(0..list.len())));
                }
                let channel = draw(&mut rng, &egress, load);
                let fits = density.fits_with(&channel);
                density.add(&channel);
                list.push(channel);
                let exact = egress.all_in_time(&list, &[], &mut Steps::default());
                assert!(!fits || exact, "seed {seed}");
                thin += u32::from(fits);
                in_time += u32::from(exact);
            }
            let mut anew = Density::new(egress);
            list.iter().for_each(|channel| anew.add(channel));
            assert_eq!((anew.sum, &anew.bounds), (density.sum, &density.bounds), "seed {seed}");
        }
        assert!(thin > 3_000 && in_time > thin, "{thin} of {in_time}");
    }
}
