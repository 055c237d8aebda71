//! What admission is told of a server that makes a packet by handing it over, when the link is free
//! for it (`punctual_policy::outlet`), and a test of such systems that costs next to nothing.
//!
//! # The sender
//! Making and sending happen one after the other, so for the bounds of [`super::sound`] and
//! [`super::edf`] the processor takes no time of its own and each packet's start-up on the link is
//! longer by it. A block of `P` packets is not interrupted: it counts as one packet of `P·S` bytes with
//! `P` start-ups, and a nanosecond each where the time of a byte is no whole number of them.
//! `tests/tests/virtual_time/outlet.rs` runs such servers against bounds made so.
//!
//! # The density test
//! With `C_i` the link's time for the largest message of channel `i`, `b` the longest packet, and
//! `m_i = min(d_i, I_i)`, every message is in time if
//!
//! ```text
//! 2·b / min_i d_i  +  Σ_i C_i / m_i  ≤  1
//! ```
//!
//! For the demand of [`super::edf`] at `t ≥ min d_i` is at most `2b + Σ C_i·t/m_i`: a channel with
//! `d_i ≤ t` has `⌊(t − d_i)/I_i⌋ + 1 ≤ t/m_i` messages due by then. Sufficient, not necessary; with
//! nobody above the sender. One channel more or less costs O(log n).

use alloc::collections::BTreeMap;

use punctual_model::channel::{
    BestEffort, Channel, CostError, Link, LinkScheduling, Packetisation, SendCosts, Sender,
};
use punctual_model::{Duration, Service};

const FREE: SendCosts = SendCosts {
    switch: Service::ZERO,
    cache: Service::ZERO,
    first_packet: Service::ZERO,
    packet: Service::ZERO,
    link_scheduling: Service::ZERO,
};

/// The sender that stands for a server with this `link`, which takes `per_packet` of its processor for
/// each packet, cuts messages as `cut` says, and has best effort of any size.
///
/// # Errors
/// If the link is too slow.
pub fn sender_of(link: Link, per_packet: Service, cut: Packetisation) -> Result<Sender, CostError> {
    let packets = u64::from(cut.packets_per_block());
    let nanosecond = u64::from(packets > 1);
    let one = link.transmission_time(0).as_nanos().saturating_add(per_packet.as_nanos());
    let startup = one.saturating_add(nanosecond).saturating_mul(packets);
    // Of a million bytes in nanoseconds: that of one byte in femtoseconds, rounded up to picoseconds.
    let million = link.transmission_time(1_000_000).saturating_sub(link.transmission_time(0));
    let picos = million.as_nanos().div_ceil(1_000);
    let block = cut.packet_bytes().saturating_mul(cut.packets_per_block());
    Ok(Sender {
        link: Link::with_picos(Duration::from_nanos(startup), picos)?,
        costs: FREE,
        packetisation: Packetisation::new(block, 1)?,
        link_scheduling: LinkScheduling::InInterrupt,
        best_effort: BestEffort::up_to(block),
    })
}

/// [`sender_of`], for a server that begins a packet no sooner than `pace` after it began the one before,
/// and a block of n packets no sooner than n times that.
///
/// From one beginning to the next a block of n packets then takes `max(n·(C + link), n·pace)`. That is at
/// most what a link takes for it that is never done sooner than after `P·pace`.
///
/// # Errors
/// If the link is too slow.
pub fn paced_sender_of(
    link: Link,
    per_packet: Service,
    cut: Packetisation,
    pace: Duration,
) -> Result<Sender, CostError> {
    let sender = sender_of(link, per_packet, cut)?;
    let block = pace.checked_mul(u64::from(cut.packets_per_block())).unwrap_or(Duration::MAX);
    Ok(Sender { link: sender.link.at_least(block), ..sender })
}

/// The left side of the density test, kept as channels come and go.
#[derive(Clone, Debug)]
pub struct Density {
    sender: Sender,
    /// `Σ C_i / m_i`, each rounded up, in 2⁻⁶⁴.
    sum: u128,
    /// How many channels have which delay bound.
    bounds: BTreeMap<u64, u32>,
}

/// One.
const ONE: u128 = 1 << 64;

impl Density {
    /// Of no channels, for a sender whose processor takes no time ([`sender_of`]).
    pub fn new(sender: Sender) -> Self {
        Self { sender, sum: 0, bounds: BTreeMap::new() }
    }

    /// A channel comes.
    pub fn add(&mut self, channel: &Channel) {
        self.sum = self.sum.saturating_add(self.of(channel));
        *self.bounds.entry(channel.delay_bound().as_nanos()).or_default() += 1;
    }

    /// A channel that had come goes.
    pub fn remove(&mut self, channel: &Channel) {
        self.sum = self.sum.saturating_sub(self.of(channel));
        let bound = channel.delay_bound().as_nanos();
        if let Some(count) = self.bounds.get_mut(&bound) {
            *count -= 1;
            if *count == 0 {
                self.bounds.remove(&bound);
            }
        }
    }

    /// Whether every message of these channels, and of `more`, is certainly in time.
    pub fn fits_with(&self, more: &Channel) -> bool {
        let least = self.bounds.keys().next().copied().unwrap_or(u64::MAX);
        let least = least.min(more.delay_bound().as_nanos());
        let packet = self.sender.packetisation.packet_bytes();
        let longest = self.sender.link.transmission_time(packet).as_nanos();
        let once = (u128::from(longest) * 2).saturating_mul(ONE).div_ceil(u128::from(least));
        once.saturating_add(self.sum).saturating_add(self.of(more)) <= ONE
    }

    /// `C / m`, rounded up.
    fn of(&self, channel: &Channel) -> u128 {
        let time = time_of(&self.sender, channel.arrivals().max_message());
        let every = channel.arrivals().min_inter_arrival().min(channel.delay_bound());
        // Neither is zero.
        (u128::from(time.as_nanos()) * ONE).div_ceil(u128::from(every.as_nanos()))
    }
}

/// `C`: the link's time for a message of so many bytes.
pub fn time_of(sender: &Sender, bytes: u32) -> Duration {
    let cut = sender.packetisation;
    let full = u64::from(cut.packets_of(bytes).saturating_sub(1));
    let of_full = sender.link.transmission_time(cut.packet_bytes()).checked_mul(full);
    let last = sender.link.transmission_time(cut.last_packet_of(bytes.max(1)));
    of_full.unwrap_or(Duration::MAX).saturating_add(last)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use punctual_model::channel::LinearBounded;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::channel::edf;
    use crate::steps::Steps;

    fn draw(rng: &mut ChaCha8Rng, sender: &Sender, load: f64) -> Channel {
        let most = rng.random_range(1..=9_000_u32);
        let time = time_of(sender, most).as_nanos();
        let spacing = (time as f64 / load * rng.random_range(0.3..3.0)) as u64 + 1;
        let least = rng.random_range(1..=most);
        let burst = rng.random_range(1..4);
        let arrivals = LinearBounded::new(least, most, Duration::from_nanos(spacing), burst);
        let bound = Duration::from_nanos((spacing as f64 * rng.random_range(0.3..4.0)) as u64 + 1);
        Channel::new("c", &arrivals.expect("valid").into(), bound).expect("valid")
    }

    /// What the density test lets in, demand analysis lets in too; and its sums are those of a list.
    #[test]
    fn what_is_thin_enough_is_in_time() {
        let (mut thin, mut in_time) = (0, 0);
        for seed in 0..3_000 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let link = Link::with_picos(
                Duration::from_nanos(rng.random_range(0..20_000)),
                rng.random_range(80..80_000),
            );
            let cut = Packetisation::new(rng.random_range(64..9_000), rng.random_range(1..4));
            let per_packet = Service::from_nanos(rng.random_range(0..20_000));
            let link = link.expect("valid");
            let sender = sender_of(link, per_packet, cut.expect("valid")).expect("valid");
            let mut density = Density::new(sender);
            let mut list: Vec<Channel> = Vec::new();
            let load = rng.random_range(0.001..0.3);
            for _ in 0..rng.random_range(1..12) {
                if !list.is_empty() && rng.random_bool(0.2) {
                    density.remove(&list.swap_remove(rng.random_range(0..list.len())));
                }
                let channel = draw(&mut rng, &sender, load);
                let fits = density.fits_with(&channel);
                density.add(&channel);
                list.push(channel);
                let exact = edf::all_in_time(&sender, &list, &mut Steps::default());
                assert!(!fits || exact, "seed {seed}");
                thin += u32::from(fits);
                in_time += u32::from(exact);
            }
            let mut anew = Density::new(sender);
            list.iter().for_each(|channel| anew.add(channel));
            assert_eq!((anew.sum, &anew.bounds), (density.sum, &density.bounds), "seed {seed}");
        }
        assert!(thin > 3_000 && in_time > thin, "{thin} of {in_time}");
    }
}
