//! What channels need of the processor, at most, in any window of one length.
//!
//! The outlet holds messages until their logical arrivals, which are `I_i` apart, and what has arrived
//! leaves within the longest busy time of the link, `B`. So a window of length `Y` holds work of
//! messages that arrived in `Y + B`, at most `(Y + B)/I_i + 1` of channel `i`. With `C_i` the
//! processor's time for a message, `L_i` the link's, and `b` the longest packet:
//!
//! ```text
//! B  =  (2·b + J + Σ L_i) / (1 − Σ L_i / I_i)
//! work in Y  ≤  (Y + B)·Σ C_i / I_i  +  Σ C_i
//! ```
//!
//! `J` is for how long reservations may keep the thread from running, twice their budgets, and their part
//! of the processor counts as the link's too. And no more packets leave than link and processor have time
//! for, each at least as long as the shortest that is declared, beside one block that makes up for a late
//! one. Of a channel that receives, `Y/I_i` messages and its burst come, by its policer's leave.
//!
//! A part of the budget stays for best effort.

use std::collections::BTreeMap;

use punctual_analysis::channel::outlet::time_of;
use punctual_model::channel::{Channel, LinearBounded, Link, Packetisation, Sender};
use punctual_model::{Duration, Reservation, Service};

use super::super::denied;
use super::super::terms::Denied;
use crate::config::ChannelsConfig;

/// One, in the units of shares.
const ONE: u128 = 1 << 64;

#[derive(Clone, Debug)]
pub(super) struct Processor {
    sender: Sender,
    /// Without the processor's time.
    link: Link,
    cut: Packetisation,
    per_packet: u64,
    /// Of one that comes in.
    per_packet_received: u64,
    budget: Reservation,
    best_effort_ppm: u64,
    sums: Sums,
    /// Of channels that receive: `work` is that of their bursts and one more.
    receiving: Sums,
    /// How many channels have which shortest packet, in bytes.
    shortest: BTreeMap<u32, u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// `Σ C_i` and `Σ L_i`, in nanoseconds.
    work: u64,
    link: u64,
    /// `Σ C_i / I_i` and `Σ L_i / I_i`, in 2⁻⁶⁴, each rounded up.
    work_share: u128,
    link_share: u128,
}

impl Processor {
    /// `sender` is what admission is told: its link takes the processor's time too.
    pub(super) fn new(sender: Sender, link: Link, config: &ChannelsConfig) -> Self {
        let (sums, receiving, shortest) = Default::default();
        Self {
            sender,
            link,
            cut: config.cut,
            per_packet: config.per_packet.as_nanos(),
            per_packet_received: config.received_packet().as_nanos(),
            budget: config.cpu,
            best_effort_ppm: config.best_effort_ppm.into(),
            sums,
            receiving,
            shortest,
        }
    }

    /// A channel that sends comes, if there is processor enough beneath these reservations.
    pub(super) fn add(&mut self, channel: &Channel, above: &[Reservation]) -> Result<(), Denied> {
        let one = self.of(channel);
        // Beyond this nothing below needs to be looked at, and no sum here is too large to be kept.
        if one.link_share > ONE || self.sums.link_share + one.link_share > ONE {
            let why = "channels ask for more of the link and the processor than there is".into();
            return Err(denied("processor", why, None));
        }
        let with = Sums {
            work: self.sums.work.saturating_add(one.work),
            link: self.sums.link.saturating_add(one.link),
            work_share: self.sums.work_share + one.work_share,
            link_share: self.sums.link_share + one.link_share,
        };
        let short = self.shortest_of(channel);
        let least = self.shortest.keys().next().map_or(short, |least| short.min(*least));
        self.within_budget(with, self.receiving, least, above)?;
        self.sums = with;
        *self.shortest.entry(short).or_default() += 1;
        Ok(())
    }

    /// A channel that had come goes.
    pub(super) fn remove(&mut self, channel: &Channel) {
        let one = self.of(channel);
        self.sums = Sums {
            work: self.sums.work - one.work,
            link: self.sums.link - one.link,
            work_share: self.sums.work_share - one.work_share,
            link_share: self.sums.link_share - one.link_share,
        };
        let short = self.shortest_of(channel);
        if let Some(count) = self.shortest.get_mut(&short) {
            *count -= 1;
            if *count == 0 {
                self.shortest.remove(&short);
            }
        }
    }

    /// A channel that receives comes, if there is processor enough.
    pub(super) fn add_receiving(
        &mut self,
        arrivals: LinearBounded,
        above: &[Reservation],
    ) -> Result<(), Denied> {
        let one = self.of_receiving(arrivals);
        let with = Sums {
            work: self.receiving.work.saturating_add(one.work),
            work_share: self.receiving.work_share.saturating_add(one.work_share),
            ..self.receiving
        };
        let least = self.shortest.keys().next().copied().unwrap_or(u32::MAX);
        self.within_budget(self.sums, with, least, above)?;
        self.receiving = with;
        Ok(())
    }

    /// One that had come goes.
    pub(super) fn remove_receiving(&mut self, arrivals: LinearBounded) {
        let one = self.of_receiving(arrivals);
        self.receiving.work -= one.work;
        self.receiving.work_share -= one.work_share;
    }

    /// Whether there is enough for all beneath these reservations.
    pub(super) fn holds(&self, above: &[Reservation]) -> bool {
        let least = self.shortest.keys().next().copied().unwrap_or(u32::MAX);
        self.within_budget(self.sums, self.receiving, least, above).is_ok()
    }

    fn within_budget(
        &self,
        sending: Sums,
        receiving: Sums,
        least: u32,
        above: &[Reservation],
    ) -> Result<(), Denied> {
        let period = u128::from(self.budget.period().as_nanos());
        let sent = self.in_window(sending, above).min(self.as_fast_as_the_link(least));
        let came = period.saturating_mul(receiving.work_share).div_ceil(ONE);
        let came = u64::try_from(came).unwrap_or(u64::MAX).saturating_add(receiving.work);
        let work = sent.saturating_add(came);
        let most = self.budget.budget().as_nanos();
        let most = most - (u128::from(most) * u128::from(self.best_effort_ppm) / 1_000_000) as u64;
        if work > most {
            let why = format!(
                "channels could need {} of a CPU within {}, and their threads have {} for them",
                Service::from_nanos(work),
                self.budget.period(),
                Service::from_nanos(most)
            );
            return Err(denied("processor", why, None));
        }
        Ok(())
    }

    /// Of a CPU, what is left for best effort that is sent: in parts per million.
    pub(super) fn left_ppm(&self) -> u64 {
        let all = self.budget.utilisation_ppm();
        all.saturating_sub(self.ppm()).max(all * self.best_effort_ppm / 1_000_000)
    }

    /// Over time, of a CPU in parts per million.
    pub(super) fn ppm(&self) -> u64 {
        let share = self.sums.work_share.saturating_add(self.receiving.work_share);
        u64::try_from(share.saturating_mul(1_000_000).div_ceil(ONE)).unwrap_or(u64::MAX)
    }

    fn in_window(&self, sums: Sums, above: &[Reservation]) -> u64 {
        if sums.work == 0 {
            return 0;
        }
        let share_above: u128 = above.iter().map(|one| share(one.budget(), one.period())).sum();
        let budgets = above.iter().map(|one| one.budget().as_nanos());
        let above = budgets.fold(0, u64::saturating_add).saturating_mul(2);
        let busy = sums.link_share.saturating_add(share_above);
        let Some(idle) = ONE.checked_sub(busy).filter(|idle| *idle > 0) else {
            return u64::MAX;
        };
        let packet = self.sender.packetisation.packet_bytes();
        let longest = self.sender.link.transmission_time(packet).as_nanos();
        let once = longest.saturating_mul(2).saturating_add(above);
        let busy = u128::from(once.saturating_add(sums.link)) * ONE / idle + 1;
        let window = busy.saturating_add(self.budget.period().as_nanos().into());
        let over_time = window.saturating_mul(sums.work_share).div_ceil(ONE);
        u64::try_from(over_time).unwrap_or(u64::MAX).saturating_add(sums.work)
    }

    fn as_fast_as_the_link(&self, least: u32) -> u64 {
        // While one is on the wire the next is handed over.
        let one = self.link.transmission_time(least).as_nanos().max(self.per_packet).max(1);
        let packets = self.budget.period().as_nanos() / one + 1;
        let caught_up = u64::from(self.cut.packets_per_block());
        packets.saturating_add(caught_up).saturating_mul(self.per_packet)
    }

    fn of(&self, channel: &Channel) -> Sums {
        let arrivals = channel.arrivals();
        let work = u64::from(self.packets_of(channel)).saturating_mul(self.per_packet);
        let link = time_of(&self.sender, arrivals.max_message()).as_nanos();
        let every = arrivals.min_inter_arrival();
        let share = |nanos| share(Service::from_nanos(nanos), every);
        Sums { work, link, work_share: share(work), link_share: share(link) }
    }

    fn of_receiving(&self, arrivals: LinearBounded) -> Sums {
        let work = u64::from(self.cut.packets_of(arrivals.max_message()));
        let work = work.saturating_mul(self.per_packet_received);
        let at_once = u64::from(arrivals.max_burst()).saturating_add(1);
        Sums {
            work: work.saturating_mul(at_once),
            work_share: share(Service::from_nanos(work), arrivals.min_inter_arrival()),
            ..Sums::default()
        }
    }

    fn packets_of(&self, channel: &Channel) -> u32 {
        self.cut.packets_of(channel.arrivals().max_message())
    }

    /// Of messages of one packet the shortest; of others a last packet may be a byte.
    fn shortest_of(&self, channel: &Channel) -> u32 {
        match self.packets_of(channel) {
            1 => channel.arrivals().min_message(),
            _ => 1,
        }
    }
}

/// Rounded up; no period is zero.
fn share(work: Service, every: Duration) -> u128 {
    (u128::from(work.as_nanos()) * ONE).div_ceil(u128::from(every.as_nanos()))
}
