//! Delay bounds of messages over the egress scheduler of a channel server
//! (`punctual_policy::egress`), and the server's load on lower priorities.
//!
//! # The server
//! One thread makes each packet by handing it to the link, at the instant at which the link is free
//! for it, in the order of the messages' deadlines. Making and sending happen one after the other,
//! so thread and link are one resource that a packet occupies for `C + L`: the processor's time,
//! then the link's. A block of P packets is not interrupted. No packet is begun sooner than the
//! [pace](Egress::pace) after the previous one was due, so it occupies the resource for at least
//! that long.
//!
//! # The bound
//! The messages of a channel are served as if they came at their logical arrivals, which are `I`
//! apart. So a channel is a task of that resource under earliest deadline first, and [`crate::edf`]
//! proves it. The work above the thread counts as reservations. Once in each busy window two of the
//! longest blocks and a pace are added ([`Egress::once`]): one block has begun when a more urgent
//! message comes; the rest may still be in front of the link if the thread handed packets over
//! late. The time until the thread looks ([`Egress::looks_within`]) is added to the result.
//! `tests/tests/virtual_time/egress.rs` runs such servers against these bounds.
//!
//! # Assumptions
//! The thread runs above all tasks and upcalls, and below the load given as `above`. A wake-up
//! takes at most `allowance`; the server catches up if it is late by up to one pace. The link's
//! times are upper bounds.
//!
//! # Units and answers
//! Bounds are in nanoseconds from the logical arrival to the end of the last packet's transmission.
//! They are sufficient, not necessary.

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

/// The percentage of the processor's share that is for sending; the rest is for receiving.
const PACED_PERCENT: u128 = 90;

/// The processor time to look at a ring whose bell rang and to offer its message to the egress
/// scheduler. `crates/channel/examples/sender_cost.rs` measures less for everything that happens to
/// a message except the transport.
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
    /// A block on thread and link, expressed as a link: one packet of `block` bytes.
    serial: Link,
    block: u32,
}

impl Egress {
    /// Describes a thread that takes `per_packet` of its processor for each packet of `cut` and
    /// hands it to `link`. The thread may take as much of a CPU as the reservation `cpu`, and runs
    /// within `allowance` of when it should.
    ///
    /// # Errors
    /// Fails if the link is too slow.
    pub fn new(
        link: Link,
        cut: Packetisation,
        per_packet: Service,
        cpu: Reservation,
        allowance: Duration,
    ) -> Result<Self, CostError> {
        let pace = pace(per_packet, cut, cpu);
        let packets = u64::from(cut.packets_per_block());
        // If the time of a byte is not a whole number of nanoseconds, one more is for the rounding
        // of each packet.
        let nanosecond = u64::from(packets > 1);
        let one = link.transmission_time(0).as_nanos().saturating_add(per_packet.as_nanos());
        let startup = one.saturating_add(nanosecond).saturating_mul(packets);
        // The time of a million bytes in nanoseconds is that of one byte in femtoseconds; it is
        // rounded up to picoseconds.
        let million = link.transmission_time(1_000_000).saturating_sub(link.transmission_time(0));
        let picos = million.as_nanos().div_ceil(1_000);
        let rest = pace.unwrap_or(Duration::ZERO).checked_mul(packets).unwrap_or(Duration::MAX);
        let serial = Link::with_picos(Duration::from_nanos(startup), picos)?.at_least(rest);
        let block = cut.packet_bytes().saturating_mul(cut.packets_per_block());
        Ok(Self { link, cut, per_packet, cpu, allowance, pace, serial, block })
    }

    /// Describes the server of a contract whose packets have `costs`, on a host that wakes its
    /// thread within `wake_up`. The allowance is at least `wake_up`.
    ///
    /// # Errors
    /// Fails like [`Self::new`].
    pub fn of(sender: &SenderSpec, costs: SendCosts, wake_up: Service) -> Result<Self, CostError> {
        let (SenderSpec { link, packetisation, allowance, .. }, cost) =
            (*sender, costs.per_packet());
        let allowance = allowance.max(wake_up.at_full_speed());
        Self::new(link, packetisation, cost, sender.cpu_for(cost), allowance)
    }

    /// Returns the same server in front of a link that is `factor` times as fast, or `None` if
    /// there is none.
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

    /// Returns the packetisation of messages.
    pub fn cut(&self) -> Packetisation {
        self.cut
    }

    /// Returns the processor's time for a packet.
    pub fn per_packet(&self) -> Service {
        self.per_packet
    }

    /// Returns the share of a CPU that the thread may take.
    pub fn cpu(&self) -> Reservation {
        self.cpu
    }

    /// Returns the longest time by which the thread may wake up late.
    pub fn allowance(&self) -> Duration {
        self.allowance
    }

    /// Returns the least time from one due packet to the next: the time for which nine tenths of
    /// the processor's share pay for one packet. Returns `None` if even at that pace the thread
    /// could need more at once than its budget: then packets leave as fast as the link takes them.
    pub fn pace(&self) -> Option<Duration> {
        self.pace
    }

    /// Returns the pace that results if the thread may take `cpu`.
    pub(crate) fn pace_with(&self, cpu: Reservation) -> Option<Duration> {
        pace(self.per_packet, self.cut, cpu)
    }

    /// Returns the longest delay until the thread looks at its rings: it may wake up late, and its
    /// pace may keep it from looking at once.
    pub fn looks_within(&self) -> Duration {
        self.allowance.saturating_add(self.pace.unwrap_or(Duration::ZERO))
    }

    /// Returns the time for which a message of `bytes` occupies thread and link.
    pub fn time_of(&self, bytes: u32) -> Duration {
        let blocks = u64::from(bytes.div_ceil(self.block).max(1));
        let of_full = self.longest().checked_mul(blocks - 1).unwrap_or(Duration::MAX);
        // The bytes outside of full blocks are fewer than a block.
        let last = bytes - (blocks - 1) as u32 * self.block;
        of_full.saturating_add(self.serial.transmission_time(last))
    }

    /// Returns the time for which the longest block occupies thread and link.
    pub fn longest(&self) -> Duration {
        self.serial.transmission_time(self.block)
    }

    /// Returns the work in front of a busy window's messages: a block that has begun, and a block
    /// and a pace that wait in the driver because they were handed over late.
    pub fn once(&self) -> Duration {
        let blocks = self.longest().checked_mul(2).unwrap_or(Duration::MAX);
        blocks.saturating_add(self.pace.unwrap_or(Duration::ZERO))
    }

    /// Returns the proven delay of each of `channels` in deadline order, beneath `above`. Whether
    /// all are in time is decided within `steps`. If they are, a delay that is not found within
    /// `for_bounds` is reported as the delay bound: proven but weak.
    pub fn delays<'a>(
        &self,
        channels: impl IntoIterator<Item = &'a Channel> + Clone,
        above: &[ReservedLoad],
        steps: &mut Steps,
        for_bounds: &mut Steps,
    ) -> Vec<DelayBound> {
        let in_time = self.all_in_time(channels.clone(), above, steps);
        let load = self.load(channels.clone().into_iter(), above);
        let found = response_times(&load, Granularity::Continuous, for_bounds);
        let delay = |(channel, found): (&Channel, _)| match found {
            ResponseTime::AtMost(time) => {
                DelayBound::AtMost(time.saturating_add(self.looks_within()))
            }
            _ if in_time => DelayBound::AtMost(channel.delay_bound()),
            ResponseTime::Unbounded => DelayBound::Unbounded,
            ResponseTime::Undecided { .. } => DelayBound::Undecided,
        };
        channels.into_iter().zip(found).map(delay).collect()
    }

    /// Returns whether every message of `channels` is certainly in time, beneath `above`.
    pub fn all_in_time<'a>(
        &self,
        channels: impl IntoIterator<Item = &'a Channel>,
        above: &[ReservedLoad],
        steps: &mut Steps,
    ) -> bool {
        let looks_within = self.looks_within();
        let mut can_be = true;
        let each =
            channels.into_iter().inspect(|channel| can_be &= channel.delay_bound() > looks_within);
        let load = self.load(each, above);
        can_be && processor_demand(&load, steps) == DemandVerdict::Fits
    }

    /// Returns a channel as a task of thread and link.
    pub(crate) fn task(&self, channel: &Channel) -> TaskLoad {
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
    }

    /// Models thread and link as a processor with the channels as its tasks.
    fn load<'a>(
        &self,
        channels: impl Iterator<Item = &'a Channel>,
        above: &[ReservedLoad],
    ) -> CpuLoad {
        let tasks = channels.map(|channel| self.task(channel)).collect();
        let mut reservations = above.to_vec();
        reservations.push(ReservedLoad::once(self.once().as_nanos()));
        CpuLoad { tasks, reservations, wake_up: 0 }
    }

    /// Returns the load of the thread on what runs below it while `channels` and `best_effort` are
    /// sent. Each packet also costs `change`, the switch back to the interrupted thread.
    ///
    /// Without best effort, each message takes its packets within its delay bound after it came,
    /// one after the other at the pace. In any case all packets leave at the pace, which bounds
    /// them as `punctual_policy::egress` proves. The smaller of the two loads over time is
    /// returned, with one look at every ring.
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
        // If the link sets the pace, the thread catches up when it is late by a block.
        let late = pace.saturating_mul(if self.pace.is_some() { 1 } else { block });
        // In any window of length t there are at most (t + late)/p packets, and two blocks.
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
        // The processor's time without the changes is C·(t + 2·P·(p − C) + late)/p.
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
    // Two whole blocks can meet, and a late packet is caught up on: see `punctual_policy::egress`.
    let blocks = 2 * work * u128::from(cut.packets_per_block());
    let at_once = blocks.checked_mul(pace.checked_sub(work)?)?.div_ceil(pace.max(1)) + work;
    let most = x * y.checked_sub(x)? / y;
    (at_once < most).then(|| u64::try_from(pace).map(Duration::from_nanos).ok())?
}
