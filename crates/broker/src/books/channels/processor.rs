//! What channels need of the processor, at most, in any window of one length.
//!
//! The outlet holds messages until their logical arrivals, which are `I_i` apart, and sends each within
//! its delay bound `d_i`. So in a window of length `Y` it carries at most `⌊(Y + d_i)/I_i⌋ + 1` messages
//! of channel `i`; and no more packets than the link has time for, each at least as long as the
//! shortest that is declared.

use std::collections::BTreeMap;

use punctual_model::channel::{Channel, Link, Packetisation};
use punctual_model::{Reservation, Service};

use super::super::denied;
use super::super::terms::Denied;

#[derive(Clone, Debug)]
pub(super) struct Processor {
    link: Link,
    cut: Packetisation,
    per_packet: u64,
    budget: Reservation,
    /// Packets of all channels in a window of one period of the budget.
    packets: u64,
    /// How many channels have which shortest packet, in bytes.
    shortest: BTreeMap<u32, u32>,
    /// Of a CPU over time, in parts per thousand million: so that small ones add up.
    ppb: u64,
}

impl Processor {
    pub(super) fn new(
        link: Link,
        cut: Packetisation,
        per_packet: Service,
        budget: Reservation,
    ) -> Self {
        let per_packet = per_packet.as_nanos();
        Self { link, cut, per_packet, budget, packets: 0, shortest: BTreeMap::new(), ppb: 0 }
    }

    /// A channel comes, if there is processor enough.
    pub(super) fn add(&mut self, channel: &Channel) -> Result<(), Denied> {
        let packets = self.packets.saturating_add(self.in_window(channel));
        let short = self.shortest_of(channel);
        let least = self.shortest.keys().next().map_or(short, |least| short.min(*least));
        let on_link = self.link.transmission_time(least).as_nanos().max(1);
        let on_link = self.budget.period().as_nanos() / on_link + 1;
        let work = packets.min(on_link).saturating_mul(self.per_packet);
        if work > self.budget.budget().as_nanos() {
            let why = format!(
                "channels could need {} of a CPU within {}, and their threads have {}",
                Service::from_nanos(work),
                self.budget.period(),
                self.budget.budget()
            );
            return Err(denied("processor", why, None));
        }
        self.packets = packets;
        *self.shortest.entry(short).or_default() += 1;
        self.ppb = self.ppb.saturating_add(self.ppb_of(channel));
        Ok(())
    }

    /// A channel that had come goes.
    pub(super) fn remove(&mut self, channel: &Channel) {
        self.packets = self.packets.saturating_sub(self.in_window(channel));
        self.ppb = self.ppb.saturating_sub(self.ppb_of(channel));
        let short = self.shortest_of(channel);
        if let Some(count) = self.shortest.get_mut(&short) {
            *count -= 1;
            if *count == 0 {
                self.shortest.remove(&short);
            }
        }
    }

    pub(super) fn ppm(&self) -> u64 {
        self.ppb.div_ceil(1_000)
    }

    fn packets_of(&self, channel: &Channel) -> u64 {
        self.cut.packets_of(channel.arrivals().max_message()).into()
    }

    fn in_window(&self, channel: &Channel) -> u64 {
        let window = self.budget.period().saturating_add(channel.delay_bound());
        let messages = window / channel.arrivals().min_inter_arrival() + 1;
        messages.saturating_mul(self.packets_of(channel))
    }

    fn ppb_of(&self, channel: &Channel) -> u64 {
        let work = u128::from(self.packets_of(channel)) * u128::from(self.per_packet);
        let every = u128::from(channel.arrivals().min_inter_arrival().as_nanos());
        u64::try_from((work * 1_000_000_000).div_ceil(every)).unwrap_or(u64::MAX)
    }

    /// Of messages of one packet the shortest; of others a last packet may be a byte.
    fn shortest_of(&self, channel: &Channel) -> u32 {
        match self.packets_of(channel) {
            1 => channel.arrivals().min_message(),
            _ => 1,
        }
    }
}
