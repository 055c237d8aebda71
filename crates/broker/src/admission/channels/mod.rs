//! Channels in the admission state: their users, and the tests before those of the system.
//!
//! Pure, like the rest of the admission state. CPU, link and buffers are one decision, in this
//! order:
//! 1. `quota`: of the user: whether channels at all, how many, how much of the link and of queue
//!    memory.
//! 2. `room`: the most channels; `datagram`: a message that is to be one datagram fits in one.
//! 3. Those of [`System`](punctual_analysis::System): `link`, `channel-delay` and `processor`. It
//!    knows the reservations of the host, and refuses one by `channels` if a channel beneath it
//!    would be late.
//!
//! Buffers are memory that the broker makes, up to `want::MAX_QUEUE` a channel and as much of it as
//! each user's quota allows.

pub(super) mod entries;
mod offers;
mod quota;
#[cfg(test)]
mod tests;

use punctual_analysis::{Exchange, Refusal, Request, Steps, System};
use punctual_model::channel::{BitRate, Channel, Direction, LinearBounded, ReadLimit};
use punctual_model::{Duration, Instant};

use self::entries::{ChannelEntries, Entry};
use super::AdmissionState;
use super::terms::{Requester, denied};
use crate::config::ChannelsConfig;
use punctual_client::grant::GrantId;
use punctual_client::want::WantedChannel;

/// A counter-offer, in words and as a complete request.
pub type ChannelOffer = (String, WantedChannel);

/// A change of a channel, which [`AdmissionState::undo_channel`] undoes.
#[derive(Debug)]
pub struct ChannelChange {
    id: GrantId,
    before: Entry,
    exchange: Exchange<GrantId>,
}

impl AdmissionState {
    /// Carries channels from here on as `config` says, and sets aside the CPU share of their
    /// threads, above all upcalls of every CPU.
    pub fn carry_channels(&mut self, config: ChannelsConfig) -> Result<(), Box<Refusal>> {
        self.system.carry(config.carrier(), &mut Steps::new(self.steps))?;
        self.channels = Some(ChannelEntries::new(config));
        Ok(())
    }

    /// Takes over the channels of `before`, before anything else is entered. Returns the reasons
    /// why some promises to them no longer hold: the channels are carried all the same.
    pub fn take_over_channels(&mut self, before: &Self) -> Vec<Box<Refusal>> {
        let Some(channels) = &before.channels else { return Vec::new() };
        let mut broken = Vec::new();
        if let Err(refusal) = self.carry_channels(channels.config.clone()) {
            self.system.carry_with_nothing_set_aside(channels.config.carrier());
            self.channels = Some(ChannelEntries::new(channels.config.clone()));
            broken.push(refusal);
        }
        for (id, entry) in &channels.entries {
            broken.extend(self.enter_channel(*id, entry.uid, &entry.want).err());
        }
        broken
    }

    /// Enters `want` as `id` if it fits. `id` must not be entered already.
    pub fn admit_channel(
        &mut self,
        id: GrantId,
        requester: &Requester,
        want: &WantedChannel,
    ) -> Result<(), Box<Refusal>> {
        self.within_channel_quota(requester, want)?;
        self.enter_channel(id, requester.uid, want)
    }

    /// Enters a channel that was granted to a user before, whatever the quota says today.
    pub fn enter_channel(
        &mut self,
        id: GrantId,
        uid: u32,
        want: &WantedChannel,
    ) -> Result<(), Box<Refusal>> {
        let steps = &mut Steps::new(self.steps);
        self.asking(want, |system, request| system.admit(id, request, steps).map(drop))?;
        self.count_channel(id, uid, want);
        Ok(())
    }

    /// Enters `want` in place of the channel `id`. If it does not fit, `id` keeps its contract. What
    /// the old contract has more counts as long as it affects others ([`System::change`]). The
    /// change can be undone until something else changes.
    ///
    /// [`System::change`]: punctual_analysis::System::change
    pub fn change_channel(
        &mut self,
        id: GrantId,
        requester: &Requester,
        want: &WantedChannel,
        now: Instant,
    ) -> Result<ChannelChange, Box<Refusal>> {
        self.catch_up(now);
        let Some(before) = self.channels.as_mut().and_then(|channels| channels.uncount(id)) else {
            return Err(denied("quota", "there is no such channel".into(), None));
        };
        let steps = &mut Steps::new(self.steps);
        let answer = self.within_channel_quota(requester, want).and_then(|()| {
            self.asking(want, |system, request| system.try_change(id, request, Some(now), steps))
        });
        let exchange = match answer {
            Ok(exchange) => exchange,
            Err(refusal) => {
                self.count_again(id, before);
                return Err(refusal);
            }
        };
        self.count_channel(id, requester.uid, want);
        // The old contract is in force until the thread has looked for the new one.
        let looks_within = self.system.carried().map(|one| one.carrier().egress.looks_within());
        let changed = now.saturating_add(looks_within.unwrap_or(Duration::ZERO));
        self.system.postpone(now, changed);
        Ok(ChannelChange { id, before, exchange })
    }

    /// Gives a channel back what it was before `change`, since which only the time may have changed.
    pub fn undo_channel(&mut self, change: ChannelChange) {
        let ChannelChange { id, before, exchange } = change;
        self.system.undo(exchange);
        self.channels.iter_mut().for_each(|channels| _ = channels.uncount(id));
        self.count_again(id, before);
    }

    /// Takes a channel out whose last message counts as arrived no later than at `now`. It stays
    /// counted as long as it affects others ([`System::retire`]).
    ///
    /// [`System::retire`]: punctual_analysis::System::retire
    pub fn release_channel(&mut self, id: GrantId, now: Instant) {
        if self.channels.as_mut().and_then(|channels| channels.uncount(id)).is_some() {
            self.system.retire(id, now);
        }
    }

    /// Takes a channel out that has carried nothing.
    pub fn withdraw_channel(&mut self, id: GrantId) {
        if self.channels.as_mut().and_then(|channels| channels.uncount(id)).is_some() {
            self.system.release(id);
        }
    }

    /// Returns how many channels a user has, and the bytes of their queues.
    pub fn channels_of_user(&self, uid: u32) -> (u32, u64) {
        let has = self.channels.as_ref().and_then(|channels| channels.users.get(&uid));
        has.map_or((0, 0), |has| (has.channels, has.bytes))
    }

    /// Returns the rates that are kept for best effort, promised, and left to promise, in bits a
    /// second.
    pub fn link_bps(&self) -> (u64, u64, u64) {
        self.system.carried().map_or((0, 0, 0), |carried| {
            (carried.carrier().kept_bps(), carried.promised_bps(), carried.available_bps())
        })
    }

    /// Returns the most that the channels need of a CPU over time, in parts per million.
    pub fn channels_ppm(&self) -> u64 {
        self.system.carried().map_or(0, punctual_analysis::CarrierLoad::cpu_ppm)
    }

    /// Returns how many channels are entered.
    pub fn channel_count(&self) -> usize {
        self.channels.as_ref().map_or(0, |channels| channels.entries.len())
    }

    /// Returns each best-effort sender's rate on the link, in bits a second: everything that is not
    /// promised to channels, divided equally (L4ATM, §2.3).
    pub fn best_effort_bps(&self) -> u64 {
        self.best_effort_share().0
    }

    /// Returns each best-effort sender's share: of the link in bits a second, and of a CPU in parts
    /// per million.
    pub fn best_effort_share(&self) -> (u64, u64) {
        let Some((channels, carried)) = self.channels.as_ref().zip(self.system.carried()) else {
            return (1, 1);
        };
        let link = carried.carrier().link_bps();
        let senders = u64::from(channels.best_effort);
        let rest = if senders == 0 { 0 } else { link - carried.promised_bps() };
        let bps = rest.div_ceil(senders.max(1));
        let ppm = carried.best_effort_cpu_ppm() / senders.max(1);
        (bps.max(1), ppm.max(1))
    }

    /// Returns the time between two such messages of a best-effort sender: by its share of the link
    /// or of the processor, whichever is longer.
    pub fn best_effort_spacing(&self, arrivals: LinearBounded) -> Duration {
        let Some(carrier) = self.system.carried().map(|carried| *carried.carrier()) else {
            return arrivals.min_inter_arrival();
        };
        let (bps, ppm) = self.best_effort_share();
        let bytes = arrivals.max_message();
        let on_link = u128::from(carrier.on_wire(bytes)) * 8_000_000_000 / u128::from(bps);
        let packets = u128::from(carrier.egress.cut().packets_of(bytes));
        let work = packets * u128::from(carrier.egress.per_packet().as_nanos());
        let on_processor = work * 1_000_000 / u128::from(ppm);
        let longer = on_link.max(on_processor).saturating_add(1);
        Duration::from_nanos(u64::try_from(longer).unwrap_or(u64::MAX))
    }

    fn entries_of_channels(&self) -> Result<&ChannelEntries, Box<Refusal>> {
        let none = || denied("link", "this host carries no channels".into(), None);
        self.channels.as_ref().ok_or_else(none)
    }

    fn count_channel(&mut self, id: GrantId, uid: u32, want: &WantedChannel) {
        let promised = want.direction == Direction::Send && want.delay_bound.is_some();
        let rate = self.system.carried().filter(|_| promised);
        let rate = rate.and_then(|carried| carried.carrier().rate_of(want.arrivals));
        let bps = rate.map_or(0, BitRate::bits_per_second);
        if let Some(channels) = &mut self.channels {
            channels.count(id, Entry { uid, want: want.clone(), bps });
        }
    }

    fn count_again(&mut self, id: GrantId, before: Entry) {
        if let Some(channels) = &mut self.channels {
            channels.count(id, before);
        }
    }

    /// Passes `want` to `ask` in the terms of the analysis, if there is room for it.
    fn asking<T>(
        &mut self,
        want: &WantedChannel,
        ask: impl FnOnce(&mut System<GrantId>, Request<'_>) -> Result<T, Box<Refusal>>,
    ) -> Result<T, Box<Refusal>> {
        let channels = self.entries_of_channels()?;
        channels.has_room(want)?;
        match (want.direction, want.delay_bound) {
            (Direction::Send, Some(bound)) => {
                let channel = Channel::new(want.name.clone(), &want.arrivals.into(), bound);
                let why = |_| denied("channel-delay", format!("a delay bound of {bound}"), None);
                ask(&mut self.system, Request::Sending(&channel.map_err(why)?))
            }
            (Direction::Receive, Some(_)) => {
                // Messages in fragments come in packets.
                let packet = channels.config.cut.packet_bytes();
                let limit = ReadLimit::of(want.arrivals, want.framing, packet);
                ask(&mut self.system, Request::Receiving(limit))
            }
            (direction, None) => ask(&mut self.system, Request::BestEffort(direction)),
        }
    }
}
