//! Messages over the egress scheduler of a channel server (`punctual_policy::egress`): whether they are in time, and
//! what they take from what runs below.
//!
//! # The server
//! One thread makes each packet by handing it to the link, at the instant at which the link is free for it, in the
//! order of the messages' deadlines. Making and sending happen one after the other, so thread and link are one
//! resource, which a packet takes for `C + L`: the processor's time, then the link's. A block of P packets is not
//! interrupted. No packet is begun sooner than the [pace](Egress::pace) after the one before was due, so it takes no
//! less than that.
//!
//! # The bound
//! The messages of a channel are served as if they came at their logical arrivals, which are `I` apart. So a channel
//! is a task of that resource under earliest deadline first: [`crate::edf`] proves it, with what runs above the
//! thread as reservations, and once in each busy window two of the longest blocks and a pace ([`Egress::once`]). One
//! block has begun when a more urgent message comes. The rest is what a thread that hands over late may still have in
//! front of the link. To what is found comes what passes until the thread looks ([`Egress::looks_within`]).
//! `tests/tests/virtual_time/egress.rs` runs such servers against these bounds.
//!
//! # Assumptions
//! The thread runs above all tasks and upcalls, and below what is said to be above it. A wake-up takes
//! `allowance` at most; what is late by up to one pace is made up for. The link's times are upper bounds.
//!
//! # Units and answers
//! Nanoseconds from the logical arrival to the end of the last packet's transmission. Sufficient, not necessary.

use alloc::vec::Vec;

use punctual_model::channel::{
    BestEffort, Channel, CostError, Link, Packetisation, SendCosts, SenderSpec,
};
use punctual_model::{Duration, Reservation, Service};

use super::DelayBound;
use crate::edf::demand::{DemandVerdict, processor_demand};
use crate::edf::response_time::response_times;
use crate::fixed_priority::ResponseTime;
use crate::load::{CpuLoad, Granularity, TaskLoad};
use crate::ratio::{Ratio, Utilisation};
use crate::reservation::ReservedLoad;
use crate::steps::Steps;

/// So much of the processor's share is for what is sent; the rest is for what is received.
const PACED_PERCENT: u128 = 90;

/// Processor time of a look at a ring whose bell rang, with the message that it had offered to the egress
/// scheduler. `crates/channel/examples/sender_cost.rs` finds less for all that happens to a message but the transport.
pub const LOOK: Service = Service::from_micros(1);

/// An egress scheduler with its thread and its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Egress {
    link: Link,
    cut: Packetisation,
    per_packet: Service,
    cpu: Reservation,
    allowance: Duration,
    pace: Option<Duration>,
    /// A block on thread and link, in the form of a link: one packet of `block` bytes.
    serial: Link,
    block: u32,
}

impl Egress {
    /// Describes a thread that takes `per_packet` of its processor for each packet of `cut` and hands it to
    /// `link`, that may take of a CPU what the reservation `cpu` does, and that runs within `allowance` of when it
    /// should.
    ///
    /// # Errors
    /// If the link is too slow.
    pub fn new(
        link: Link,
        cut: Packetisation,
        per_packet: Service,
        cpu: Reservation,
        allowance: Duration,
    ) -> Result<Self, CostError> {
        let pace = pace(per_packet, cut, cpu);
        let packets = u64::from(cut.packets_per_block());
        // Where the time of a byte is no whole number of nanoseconds, one more for the rounding of each packet.
        let nanosecond = u64::from(packets > 1);
        let one = link.transmission_time(0).as_nanos().saturating_add(per_packet.as_nanos());
        let startup = one.saturating_add(nanosecond).saturating_mul(packets);
        // Of a million bytes in nanoseconds: that of one byte in femtoseconds, rounded up to picoseconds.
        let million = link.transmission_time(1_000_000).saturating_sub(link.transmission_time(0));
        let picos = million.as_nanos().div_ceil(1_000);
        let rest = pace.unwrap_or(Duration::ZERO).checked_mul(packets).unwrap_or(Duration::MAX);
        let serial = Link::with_picos(Duration::from_nanos(startup), picos)?.at_least(rest);
        let block = cut.packet_bytes().saturating_mul(cut.packets_per_block());
        Ok(Self { link, cut, per_packet, cpu, allowance, pace, serial, block })
    }

    /// Describes the server of a contract whose packets cost what `costs` says, on a host that wakes its thread within
    /// `wake_up`: it is allowed no less.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of(sender: &SenderSpec, costs: SendCosts, wake_up: Service) -> Result<Self, CostError> {
        let (SenderSpec { link, packetisation, allowance, .. }, cost) =
            (*sender, costs.per_packet());
        let allowance = allowance.max(wake_up.at_full_speed());
        Self::new(link, packetisation, cost, sender.cpu_for(cost), allowance)
    }

    /// Returns the same server before a link that is `factor` times as fast, or `None` if there is none.
    pub(crate) fn with_faster_link(&self, factor: u64) -> Option<Self> {
        let Self { link, cut, per_packet, cpu, allowance, .. } = *self;
        Self::new(link.times_as_fast(factor), cut, per_packet, cpu, allowance).ok()
    }

    /// Returns the same server on a processor that costs nothing.
    pub(crate) fn with_free_processor(&self) -> Option<Self> {
        let Self { link, cut, cpu, allowance, .. } = *self;
        Self::new(link, cut, Service::ZERO, cpu, allowance).ok()
    }

    /// Returns the link, without the processor's time.
    pub fn link(&self) -> Link {
        self.link
    }

    /// Returns how messages are cut.
    pub fn cut(&self) -> Packetisation {
        self.cut
    }

    /// Returns the processor's time for a packet.
    pub fn per_packet(&self) -> Service {
        self.per_packet
    }

    /// Returns what the thread may take of a CPU.
    pub fn cpu(&self) -> Reservation {
        self.cpu
    }

    /// Returns how late the thread may wake up.
    pub fn allowance(&self) -> Duration {
        self.allowance
    }

    /// Returns the least time from one packet that is due to the next: as long as nine tenths of the processor's
    /// share need for one. `None` where even so the thread could need more at once than its budget: then packets
    /// leave as fast as the link takes them.
    pub fn pace(&self) -> Option<Duration> {
        self.pace
    }

    /// Returns what the pace would be if `cpu` were what the thread may take.
    pub(crate) fn pace_with(&self, cpu: Reservation) -> Option<Duration> {
        pace(self.per_packet, self.cut, cpu)
    }

    /// Returns how long after it should the thread looks, at most: it wakes up late, and by its pace it may be deaf
    /// then.
    pub fn looks_within(&self) -> Duration {
        self.allowance.saturating_add(self.pace.unwrap_or(Duration::ZERO))
    }

    /// Returns for how long thread and link are busy with a message of so many bytes.
    pub fn time_of(&self, bytes: u32) -> Duration {
        let blocks = u64::from(bytes.div_ceil(self.block).max(1));
        let of_full = self.longest().checked_mul(blocks - 1).unwrap_or(Duration::MAX);
        // Less than a block of the bytes are not in full ones.
        let last = bytes - (blocks - 1) as u32 * self.block;
        of_full.saturating_add(self.serial.transmission_time(last))
    }

    /// Returns for how long they are busy with the longest block.
    pub fn longest(&self) -> Duration {
        self.serial.transmission_time(self.block)
    }

    /// Returns what is in front of a busy window's messages: a block that has begun, and one and a pace that wait in the
    /// driver because they were handed over late.
    pub fn once(&self) -> Duration {
        let blocks = self.longest().checked_mul(2).unwrap_or(Duration::MAX);
        blocks.saturating_add(self.pace.unwrap_or(Duration::ZERO))
    }

    /// Returns the proven delay of each of `channels` in deadline order, beneath `above`. Whether all are in time is found
    /// within `steps`. Where they are, and a delay is not found within `for_bounds`, it is the delay bound: proven but
    /// weak.
    pub fn delays(
        &self,
        channels: &[Channel],
        above: &[ReservedLoad],
        steps: &mut Steps,
        for_bounds: &mut Steps,
    ) -> Vec<DelayBound> {
        let in_time = self.all_in_time(channels, above, steps);
        let load = self.load(channels, above);
        let found = response_times(&load, Granularity::Continuous, for_bounds);
        let delay = |(channel, found): (&Channel, _)| match found {
            ResponseTime::AtMost(time) => {
                DelayBound::AtMost(time.saturating_add(self.looks_within()))
            }
            _ if in_time => DelayBound::AtMost(channel.delay_bound()),
            ResponseTime::Unbounded => DelayBound::Unbounded,
            ResponseTime::Undecided { .. } => DelayBound::Undecided,
        };
        channels.iter().zip(found).map(delay).collect()
    }

    /// Returns whether every message of `channels` is certainly in time, beneath `above`.
    pub fn all_in_time(
        &self,
        channels: &[Channel],
        above: &[ReservedLoad],
        steps: &mut Steps,
    ) -> bool {
        let looks_within = self.looks_within();
        channels.iter().all(|channel| channel.delay_bound() > looks_within)
            && processor_demand(&self.load(channels, above), steps) == DemandVerdict::Fits
    }

    /// Returns thread and link as a processor with the channels as its tasks.
    fn load(&self, channels: &[Channel], above: &[ReservedLoad]) -> CpuLoad {
        let task = |channel: &Channel| {
            let work = self.time_of(channel.arrivals().max_message()).as_nanos();
            let deadline = channel.delay_bound().saturating_sub(self.looks_within()).as_nanos();
            TaskLoad {
                work,
                wcet: work,
                high: 0,
                period: channel.arrivals().min_inter_arrival().as_nanos(),
                deadline: deadline.max(1),
                jitter: 0,
                quantum: 0,
                last: 0,
            }
        };
        let tasks = channels.iter().map(task).collect();
        let mut reservations = above.to_vec();
        reservations.push(ReservedLoad::once(self.once().as_nanos()));
        CpuLoad { tasks, reservations, wake_up: 0 }
    }

    /// Returns what the thread takes of its CPU, as seen by what runs below it, where `channels` and `best_effort` are
    /// sent. After each packet comes `change`, the switch to what was interrupted.
    ///
    /// Without best effort each message takes its packets, up to its delay bound after it came, one after the other at
    /// the pace. In any case all packets leave at the pace, which bounds them as `punctual_policy::egress` proves: what
    /// takes less of the CPU over time counts. At first the thread looks at all rings.
    pub(crate) fn takes(
        &self,
        channels: &[Channel],
        best_effort: BestEffort,
        change: Service,
    ) -> Vec<ReservedLoad> {
        if channels.is_empty() && best_effort == BestEffort::None {
            return Vec::new();
        }
        let (work, change) = (self.per_packet.as_nanos(), change.as_nanos());
        let each = work.saturating_add(change);
        let shortest = channels.iter().map(|channel| match self.packets_of(channel) {
            1 => channel.arrivals().min_message(),
            _ => 1,
        });
        let shortest = shortest.chain(best_effort.least()).min().unwrap_or(1);
        let on_link = self.link.transmission_time(shortest).as_nanos();
        let pace = self.pace.map_or(0, Duration::as_nanos).max(work).max(on_link).max(1);
        let block = u64::from(self.cut.packets_per_block());
        // Where the link sets the pace, what is late by a block is made up for.
        let late = pace.saturating_mul(if self.pace.is_some() { 1 } else { block });
        // Packets in any window of t: (t + late)/p, and two blocks.
        let early = pace.saturating_mul(2 * block).saturating_add(late);
        let mut by_message: Vec<ReservedLoad> = channels
            .iter()
            .map(|channel| {
                let period = channel.arrivals().min_inter_arrival().as_nanos();
                let work = u64::from(self.packets_of(channel)).saturating_mul(each);
                let arrivals =
                    ReservedLoad::arrivals(work, period, channel.delay_bound().as_nanos());
                arrivals.paced(each, pace, early)
            })
            .collect();
        // Of the processor's time, without changes: C·(t + 2·P·(p − C) + late)/p.
        let without = (pace - work).saturating_mul(2 * block).saturating_add(late);
        let mut all = Vec::from([
            ReservedLoad::arrivals(work, pace, without),
            ReservedLoad::arrivals(change, pace, early),
        ]);
        let looks = LOOK.as_nanos().saturating_mul(channels.len() as u64);
        for loads in [&mut by_message, &mut all] {
            loads.push(ReservedLoad::once(looks));
        }
        let less = best_effort == BestEffort::None && share_of(&by_message) <= share_of(&all);
        if less { by_message } else { all }
    }

    fn packets_of(&self, channel: &Channel) -> u32 {
        self.cut.packets_of(channel.arrivals().max_message())
    }
}

fn share_of(loads: &[ReservedLoad]) -> Ratio {
    let mut sum = Utilisation::ZERO;
    loads.iter().for_each(|load| load.add_to(&mut sum));
    sum.above()
}

fn pace(per_packet: Service, cut: Packetisation, cpu: Reservation) -> Option<Duration> {
    let (x, y) = (cpu.budget().as_nanos(), cpu.period().as_nanos());
    let (work, x, y) = (u128::from(per_packet.as_nanos()), u128::from(x), u128::from(y));
    let pace = (work * y * 100).div_ceil(x * PACED_PERCENT);
    // Two whole blocks can meet, and a late packet is made up for: see `punctual_policy::egress`.
    let blocks = 2 * work * u128::from(cut.packets_per_block());
    let at_once = blocks.checked_mul(pace.checked_sub(work)?)?.div_ceil(pace.max(1)) + work;
    let most = x * y.checked_sub(x)? / y;
    (at_once < most).then(|| u64::try_from(pace).map(Duration::from_nanos).ok())?
}
