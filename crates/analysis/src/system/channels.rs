//! The channels of a system: one thread that sends, one that receives, one link.
//!
//! The tests, in this order:
//! 1. `link`: the rates of all channels that send, and what is kept for best effort, within the rate of the link.
//! 2. `processor`: in no window the threads take more than the reservation that is set aside for them
//!    ([`super::Carrier::egress`], [`Processor`]). So nothing below that reservation is late because of them.
//! 3. `delay-bound`: every message of all channels in time, in deadline order, under all reservations of the host
//!    ([`Egress`](crate::channel::egress::Egress)).
//!
//! While no reservation is admitted, [`Density`] proves a delay bound at a cost of O(log n) for n channels. Beyond that
//! the demand of all of them is examined.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::channel::{BitRate, Channel, LinearBounded};
use punctual_model::{Reservation, Service};

use crate::channel::density::Density;
use crate::channel::egress::Egress;
use crate::channel::processor::Processor;
use crate::reservation::of_the_kernel;
use crate::steps::Steps;
use crate::verdict::{Refusal, Resource};

/// What carries the channels of a host, and how much of it is kept for best effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// The thread that sends. The reservation in it is set aside for all threads of the channels.
    pub egress: Egress,
    /// What the link carries, everything on the wire counted.
    pub link: BitRate,
    /// Bytes on the wire around each payload.
    pub headers: u32,
    /// Of the link and of the reservation, kept for best effort: in parts per million, at most a million.
    pub best_effort_ppm: u32,
    /// Processor time of a packet that comes in.
    pub received_packet: Service,
}

impl Carrier {
    /// Returns the bytes on the wire of a message of so many.
    pub fn on_wire(&self, bytes: u32) -> u32 {
        let packets = self.egress.cut().packets_of(bytes);
        bytes.saturating_add(packets.saturating_mul(self.headers))
    }

    /// Returns the rate that such messages take of the link, headers and all; `None` beyond all links.
    pub fn rate_of(&self, arrivals: LinearBounded) -> Option<BitRate> {
        BitRate::at_least(self.on_wire(arrivals.max_message()), arrivals.min_inter_arrival())
    }

    /// Returns what is kept of the link for best effort, in bits a second: at least 1, and at most the link.
    fn kept_bps(&self) -> u64 {
        let link = self.link.bits_per_second();
        let kept = u128::from(link) * u128::from(self.best_effort_ppm) / 1_000_000;
        (kept as u64).clamp(1, link)
    }
}

/// What the admitted channels take of their [`Carrier`].
#[derive(Clone, Debug)]
pub struct CarrierLoad {
    carrier: Carrier,
    density: Density,
    processor: Processor,
    /// Of the link, in bits a second.
    promised_bps: u64,
}

impl CarrierLoad {
    pub(super) fn new(carrier: Carrier) -> Self {
        let Carrier { egress, best_effort_ppm, received_packet, .. } = carrier;
        Self {
            carrier,
            density: Density::new(egress),
            processor: Processor::new(egress, best_effort_ppm, received_packet),
            promised_bps: 0,
        }
    }

    /// Returns what carries the channels.
    pub fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// Returns what channels are promised of the link, in bits a second.
    pub fn promised_bps(&self) -> u64 {
        self.promised_bps
    }

    /// Returns what could still be promised of the link, in bits a second.
    pub fn available_bps(&self) -> u64 {
        self.carrier.link.bits_per_second() - self.carrier.kept_bps() - self.promised_bps
    }

    /// Returns what all channels need of a CPU over time, in parts per million.
    pub fn cpu_ppm(&self) -> u64 {
        self.processor.ppm()
    }

    /// Returns what of a CPU is left for best effort that is sent, in parts per million.
    pub fn best_effort_cpu_ppm(&self) -> u64 {
        self.processor.left_ppm()
    }

    /// Adds a channel beside `others` if it fits; returns its rate.
    pub(super) fn send(
        &mut self,
        channel: &Channel,
        others: impl FnOnce() -> Vec<Channel>,
        above: &[Reservation],
        steps: &mut Steps,
    ) -> Result<BitRate, Box<Refusal>> {
        let rate = self
            .carrier
            .rate_of(channel.arrivals())
            .ok_or_else(|| denied("link", "its rate is beyond all links".into()))?;
        let (bound, allowance) = (channel.delay_bound(), self.carrier.egress.looks_within());
        if bound <= allowance {
            let why = format!(
                "a delay bound of {bound} is not above the {allowance} that the channels' thread may \
                 take to wake up and look"
            );
            return Err(denied("delay-bound", why));
        }
        self.within_link(rate)?;
        self.processor.add(channel, above).map_err(|why| denied("processor", why))?;
        self.in_time_with(channel, others, above, steps)
            .inspect_err(|_| self.processor.remove(channel))?;
        self.density.add(channel);
        self.promised_bps += rate.bits_per_second();
        Ok(rate)
    }

    /// Takes out a channel that [`Self::send`] added.
    pub(super) fn sends_no_longer(&mut self, channel: &Channel, rate: BitRate) {
        self.density.remove(channel);
        self.processor.remove(channel);
        self.promised_bps -= rate.bits_per_second();
    }

    /// Puts back a channel that was taken out while all others stayed as they are.
    pub(super) fn put_back(&mut self, channel: &Channel, rate: BitRate) {
        self.density.add(channel);
        self.processor.put_back(channel);
        self.promised_bps += rate.bits_per_second();
    }

    /// Adds a channel that receives, if there is processor enough.
    pub(super) fn receive(
        &mut self,
        arrivals: LinearBounded,
        above: &[Reservation],
    ) -> Result<(), Box<Refusal>> {
        self.processor.add_receiving(arrivals, above).map_err(|why| denied("processor", why))
    }

    /// Takes out a channel that [`Self::receive`] added.
    pub(super) fn receives_no_longer(&mut self, arrivals: LinearBounded) {
        self.processor.remove_receiving(arrivals);
    }

    /// Puts back a channel that was taken out while all others stayed as they are.
    pub(super) fn put_back_receiving(&mut self, arrivals: LinearBounded) {
        self.processor.put_back_receiving(arrivals);
    }

    /// Says whether `channels`, which are all that send, stay in time beneath `above`.
    pub(super) fn run_beneath(
        &self,
        channels: &[Channel],
        above: &[Reservation],
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        if self.processor.holds(above) && self.all_in_time(channels, above, steps) {
            return Ok(());
        }
        let why = format!("beneath it one of {} channels would be late", channels.len());
        Err(denied("channels", why))
    }

    fn within_link(&self, rate: BitRate) -> Result<(), Box<Refusal>> {
        let (available, promised) = (self.available_bps(), self.promised_bps);
        if rate.bits_per_second() <= available {
            return Ok(());
        }
        let kept = self.carrier.kept_bps();
        let why = format!(
            "the channel needs {rate}, and {available} bit/s are left beside {promised} bit/s of other \
             channels and {kept} bit/s for best effort; ask for at most what is left"
        );
        Err(denied("link", why))
    }

    fn in_time_with(
        &self,
        more: &Channel,
        others: impl FnOnce() -> Vec<Channel>,
        above: &[Reservation],
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        if above.is_empty() && self.density.fits_with(more) {
            return Ok(());
        }
        let mut channels = others();
        channels.push(more.clone());
        if self.all_in_time(&channels, above, steps) {
            return Ok(());
        }
        let bound = more.delay_bound();
        let why = format!(
            "beside {} other channels, under {} reservations, not every message would have left in \
             time: with it, or with a delay bound of {bound} for it, the link has too much to do",
            channels.len() - 1,
            above.len()
        );
        Err(denied("delay-bound", why))
    }

    fn all_in_time(&self, channels: &[Channel], above: &[Reservation], steps: &mut Steps) -> bool {
        self.carrier.egress.all_in_time(channels, &of_the_kernel(above.iter().copied()), steps)
    }
}

/// Refuses a channel, or a reservation above channels, by `test`, each of which is about one resource.
fn denied(test: &'static str, why: String) -> Box<Refusal> {
    let resource = match test {
        "link" => Resource::Link,
        "delay-bound" => Resource::Delay,
        _ => Resource::Cpu,
    };
    Box::new(Refusal::new(test, resource, why))
}
