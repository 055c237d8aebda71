//! The channels of a system: one sending thread, one receiving thread, one link.
//!
//! The tests, in this order:
//! 1. `link`: the rates of all sending channels, and the part kept for best effort, are within the
//!    rate of the link.
//! 2. `channel-delay`: every message of all channels is in time, in deadline order, under all
//!    reservations of the host ([`Egress`](crate::channel::egress::Egress)). The refusal names the
//!    most urgent late channel, if it is that of the request.
//! 3. `processor`: in no window do the threads take more than the reservation that is set aside for
//!    them ([`super::Carrier::egress`], [`Processor`]). So they make nothing below that reservation
//!    late.
//!
//! While no reservation is admitted, [`Density`] proves a delay bound at a cost of O(log n) for n
//! channels. Otherwise the demand of all of them is examined.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::channel::{BitRate, Channel, LinearBounded, ReadLimit};
use punctual_model::{Duration, Reservation, Service};

use super::leaving::Leaving;
use super::sums::Sums;
use super::{Entry, Executed, Slots, System, no_carrier};
use crate::channel::density::Density;
use crate::channel::egress::Egress;
use crate::channel::processor::Processor;
use crate::channel::{DelayBound, channel_named, late};
use crate::load::TaskLoad;
use crate::reservation::{ReservedLoad, settle};
use crate::steps::Steps;
use crate::verdict::{Refusal, Resource};

/// The most steps to find which channel would be late, and the most to find what is short.
const FOR_WORDS: u64 = Steps::ADMISSION / 25;

pub(crate) const PROCESSOR: &str = "processor";

/// The thread and link that carry a host's channels, and the part of them that is kept for best
/// effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier {
    /// The sending thread. Its reservation is set aside for all threads of the channels.
    pub egress: Egress,
    /// The cost of switching back to the thread from an interruption, if that is more than a
    /// context switch.
    pub change: Service,
    /// The CPU of the thread, by the kernel's number; `None` for any.
    pub cpu: Option<u16>,
    /// The rate of the link, including all bytes on the wire; `None` if it carries all that the
    /// thread can send.
    pub link: Option<BitRate>,
    /// Bytes on the wire around each payload.
    pub headers: u32,
    /// The part of the link and of the reservation that is kept for best effort, in parts per
    /// million, at most a million.
    pub best_effort_ppm: u32,
    /// The processor time of an incoming packet.
    pub received_packet: Service,
}

impl Carrier {
    /// Returns the bytes on the wire of a message of `bytes`.
    pub fn on_wire(&self, bytes: u32) -> u32 {
        let packets = self.egress.cut().packets_of(bytes);
        bytes.saturating_add(packets.saturating_mul(self.headers))
    }

    /// Returns the rate of such messages on the link, headers included, or `None` if it is beyond
    /// all links.
    pub fn rate_of(&self, arrivals: LinearBounded) -> Option<BitRate> {
        BitRate::at_least(self.on_wire(arrivals.max_message()), arrivals.min_inter_arrival())
    }

    /// Returns the rate of the link that is kept for best effort, in bits a second: at least 1, and
    /// at most the link's.
    pub fn kept_bps(&self) -> u64 {
        let link = self.link_bps();
        let kept = u128::from(link) * u128::from(self.best_effort_ppm) / 1_000_000;
        (kept as u64).clamp(1, link)
    }

    /// Returns the rate of the link, in bits a second, or the largest number if it is not counted.
    pub fn link_bps(&self) -> u64 {
        self.link.map_or(u64::MAX, BitRate::bits_per_second)
    }
}

/// The load above the sending thread.
#[derive(Clone, Debug)]
pub(crate) struct Above {
    /// All reservations of the kernel.
    pub(super) reservations: Vec<Reservation>,
    /// The slots on the CPU of the thread.
    pub(super) slots: Vec<Slots>,
    /// The time of a context switch.
    pub(super) switch: Service,
}

impl Above {
    fn is_nothing(&self) -> bool {
        self.reservations.is_empty() && self.slots.is_empty()
    }

    /// Returns the reservations and slots above the thread as reservations.
    fn budgets(&self) -> Vec<Reservation> {
        let slots = self.slots.iter().map(|slots| slots.taken);
        self.reservations.iter().copied().chain(slots).collect()
    }

    /// Returns the load on the thread, switches included.
    pub(crate) fn loads(&self, change: Service) -> Vec<ReservedLoad> {
        let of = |&reservation: &Reservation| ReservedLoad::new(reservation, self.switch);
        let mut loads: Vec<ReservedLoad> = self.reservations.iter().map(of).collect();
        settle(&mut loads);
        loads.extend(self.slots.iter().map(Slots::load));
        loads.extend(self.interruptions(change));
        loads
    }

    /// Returns the cost of interruptions: each switch back to the thread costs `change`, which
    /// counts as far as it exceeds the switch that is charged to the interruption.
    pub(crate) fn interruptions(&self, change: Service) -> impl Iterator<Item = ReservedLoad> + '_ {
        let dearer = change.saturating_sub(self.switch).as_nanos();
        // In any t a budget is taken up at most ⌈t/Y⌉ + 2 times.
        let back = move |period: Duration, times: u64| {
            let period = period.as_nanos();
            ReservedLoad::arrivals(dearer.saturating_mul(times), period, period.saturating_mul(2))
        };
        let reservations = self.reservations.iter().map(move |one| back(one.period(), 1));
        let slots = self.slots.iter().map(move |slots| back(slots.taken.period(), slots.count));
        reservations.chain(slots).filter(move |_| dearer > 0)
    }
}

/// The load of the admitted channels on their [`Carrier`].
#[derive(Clone, Debug)]
pub struct CarrierLoad {
    carrier: Carrier,
    density: Density,
    processor: Processor,
    /// The sums over the sending channels as tasks of thread and link.
    sums: Sums,
    /// The rate of the link that is promised, in bits a second.
    promised_bps: u64,
}

impl CarrierLoad {
    pub(super) fn new(carrier: Carrier) -> Self {
        let Carrier { egress, best_effort_ppm, received_packet, .. } = carrier;
        Self {
            carrier,
            density: Density::new(egress),
            processor: Processor::new(egress, best_effort_ppm, received_packet),
            sums: Sums::default(),
            promised_bps: 0,
        }
    }

    /// Returns the carrier.
    pub fn carrier(&self) -> &Carrier {
        &self.carrier
    }

    /// Returns the rate of the link that is promised to channels, in bits a second.
    pub fn promised_bps(&self) -> u64 {
        self.promised_bps
    }

    /// Returns the rate of the link that can still be promised, in bits a second.
    pub fn available_bps(&self) -> u64 {
        self.carrier.link_bps() - self.carrier.kept_bps() - self.promised_bps
    }

    /// Returns the CPU share that all channels need over time, in parts per million.
    pub fn cpu_ppm(&self) -> u64 {
        self.processor.ppm()
    }

    /// Returns the CPU share that is left for sending best effort, in parts per million.
    pub fn best_effort_cpu_ppm(&self) -> u64 {
        self.processor.left_ppm()
    }

    /// Adds a channel beside `others` if it fits, and returns its rate on the link, in bits a
    /// second.
    pub(super) fn send<'a>(
        &mut self,
        channel: &'a Channel,
        others: impl Iterator<Item = &'a Channel> + Clone,
        above: &Above,
        steps: &mut Steps,
    ) -> Result<u64, Box<Refusal>> {
        let bps = self.within_link(channel)?;
        self.in_time_with(channel, others, above, steps)?;
        self.processor.add(channel, &above.budgets()).map_err(|why| denied(PROCESSOR, why))?;
        self.count(channel);
        self.promised_bps += bps;
        Ok(bps)
    }

    /// Adds all of `channels`, or none of them. If the test fails for one channel, the error has
    /// its position. There must be no channels yet, and the link must not be counted.
    pub(super) fn send_all(
        &mut self,
        channels: &[Channel],
        above: &Above,
        steps: &mut Steps,
    ) -> Result<(), (Option<usize>, Box<Refusal>)> {
        if !self.all_in_time(channels, above, steps) {
            return Err((None, Box::new(late::brief(Resource::Delay))));
        }
        let budgets = above.budgets();
        for (at, channel) in channels.iter().enumerate() {
            if let Err(why) = self.processor.add(channel, &budgets) {
                channels[..at].iter().for_each(|channel| self.processor.remove(channel));
                return Err((Some(at), denied(PROCESSOR, why)));
            }
        }
        channels.iter().for_each(|channel| self.count(channel));
        Ok(())
    }

    /// Removes a channel that [`Self::send`] added.
    pub(super) fn sends_no_longer(&mut self, channel: &Channel, bps: u64) {
        self.density.remove(channel);
        self.sums.remove(&self.pending_task(channel));
        self.processor.remove(channel);
        self.promised_bps -= bps;
    }

    /// Restores a removed channel, provided that no other channel changed meanwhile.
    pub(super) fn put_back(&mut self, channel: &Channel, bps: u64) {
        self.count(channel);
        self.processor.put_back(channel);
        self.promised_bps += bps;
    }

    fn count(&mut self, channel: &Channel) {
        self.density.add(channel);
        self.sums.add(&self.pending_task(channel));
    }

    /// Returns a channel as a task of thread and link, each job of which may be pending until its
    /// message is due, and by as much longer as the thread takes to look.
    pub(super) fn pending_task(&self, channel: &Channel) -> TaskLoad {
        let Carrier { egress, .. } = self.carrier;
        let task = egress.task(channel);
        let deadline = task.deadline.saturating_add(egress.looks_within().as_nanos());
        TaskLoad { deadline, ..task }
    }

    #[cfg(test)]
    pub(super) fn sums(&self) -> Sums {
        self.sums
    }

    /// Returns the most work of thread and link, in nanoseconds, that can be pending while no
    /// message is late.
    pub(super) fn pending(&self) -> u64 {
        self.sums.pending()
    }

    /// Returns a time within which the sender has been idle beneath `above`
    /// ([`Sums::idle_within`]).
    pub(super) fn idle_within(&self, above: &Above) -> Option<u64> {
        if self.sums == Sums::default() {
            return Some(0);
        }
        let Carrier { egress, change, .. } = self.carrier;
        let more = egress.looks_within().saturating_add(egress.once()).as_nanos();
        self.sums.idle_within(more, &above.loads(change))
    }

    /// Adds a receiving channel if the processor has enough time for it.
    pub(super) fn receive(&mut self, limit: ReadLimit, above: &Above) -> Result<(), Box<Refusal>> {
        let added = self.processor.add_receiving(limit, &above.budgets());
        added.map_err(|why| denied(PROCESSOR, why))
    }

    /// Removes a channel that [`Self::receive`] added.
    pub(super) fn receives_no_longer(&mut self, limit: ReadLimit) {
        self.processor.remove_receiving(limit);
    }

    /// Restores a removed receiving channel, provided that no other channel changed meanwhile.
    pub(super) fn put_back_receiving(&mut self, limit: ReadLimit) {
        self.processor.put_back_receiving(limit);
    }

    /// Checks that `channels`, which are all that send, stay in time beneath `above`.
    pub(super) fn run_beneath<'a>(
        &self,
        channels: impl Iterator<Item = &'a Channel> + Clone,
        above: &Above,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        let refusal = match self.processor.holds(&above.budgets()) {
            Err(why) => denied(PROCESSOR, why),
            Ok(()) if self.all_in_time(channels.clone(), above, steps) => return Ok(()),
            Ok(()) => self.late(None, channels, above, steps),
        };
        Err(Box::new(Refusal { why: format!("beneath it, {}", refusal.why), ..*refusal }))
    }

    /// Returns the rate of a channel on the link, in bits a second: 0 if the link is not counted.
    pub(super) fn bps_of(&self, channel: &Channel) -> Option<u64> {
        if self.carrier.link.is_none() {
            return Some(0);
        }
        self.carrier.rate_of(channel.arrivals()).map(BitRate::bits_per_second)
    }

    /// Returns the rate of a channel on the link, if that is available.
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

    fn in_time_with<'a>(
        &self,
        more: &'a Channel,
        others: impl Iterator<Item = &'a Channel> + Clone,
        above: &Above,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        if above.is_nothing() && self.density.fits_with(more) {
            return Ok(());
        }
        let all = others.chain([more]);
        if self.all_in_time(all.clone(), above, steps) {
            return Ok(());
        }
        Err(self.late(Some(more), all, above, steps))
    }

    /// Refuses `all` channels, because not all of them would be in time. `own` is that of the
    /// request, if that is a channel.
    fn late<'a>(
        &self,
        own: Option<&'a Channel>,
        all: impl Iterator<Item = &'a Channel> + Clone,
        above: &Above,
        steps: &Steps,
    ) -> Box<Refusal> {
        if steps.is_brief() {
            return Box::new(late::brief(Resource::Delay));
        }
        let Carrier { egress, change, .. } = self.carrier;
        let loads = above.loads(change);
        let (none, for_delays) = (&mut Steps::new(0), &mut Steps::new(FOR_WORDS));
        let delays = egress.delays(all.clone(), &loads, none, for_delays);
        let resource = late::binding(egress, all.clone(), &loads, &mut Steps::new(FOR_WORDS));
        let late = late::most_urgent(all.clone(), &delays);
        let late = late.and_then(|at| Some((all.clone().nth(at)?, delays[at])));
        let known = late.filter(|(_, delay)| *delay != DelayBound::Undecided);
        let Some((late, delay)) = known else {
            return Box::new(late::brief(resource));
        };
        // The channels of other holders are private.
        let own = own.filter(|own| core::ptr::eq(*own, late));
        let who = own.map_or_else(|| "a channel admitted before".into(), channel_named);
        let entry = own.map(|own| own.name().into());
        Box::new(Refusal { entry, ..late::refusal(&who, late.delay_bound(), delay, resource) })
    }

    fn all_in_time<'a>(
        &self,
        channels: impl IntoIterator<Item = &'a Channel>,
        above: &Above,
        steps: &mut Steps,
    ) -> bool {
        let Carrier { egress, change, .. } = self.carrier;
        egress.all_in_time(channels, &above.loads(change), steps)
    }
}

impl<Id: Copy + Ord> System<Id> {
    /// Returns the load above the sending thread: the kernel's reservations, and the slots of its
    /// CPU.
    pub(crate) fn above_carrier(&self) -> Above {
        let cpu = self.carried.as_ref().and_then(|carried| carried.carrier().cpu);
        let slots = cpu.map_or_else(Vec::new, |cpu| self.slots_on(cpu).collect());
        let (reservations, switch) = (self.of_the_kernel.all().to_vec(), self.host.context_switch);
        Above { reservations, slots, switch }
    }

    /// Checks that all channels are in time beneath the current load above them.
    pub(super) fn channels_in_time(&self, steps: &mut Steps) -> Result<(), Box<Refusal>> {
        self.channels_in_time_beneath(&self.above_carrier(), steps)
    }

    /// Checks that all channels are in time beneath `above`.
    pub(super) fn channels_in_time_beneath(
        &self,
        above: &Above,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        let Some(carried) = &self.carried else { return Ok(()) };
        carried.run_beneath(sending(&self.entries, &self.leaving), above, steps)
    }

    /// Adds the sending channel `channel`, which for now counts as `counted`.
    pub(super) fn send_one(
        &mut self,
        counted: &Channel,
        channel: &Channel,
        steps: &mut Steps,
    ) -> Result<Executed, Box<Refusal>> {
        let above = self.above_carrier();
        let carried = self.carried.as_mut().ok_or_else(no_carrier)?;
        let others = sending(&self.entries, &self.leaving);
        let bps = carried.send(counted, others, &above, steps)?;
        let own = (counted != channel).then(|| Box::new(channel.clone()));
        Ok(Executed::Sending { channel: Box::new(counted.clone()), own, bps })
    }

    /// Takes a channel from the carrier.
    pub(super) fn carry_no_longer(&mut self, channel: &Executed) {
        let Some(carried) = &mut self.carried else { return };
        match channel {
            Executed::Sending { channel, bps, .. } => carried.sends_no_longer(channel, *bps),
            Executed::Receiving(limit) => carried.receives_no_longer(*limit),
            _ => {}
        }
    }

    /// Restores a channel that was taken from the carrier, provided that no other channel changed
    /// meanwhile.
    pub(super) fn carry_again(&mut self, channel: &Executed) {
        let Some(carried) = &mut self.carried else { return };
        match channel {
            Executed::Sending { channel, bps, .. } => carried.put_back(channel, *bps),
            Executed::Receiving(limit) => carried.put_back_receiving(*limit),
            _ => {}
        }
    }

    /// Admits all of `channels`, each under its name, or none of them, by one test. If the test
    /// fails for one channel, the error has its position. There must be no channels yet, on a
    /// carrier whose link is not counted.
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
            let executed =
                Executed::Sending { channel: Box::new(channel.clone()), own: None, bps: 0 };
            self.entries.insert(id, Entry { share_ppm: 0, executed });
        }
        Ok(())
    }
}

/// Returns the sending channels with a promise that count: those of `entries`, and those that have
/// left.
fn sending<'a, Id>(
    entries: &'a BTreeMap<Id, Entry>,
    left: &'a [Leaving<Id>],
) -> impl Iterator<Item = &'a Channel> + Clone {
    let executed = entries.values().map(|entry| &entry.executed);
    let all = executed.chain(left.iter().filter_map(Leaving::channel));
    all.filter_map(|executed| match executed {
        Executed::Sending { channel, .. } => Some(&**channel),
        _ => None,
    })
}

/// Refuses a channel, or a reservation above channels, by `test`. Each test is about one resource.
fn denied(test: &'static str, why: String) -> Box<Refusal> {
    let resource = match test {
        "link" => Resource::Link,
        _ => Resource::Cpu,
    };
    Box::new(Refusal::new(test, resource, why))
}
