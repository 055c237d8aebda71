//! The channels of a system: one thread that sends, one that receives, one link.
//!
//! The tests, in this order:
//! 1. `link`: the rates of all channels that send, and what is kept for best effort, within the rate of the link.
//! 2. `processor`: in no window the threads take more than the reservation that is set aside for them
//!    ([`super::Carrier::egress`], [`Processor`]). So nothing below that reservation is late because of them.
//! 3. `channel-delay`: every message of all channels in time, in deadline order, under all reservations of the host
//!    ([`Egress`](crate::channel::egress::Egress)). Of channels that are entered together it comes before `processor`.
//!
//! While no reservation is admitted, [`Density`] proves a delay bound at a cost of O(log n) for n channels. Beyond that
//! the demand of all of them is examined.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::channel::{BitRate, Channel, LinearBounded};
use punctual_model::{Duration, Reservation, Service};

use super::{Entry, Executed, Slots, System, no_carrier, sending};
use crate::channel::density::Density;
use crate::channel::egress::Egress;
use crate::channel::processor::Processor;
use crate::reservation::{ReservedLoad, settle};
use crate::steps::Steps;
use crate::verdict::{Refusal, Resource};

pub(crate) const DELAY: &str = "channel-delay";
pub(crate) const PROCESSOR: &str = "processor";

/// What carries the channels of a host, and how much of it is kept for best effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// The thread that sends. The reservation in it is set aside for all threads of the channels.
    pub egress: Egress,
    /// What it costs to switch back to the thread from what interrupted it, where that is more than a context switch.
    pub change: Service,
    /// The CPU of the thread, as the kernel counts them; `None`: any.
    pub cpu: Option<u16>,
    /// What the link carries, everything on the wire counted; `None`: all that the thread can send.
    pub link: Option<BitRate>,
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
    pub fn kept_bps(&self) -> u64 {
        let link = self.link_bps();
        let kept = u128::from(link) * u128::from(self.best_effort_ppm) / 1_000_000;
        (kept as u64).clamp(1, link)
    }

    /// Returns what the link carries, in bits a second; all that there can be where it is not counted.
    pub fn link_bps(&self) -> u64 {
        self.link.map_or(u64::MAX, BitRate::bits_per_second)
    }
}

/// What runs above the thread that sends.
#[derive(Clone, Debug)]
pub(crate) struct Above {
    /// All of the kernel's.
    pub(super) reservations: Vec<Reservation>,
    /// On the CPU of the thread.
    pub(super) slots: Vec<Slots>,
    /// A context switch.
    pub(super) switch: Service,
}

impl Above {
    fn is_nothing(&self) -> bool {
        self.reservations.is_empty() && self.slots.is_empty()
    }

    /// Returns what of a CPU may be taken above the thread, reservation by reservation.
    fn budgets(&self) -> Vec<Reservation> {
        let slots = self.slots.iter().map(|slots| slots.taken);
        self.reservations.iter().copied().chain(slots).collect()
    }

    /// Returns what the thread loses to it, switches included.
    pub(crate) fn loads(&self, change: Service) -> Vec<ReservedLoad> {
        let of = |&reservation: &Reservation| ReservedLoad::new(reservation, self.switch);
        let mut loads: Vec<ReservedLoad> = self.reservations.iter().map(of).collect();
        settle(&mut loads);
        loads.extend(self.slots.iter().map(Slots::load));
        loads.extend(self.interruptions(change));
        loads
    }

    /// Returns what it costs that the thread is interrupted: the switch back to it costs `change`, where that is more
    /// than the switch that is charged to what interrupts it.
    pub(crate) fn interruptions(&self, change: Service) -> impl Iterator<Item = ReservedLoad> + '_ {
        let dearer = change.saturating_sub(self.switch).as_nanos();
        // No budget is taken up more often than ⌈t/Y⌉ + 2 times in any t.
        let back = move |period: Duration, times: u64| {
            let period = period.as_nanos();
            ReservedLoad::arrivals(dearer.saturating_mul(times), period, period.saturating_mul(2))
        };
        let reservations = self.reservations.iter().map(move |one| back(one.period(), 1));
        let slots = self.slots.iter().map(move |slots| back(slots.taken.period(), slots.count));
        reservations.chain(slots).filter(move |_| dearer > 0)
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
        self.carrier.link_bps() - self.carrier.kept_bps() - self.promised_bps
    }

    /// Returns what all channels need of a CPU over time, in parts per million.
    pub fn cpu_ppm(&self) -> u64 {
        self.processor.ppm()
    }

    /// Returns what of a CPU is left for best effort that is sent, in parts per million.
    pub fn best_effort_cpu_ppm(&self) -> u64 {
        self.processor.left_ppm()
    }

    /// Adds a channel beside `others` if it fits; returns what it takes of the link, in bits a second.
    pub(super) fn send(
        &mut self,
        channel: &Channel,
        others: impl FnOnce() -> Vec<Channel>,
        above: &Above,
        steps: &mut Steps,
    ) -> Result<u64, Box<Refusal>> {
        let bps = self.within_link(channel)?;
        let (bound, allowance) = (channel.delay_bound(), self.carrier.egress.looks_within());
        if bound <= allowance {
            let why = format!(
                "a delay bound of {bound} is not above the {allowance} that the channels' thread may \
                 take to wake up and look"
            );
            return Err(denied(DELAY, why));
        }
        self.processor.add(channel, &above.budgets()).map_err(|why| denied(PROCESSOR, why))?;
        self.in_time_with(channel, others, above, steps)
            .inspect_err(|_| self.processor.remove(channel))?;
        self.density.add(channel);
        self.promised_bps += bps;
        Ok(bps)
    }

    /// Adds all of `channels`, or none of them: with the position of one where it is one that fails. There must be none
    /// yet, and what they take of the link is all there is.
    pub(super) fn send_all(
        &mut self,
        channels: &[Channel],
        above: &Above,
        steps: &mut Steps,
    ) -> Result<(), (Option<usize>, Box<Refusal>)> {
        if !self.all_in_time(channels, above, steps) {
            return Err((None, denied(DELAY, "not every message would leave in time".into())));
        }
        let budgets = above.budgets();
        for (at, channel) in channels.iter().enumerate() {
            if let Err(why) = self.processor.add(channel, &budgets) {
                channels[..at].iter().for_each(|channel| self.processor.remove(channel));
                return Err((Some(at), denied(PROCESSOR, why)));
            }
        }
        channels.iter().for_each(|channel| self.density.add(channel));
        Ok(())
    }

    /// Takes out a channel that [`Self::send`] added.
    pub(super) fn sends_no_longer(&mut self, channel: &Channel, bps: u64) {
        self.density.remove(channel);
        self.processor.remove(channel);
        self.promised_bps -= bps;
    }

    /// Puts back a channel that was taken out while all others stayed as they are.
    pub(super) fn put_back(&mut self, channel: &Channel, bps: u64) {
        self.density.add(channel);
        self.processor.put_back(channel);
        self.promised_bps += bps;
    }

    /// Adds a channel that receives, if there is processor enough.
    pub(super) fn receive(
        &mut self,
        arrivals: LinearBounded,
        above: &Above,
    ) -> Result<(), Box<Refusal>> {
        let added = self.processor.add_receiving(arrivals, &above.budgets());
        added.map_err(|why| denied(PROCESSOR, why))
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
        above: &Above,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        if self.processor.holds(&above.budgets()) && self.all_in_time(channels, above, steps) {
            return Ok(());
        }
        let why = format!("beneath it one of {} channels would be late", channels.len());
        Err(denied("channels", why))
    }

    /// Returns what a channel would take of the link, if that is left.
    fn within_link(&self, channel: &Channel) -> Result<u64, Box<Refusal>> {
        if self.carrier.link.is_none() {
            return Ok(0);
        }
        let rate = self.carrier.rate_of(channel.arrivals());
        let rate = rate.ok_or_else(|| denied("link", "its rate is beyond all links".into()))?;
        let (available, promised) = (self.available_bps(), self.promised_bps);
        if rate.bits_per_second() <= available {
            return Ok(rate.bits_per_second());
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
        above: &Above,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        if above.is_nothing() && self.density.fits_with(more) {
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
            above.reservations.len()
        );
        Err(denied(DELAY, why))
    }

    fn all_in_time(&self, channels: &[Channel], above: &Above, steps: &mut Steps) -> bool {
        let Carrier { egress, change, .. } = self.carrier;
        egress.all_in_time(channels, &above.loads(change), steps)
    }
}

impl<Id: Copy + Ord> System<Id> {
    /// Returns what runs above the thread that sends: the kernel's reservations, and the slots of its CPU.
    pub(crate) fn above_carrier(&self) -> Above {
        let cpu = self.carried.as_ref().and_then(|carried| carried.carrier().cpu);
        let here = self.slots().map(|(_, slots)| slots).filter(|slots| Some(slots.cpu) == cpu);
        let (reservations, switch) = (self.of_the_kernel.all().to_vec(), self.host.context_switch);
        Above { reservations, slots: here.collect(), switch }
    }

    /// Says whether all channels are in time beneath what now runs above them.
    pub(super) fn channels_in_time(&self, steps: &mut Steps) -> Result<(), Box<Refusal>> {
        self.channels_in_time_beneath(&self.above_carrier(), steps)
    }

    /// Says the same beneath `above`.
    pub(super) fn channels_in_time_beneath(
        &self,
        above: &Above,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        let Some(carried) = &self.carried else { return Ok(()) };
        carried.run_beneath(&sending(&self.entries), above, steps)
    }

    /// Adds a channel that sends.
    pub(super) fn send_one(
        &mut self,
        channel: &Channel,
        steps: &mut Steps,
    ) -> Result<Executed, Box<Refusal>> {
        let above = self.above_carrier();
        let carried = self.carried.as_mut().ok_or_else(no_carrier)?;
        let others = || sending(&self.entries);
        let bps = carried.send(channel, others, &above, steps)?;
        Ok(Executed::Sending { channel: Box::new(channel.clone()), bps })
    }

    /// Admits all of `channels`, each under its name, or none of them, by one test of all: with the position of one where
    /// it is one that fails. There must be none yet, on a carrier whose link is not counted.
    pub(crate) fn send_all(
        &mut self,
        names: impl IntoIterator<Item = Id>,
        channels: &[Channel],
        steps: &mut Steps,
    ) -> Result<(), (Option<usize>, Box<Refusal>)> {
        let above = self.above_carrier();
        let carried = self.carried.as_mut().ok_or_else(|| (None, no_carrier()))?;
        carried.send_all(channels, &above, steps)?;
        for (id, channel) in names.into_iter().zip(channels) {
            let executed = Executed::Sending { channel: Box::new(channel.clone()), bps: 0 };
            self.entries.insert(id, Entry { share_ppm: 0, executed });
        }
        Ok(())
    }
}

/// Refuses a channel, or a reservation above channels, by `test`, each of which is about one resource.
fn denied(test: &'static str, why: String) -> Box<Refusal> {
    let resource = match test {
        "link" => Resource::Link,
        DELAY => Resource::Delay,
        _ => Resource::Cpu,
    };
    Box::new(Refusal::new(test, resource, why))
}
