//! What channels are promised, all of them, and what fits beside it.
//!
//! Pure, as the rest of the books. CPU, link and buffers are one decision, in this order:
//! 1. `quota`: of who asks: whether channels at all, how many, how much of the link.
//! 2. `room`: how many there can be; `datagram`: messages that are to be one datagram fit in one.
//! 3. `link`: the rates of all, and what best effort keeps.
//! 4. `processor`: in no window the channels' threads take more than the reservation does that upcalls
//!    are admitted beneath ([`ChannelsConfig::cpu`]). So nothing below them is late because of them.
//! 5. `delay-bound`: every message of all channels in time, in deadline order, under the reservations
//!    of the host (`analysis::channel::egress`).
//!
//! Buffers are memory that the broker makes, up to `want::MAX_QUEUE` a channel and as much of it as each
//! user's quota allows.

mod best_effort;
mod offers;
mod promise;
mod quota;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use punctual_analysis::channel::density::Density;
use punctual_analysis::channel::egress::Egress;
use punctual_analysis::channel::processor::Processor;
use punctual_analysis::{Refusal, Steps};
use punctual_channel::rings::server;
use punctual_model::Reservation;
use punctual_model::channel::{BitRate, Channel, Direction, Framing, LinearBounded};
use punctual_policy::link::BestEffortShare;

use super::denied;
use super::terms::Asker;
use crate::config::ChannelsConfig;
use crate::grant::GrantId;
use crate::want::WantedChannel;

/// Elementary steps of one admission, of some nanoseconds each.
const STEPS: u64 = 20_000_000;

/// A counter-offer, in words and whole.
pub type Offer = (String, WantedChannel);

#[derive(Clone, Debug)]
struct Entry {
    uid: u32,
    want: WantedChannel,
    channel: Option<Channel>,
    /// Of the link; nothing of what receives, and of best effort.
    rate: Option<BitRate>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bps: u64,
    /// Of their queues.
    bytes: u64,
    channels: u32,
}

/// Everything that channels are promised on this host.
#[derive(Clone, Debug)]
pub struct ChannelBooks {
    config: ChannelsConfig,
    egress: Egress,
    density: Density,
    share: BestEffortShare,
    processor: Processor,
    entries: BTreeMap<GrantId, Entry>,
    users: BTreeMap<u32, Sum>,
    /// Channels that send and are promised nothing.
    best_effort: u32,
    /// The reservations of the host, which the kernel runs before the channels' threads.
    above: Vec<Reservation>,
}

impl ChannelBooks {
    /// No channels yet.
    pub fn new(config: ChannelsConfig) -> Self {
        let egress = config.egress();
        let bps = config.link.bits_per_second();
        // At most the link.
        let minimum = (u128::from(bps) * u128::from(config.best_effort_ppm) / 1_000_000).max(1);
        let minimum = BitRate::new(minimum as u64).unwrap_or(config.link);
        let share = BestEffortShare::new(config.link, minimum).expect("at most the link");
        let processor = Processor::new(egress, config.best_effort_ppm, config.received_packet());
        Self {
            egress,
            density: Density::new(egress),
            share,
            processor,
            entries: BTreeMap::new(),
            users: BTreeMap::new(),
            best_effort: 0,
            above: Vec::new(),
            config,
        }
    }

    /// Enters `want` as `id` if it fits. `id` must not be entered already.
    pub fn admit(
        &mut self,
        id: GrantId,
        asker: &Asker,
        want: &WantedChannel,
    ) -> Result<(), Box<Refusal>> {
        self.admit_within(id, asker, want, &mut Steps::new(STEPS))
    }

    fn admit_within(
        &mut self,
        id: GrantId,
        asker: &Asker,
        want: &WantedChannel,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        self.within_quota(asker, want)?;
        self.enter_within(id, asker, want, steps)
    }

    /// Enters what was granted before, whatever the quota says today.
    pub fn enter(
        &mut self,
        id: GrantId,
        asker: &Asker,
        want: &WantedChannel,
    ) -> Result<(), Box<Refusal>> {
        self.enter_within(id, asker, want, &mut Steps::new(STEPS))
    }

    fn enter_within(
        &mut self,
        id: GrantId,
        asker: &Asker,
        want: &WantedChannel,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        if self.entries.len() >= self.config.room as usize {
            let room = self.config.room;
            return Err(denied("room", format!("there are {room} channels, the most"), None));
        }
        let longest = want.arrivals.max_message();
        let packet = self.config.cut.packet_bytes();
        if want.framing == Framing::Datagram && longest > packet {
            let why = format!(
                "a message of {longest} bytes is to be one datagram, and those have up to {packet}: \
                 send shorter ones, or choose fragments"
            );
            return Err(denied("datagram", why, None));
        }
        let mut entry = Entry { uid: asker.uid, want: want.clone(), channel: None, rate: None };
        match (want.direction, want.delay_bound) {
            (Direction::Send, Some(bound)) => self.promise(want, bound, &mut entry, steps)?,
            (Direction::Send, None) => {
                self.share.sender_comes();
                self.best_effort += 1;
            }
            (Direction::Receive, Some(_)) => {
                let added = self.processor.add_receiving(want.arrivals, &self.above);
                added.map_err(|why| denied("processor", why, None))?;
            }
            (Direction::Receive, None) => {}
        }
        let sum = self.users.entry(asker.uid).or_default();
        sum.channels += 1;
        sum.bytes += server::bytes(want.geometry());
        sum.bps += entry.rate.map_or(0, BitRate::bits_per_second);
        self.entries.insert(id, entry);
        Ok(())
    }

    /// In place of what is entered as `id`. A refusal changes nothing.
    pub fn change(
        &mut self,
        id: GrantId,
        asker: &Asker,
        want: &WantedChannel,
    ) -> Result<(), Box<Refusal>> {
        let Some(before) = self.entries.get(&id).cloned() else {
            return Err(denied("quota", "there is no such channel".into(), None));
        };
        self.release(id);
        self.admit(id, asker, want).inspect_err(|_| {
            let asker = Asker { uid: before.uid, ..asker.clone() };
            // It was there a moment ago, and nothing came in between.
            let back = self.enter(id, &asker, &before.want);
            debug_assert!(back.is_ok());
        })
    }

    /// Takes a channel out.
    pub fn release(&mut self, id: GrantId) {
        let Some(entry) = self.entries.remove(&id) else { return };
        match (&entry.channel, entry.rate) {
            (Some(channel), Some(rate)) => {
                self.density.remove(channel);
                self.processor.remove(channel);
                self.share.channel_ends(rate);
            }
            _ if entry.want.direction == Direction::Send => {
                self.share.sender_goes();
                self.best_effort -= 1;
            }
            _ if entry.want.delay_bound.is_some() => {
                self.processor.remove_receiving(entry.want.arrivals);
            }
            _ => {}
        }
        if let Some(sum) = self.users.get_mut(&entry.uid) {
            sum.channels -= 1;
            sum.bytes -= server::bytes(entry.want.geometry());
            sum.bps -= entry.rate.map_or(0, BitRate::bits_per_second);
            if sum.channels == 0 {
                self.users.remove(&entry.uid);
            }
        }
    }

    /// Returns how many channels a user has, and the bytes of their queues.
    pub fn of_user(&self, uid: u32) -> (u32, u64) {
        self.users.get(&uid).map_or((0, 0), |has| (has.channels, has.bytes))
    }

    /// What is kept for best effort, promised, and left to promise, in bits a second.
    pub fn link_bps(&self) -> (u64, u64, u64) {
        let link = self.config.link.bits_per_second();
        let promised = link - self.share.of_all();
        (link - promised - self.share.available(), promised, self.share.available())
    }

    /// What the channels need of a CPU at most over time, in parts per million.
    pub fn cpu_ppm(&self) -> u64 {
        self.processor.ppm()
    }

    /// How many are entered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What they are promised on.
    pub fn config(&self) -> &ChannelsConfig {
        &self.config
    }

    /// What it takes of the link, headers and all.
    fn rate_of(&self, arrivals: LinearBounded) -> Option<BitRate> {
        BitRate::at_least(self.on_wire(arrivals.max_message()), arrivals.min_inter_arrival())
    }

    /// Bytes on the wire of a message of so many.
    pub fn on_wire(&self, bytes: u32) -> u32 {
        let ChannelsConfig { cut, headers, .. } = &self.config;
        bytes.saturating_add(cut.packets_of(bytes).saturating_mul(*headers))
    }
}
