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
//! `J` is for how long reservations may keep the thread from running. And no more packets leave than the
//! link has time for, each at least as long as the shortest that is declared.

use std::collections::BTreeMap;

use punctual_analysis::channel::outlet::time_of;
use punctual_model::channel::{Channel, Packetisation, Sender};
use punctual_model::{Duration, Reservation, Service};

use super::super::denied;
use super::super::terms::Denied;

/// One, in the units of shares.
const ONE: u128 = 1 << 64;

#[derive(Clone, Debug)]
pub(super) struct Processor {
    sender: Sender,
    cut: Packetisation,
    per_packet: u64,
    budget: Reservation,
    sums: Sums,
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
    pub(super) fn new(
        sender: Sender,
        cut: Packetisation,
        per_packet: Service,
        budget: Reservation,
    ) -> Self {
        let per_packet = per_packet.as_nanos();
        let (sums, shortest) = Default::default();
        Self { sender, cut, per_packet, budget, sums, shortest }
    }

    /// A channel comes, if there is processor enough. `above` is `J`.
    pub(super) fn add(&mut self, channel: &Channel, above: Duration) -> Result<(), Denied> {
        let one = self.of(channel);
        let with = Sums {
            work: self.sums.work.saturating_add(one.work),
            link: self.sums.link.saturating_add(one.link),
            work_share: self.sums.work_share + one.work_share,
            link_share: self.sums.link_share + one.link_share,
        };
        let short = self.shortest_of(channel);
        let least = self.shortest.keys().next().map_or(short, |least| short.min(*least));
        let work = self.in_window(with, above).min(self.as_fast_as_the_link(least));
        if work > self.budget.budget().as_nanos() {
            let why = format!(
                "channels could need {} of a CPU within {}, and their threads have {}",
                Service::from_nanos(work),
                self.budget.period(),
                self.budget.budget()
            );
            return Err(denied("processor", why, None));
        }
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

    /// Over time, of a CPU in parts per million.
    pub(super) fn ppm(&self) -> u64 {
        (self.sums.work_share.saturating_mul(1_000_000)).div_ceil(ONE) as u64
    }

    fn in_window(&self, sums: Sums, above: Duration) -> u64 {
        let Some(idle) = ONE.checked_sub(sums.link_share).filter(|idle| *idle > 0) else {
            return u64::MAX;
        };
        let packet = self.sender.packetisation.packet_bytes();
        let longest = self.sender.link.transmission_time(packet).as_nanos();
        let once = longest.saturating_mul(2).saturating_add(above.as_nanos());
        let busy = u128::from(once.saturating_add(sums.link)) * ONE / idle + 1;
        let window = busy.saturating_add(self.budget.period().as_nanos().into());
        let over_time = window.saturating_mul(sums.work_share).div_ceil(ONE);
        u64::try_from(over_time).unwrap_or(u64::MAX).saturating_add(sums.work)
    }

    fn as_fast_as_the_link(&self, least: u32) -> u64 {
        // Of one packet alone, also where a block has more of them.
        let one = self.sender.link.transmission_time(least).as_nanos();
        let one = (one / u64::from(self.cut.packets_per_block())).max(1);
        let packets = self.budget.period().as_nanos() / one + 1;
        packets.saturating_mul(self.per_packet)
    }

    fn of(&self, channel: &Channel) -> Sums {
        let arrivals = channel.arrivals();
        let work = u64::from(self.packets_of(channel)).saturating_mul(self.per_packet);
        let link = time_of(&self.sender, arrivals.max_message()).as_nanos();
        let every = u128::from(arrivals.min_inter_arrival().as_nanos());
        let share = |of: u64| (u128::from(of) * ONE).div_ceil(every);
        Sums { work, link, work_share: share(work), link_share: share(link) }
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
