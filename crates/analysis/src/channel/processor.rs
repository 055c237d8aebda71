//! The most processor time that channels need in any window.
//!
//! The channels' threads run above all upcalls and are not throttled, so they take their time from
//! the upcalls. The upcalls are admitted beneath a reservation of X every Y ([`Egress::cpu`]),
//! which takes at most `U·t + X·(1 − U)` of any window of length t, with `U = X/Y`. So each promise
//! to the upcalls holds if the channels' threads take no more than that. One of two tests has to
//! prove it.
//!
//! # By the window
//! The first test proves that the threads need at most X in any window of length Y. The egress
//! scheduler holds messages until their logical arrivals, which are `I_i` apart, and a message that
//! has arrived leaves within the longest busy time of the link, `B`. So a window of length `Y`
//! holds work of messages that arrived in `Y + B`, at most `(Y + B)/I_i + 1` of channel `i`. With
//! `C_i` the processor's time for a message, `L_i` the link's, and `b` the work in front of them
//! all ([`Egress::once`]):
//!
//! ```text
//! B  =  (b + J + Σ L_i) / (1 − Σ L_i / I_i)
//! work in Y  ≤  (Y + B)·Σ C_i / I_i  +  Σ C_i
//! ```
//!
//! `J` is the time for which reservations may keep the thread from running, twice their budgets;
//! their share of the processor also counts as load of the link. A second limit on the packets is
//! the time that link and processor have for them: each packet is at least as long as the shortest
//! declared one, and one block may catch up on a late one.
//!
//! A part of the budget is kept for best effort. The receiving thread reads no more datagrams of a
//! channel than its [`ReadLimit`] allows: with `σ` the processor's time for all bursts and `ρ` that
//! for their rates, it begins reads of at most `σ + ρ·t` in any window of length t. Those that it
//! had begun before the window are done at most `R` late, its longest busy time: reservations and
//! sending are above it, and it reads less than its limit allows in that time.
//!
//! ```text
//! R  =  (J + B·Σ C_i / I_i + Σ C_i + σ) / (1 − Σ C_i / I_i − ρ − reservations)
//! reading in Y  ≤  σ + ρ·(Y + R)
//! ```
//!
//! Many channels with long spacings fail by `Σ C_i`, because all may send at once. A budget of half
//! a millisecond is a dozen packets.
//!
//! # By the pace
//! The egress scheduler begins no packet sooner than `p` after the previous one was due
//! ([`Egress::pace`]), so those dozen packets and all that follow leave one by one. With `C` of the
//! processor for a packet and blocks of up to `P` packets, sending takes at most
//! `(C/p)·t + 2·P·C·(1 − C/p) + C` of any window, for any number of channels with best effort
//! beside them: `punctual_policy::egress` proves it. The pace delays packets, and the delay bounds
//! include that (`analysis::channel::egress`). Two kinds of work are not paced. A look at a ring
//! whose bell rang takes `h`, [`LOOK`], once for each of `n` channels; later looks are part of `C`.
//! Reads take `σ` and the rate `ρ` here too, up to `D` late, the longest time in which the threads
//! catch up. So for every `t`, by rate and by burst:
//!
//! ```text
//! C/p + ρ  ≤  U
//! 2·P·C·(1 − C/p) + C + n·h + σ + ρ·D  ≤  X·(1 − U)
//! D  =  (J + 2·P·C + C + n·h + σ) / (1 − C/p − ρ − reservations)
//! ```
//!
//! The sum of both lines is the promise. Over time, the channels' packets must also fit into the
//! pace beside the part of it that is kept for best effort.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use punctual_model::channel::{Channel, ReadLimit};
use punctual_model::{Duration, Reservation, Service};

use super::egress::{Egress, LOOK};

/// 1.0 in the units of shares.
const ONE: u128 = 1 << 64;

/// The processor time that the channels of an egress scheduler need.
#[derive(Clone, Debug)]
pub struct Processor {
    egress: Egress,
    /// The part of the budget that is kept for best effort, in parts per million.
    best_effort_ppm: u32,
    received_packet: Service,
    sums: Sums,
    /// Sums over the receiving channels; `work` is that of all datagrams read at once.
    receiving: Sums,
    /// The number of channels with each shortest packet, in bytes.
    shortest: BTreeMap<u32, u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// `Σ C_i` and `Σ L_i`, in nanoseconds.
    work: u64,
    link: u64,
    /// The number of channels.
    channels: u64,
    /// `Σ C_i / I_i` and `Σ L_i / I_i`, in 2⁻⁶⁴, each rounded up.
    work_share: u128,
    link_share: u128,
}

impl Sums {
    fn with(self, one: Self) -> Self {
        Self {
            work: self.work.saturating_add(one.work),
            link: self.link.saturating_add(one.link),
            channels: self.channels + one.channels,
            work_share: self.work_share.saturating_add(one.work_share),
            link_share: self.link_share.saturating_add(one.link_share),
        }
    }

    /// Returns the processor's work in a window: all at once, and more over time.
    fn work_in(self, window: u128) -> u64 {
        let over_time = window.saturating_mul(self.work_share).div_ceil(ONE);
        u64::try_from(over_time).unwrap_or(u64::MAX).saturating_add(self.work)
    }
}

impl Processor {
    /// Starts without channels on `egress`. `best_effort_ppm` of its budget, at most a million, is
    /// kept for best effort; receiving a packet takes `received_packet`.
    pub fn new(egress: Egress, best_effort_ppm: u32, received_packet: Service) -> Self {
        let (sums, receiving, shortest) = Default::default();
        Self { egress, best_effort_ppm, received_packet, sums, receiving, shortest }
    }

    /// Adds a sending channel if the processor has enough time for it beneath the reservations
    /// `above`.
    ///
    /// # Errors
    /// Fails with one clause that holds the numbers, and a sufficient budget if there is one with
    /// the same period.
    pub fn add(&mut self, channel: &Channel, above: &[Reservation]) -> Result<(), String> {
        let one = self.of(channel);
        // Beyond this point no further test is needed, and no sum overflows.
        if one.link_share > ONE || self.sums.link_share + one.link_share > ONE {
            let with = Sums {
                channels: self.sums.channels + 1,
                work_share: self.sums.work_share.saturating_add(one.work_share),
                ..self.sums
            };
            let mut why =
                "channels ask for more of the link and the processor than there is".into();
            self.add_remedy(&mut why, with, self.receiving, above);
            return Err(why);
        }
        let with = self.sums.with(one);
        let short = self.shortest_of(channel);
        let least = self.shortest.keys().next().map_or(short, |least| short.min(*least));
        self.within_budget(with, self.receiving, least, above)?;
        self.put_back(channel);
        Ok(())
    }

    /// Restores a removed channel, provided that no other channel changed meanwhile.
    pub fn put_back(&mut self, channel: &Channel) {
        self.sums = self.sums.with(self.of(channel));
        *self.shortest.entry(self.shortest_of(channel)).or_default() += 1;
    }

    /// Removes a channel that was added.
    pub fn remove(&mut self, channel: &Channel) {
        let one = self.of(channel);
        self.sums = Sums {
            work: self.sums.work - one.work,
            link: self.sums.link - one.link,
            channels: self.sums.channels - 1,
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

    /// Adds a receiving channel if the processor has enough time for it.
    ///
    /// # Errors
    /// Fails like [`Self::add`].
    pub fn add_receiving(&mut self, limit: ReadLimit, above: &[Reservation]) -> Result<(), String> {
        let with = self.receiving.with(self.of_receiving(limit));
        let least = self.shortest.keys().next().copied().unwrap_or(u32::MAX);
        self.within_budget(self.sums, with, least, above)?;
        self.receiving = with;
        Ok(())
    }

    /// Restores a removed receiving channel, provided that no other channel changed meanwhile.
    pub fn put_back_receiving(&mut self, limit: ReadLimit) {
        self.receiving = self.receiving.with(self.of_receiving(limit));
    }

    /// Removes a receiving channel that was added.
    pub fn remove_receiving(&mut self, limit: ReadLimit) {
        let one = self.of_receiving(limit);
        self.receiving.work -= one.work;
        self.receiving.work_share -= one.work_share;
    }

    /// Checks that the processor has enough time for all channels beneath these reservations.
    ///
    /// # Errors
    /// Says what is short.
    pub fn holds(&self, above: &[Reservation]) -> Result<(), String> {
        let least = self.shortest.keys().next().copied().unwrap_or(u32::MAX);
        self.within_budget(self.sums, self.receiving, least, above)
    }

    fn within_budget(
        &self,
        sending: Sums,
        receiving: Sums,
        least: u32,
        above: &[Reservation],
    ) -> Result<(), String> {
        let cpu = self.egress.cpu();
        let sent = self.in_window(sending, above).min(self.as_fast_as_the_link(least));
        let came = self.read_in_window(sending, receiving, above);
        let work = sent.saturating_add(came);
        let most = cpu.budget().as_nanos();
        let best_effort = u128::from(self.best_effort_ppm);
        let most = most - (u128::from(most) * best_effort / 1_000_000) as u64;
        if work <= most || self.holds_by_pace(cpu, sending, receiving, above) {
            return Ok(());
        }
        let mut why = format!(
            "channels could need {} of a CPU within {}, and their threads have {} for them",
            Service::from_nanos(work),
            cpu.period(),
            Service::from_nanos(most)
        );
        self.add_remedy(&mut why, sending, receiving, above);
        Err(why)
    }

    /// Returns whether paced sending and the receiving beside it stay within `cpu` in every window.
    fn holds_by_pace(
        &self,
        cpu: Reservation,
        sending: Sums,
        receiving: Sums,
        above: &[Reservation],
    ) -> bool {
        let Some(pace) = self.egress.pace_with(cpu) else { return false };
        let (work, pace) = (u128::from(self.per_packet()), u128::from(pace.as_nanos()));
        let (x, y) = (u128::from(cpu.budget().as_nanos()), u128::from(cpu.period().as_nanos()));
        // No budget is above its period, and no pace is below a packet's time.
        let (paced, whole) = ((work * ONE).div_ceil(pace), x * ONE / y);
        let by_rate = paced.saturating_add(receiving.work_share) <= whole;
        let part = 1_000_000 - u128::from(self.best_effort_ppm);
        let fits_the_pace = sending.work_share <= work * ONE / pace / 1_000_000 * part;
        if !(by_rate && fits_the_pace) {
            return false;
        }
        let blocks = 2 * u128::from(self.egress.cut().packets_per_block()) * work;
        let looks = u128::from(sending.channels) * u128::from(LOOK.as_nanos());
        let bursts = looks + u128::from(receiving.work);
        let (share_above, kept_from_running) = taken_by(above);
        let busy = paced + receiving.work_share + share_above;
        let once = u128::from(kept_from_running) + blocks + work + bursts;
        let Some(late) = within(once, busy) else { return false };
        let late = late.saturating_mul(receiving.work_share).div_ceil(ONE);
        let at_once = (blocks * (pace - work)).div_ceil(pace) + work;
        let at_once = at_once.saturating_add(bursts);
        at_once.saturating_add(late) <= x * (y - x) / y
    }

    /// Appends that the pace does not help either, and the `[channels] cpu` that would be enough,
    /// if a larger budget with the same period is.
    fn add_remedy(&self, why: &mut String, sending: Sums, receiving: Sums, above: &[Reservation]) {
        let Some(pace) = self.egress.pace() else { return };
        why.push_str(&format!("; nor do they fit one after another, a packet every {pace}"));
        let cpu = self.egress.cpu();
        let with = |nanos| Reservation::new(Service::from_nanos(nanos), cpu.period()).ok();
        let holds = |nanos| {
            with(nanos).is_some_and(|cpu| self.holds_by_pace(cpu, sending, receiving, above))
        };
        let (has, period) = (cpu.budget().as_nanos(), cpu.period().as_nanos());
        // In hundredths of the period: a larger budget for the rate leaves less for bursts.
        let part = |hundredths: u64| (u128::from(period) * u128::from(hundredths) / 100) as u64;
        let found = (1..100).map(part).find(|nanos| *nanos > has && holds(*nanos)).and_then(with);
        if let Some(cpu) = found {
            why.push_str(&format!("; `cpu = \"{cpu}\"` would be enough of it"));
        }
    }

    /// Returns the CPU share that is left for sending best effort, in parts per million.
    pub fn left_ppm(&self) -> u64 {
        let all = self.egress.cpu().utilisation_ppm();
        let least = all * u64::from(self.best_effort_ppm) / 1_000_000;
        all.saturating_sub(self.ppm()).max(least)
    }

    /// Returns the CPU share that all channels need over time, in parts per million.
    pub fn ppm(&self) -> u64 {
        let share = self.sums.work_share.saturating_add(self.receiving.work_share);
        u64::try_from(share.saturating_mul(1_000_000).div_ceil(ONE)).unwrap_or(u64::MAX)
    }

    fn in_window(&self, sums: Sums, above: &[Reservation]) -> u64 {
        if sums.work == 0 {
            return 0;
        }
        let Some(busy) = self.link_is_busy(sums, above) else { return u64::MAX };
        let window = busy.saturating_add(self.egress.cpu().period().as_nanos().into());
        sums.work_in(window)
    }

    /// Returns `B`, the longest busy time of the link, or `None` if it can be busy forever.
    fn link_is_busy(&self, sums: Sums, above: &[Reservation]) -> Option<u128> {
        if sums.work == 0 {
            return Some(0);
        }
        let (share_above, above) = taken_by(above);
        let once = self.egress.once().as_nanos().saturating_add(above);
        let once = u128::from(once.saturating_add(sums.link));
        within(once, sums.link_share.saturating_add(share_above))
    }

    /// Returns the most work of reading in a window of the budget's period.
    fn read_in_window(&self, sending: Sums, receiving: Sums, above: &[Reservation]) -> u64 {
        if receiving.work == 0 {
            return 0;
        }
        let (share_above, kept_from_running) = taken_by(above);
        let busy = self.link_is_busy(sending, above).and_then(|link| {
            let sent = u128::from(sending.work_in(link));
            let once = u128::from(kept_from_running) + sent + u128::from(receiving.work);
            let shares = sending.work_share.saturating_add(receiving.work_share);
            within(once, shares.saturating_add(share_above))
        });
        let Some(busy) = busy else { return u64::MAX };
        receiving.work_in(busy.saturating_add(self.egress.cpu().period().as_nanos().into()))
    }

    fn as_fast_as_the_link(&self, least: u32) -> u64 {
        // While one packet is on the wire, the next is handed over.
        let one =
            self.egress.link().transmission_time(least).as_nanos().max(self.per_packet()).max(1);
        let packets = self.egress.cpu().period().as_nanos() / one + 1;
        let caught_up = u64::from(self.egress.cut().packets_per_block());
        packets.saturating_add(caught_up).saturating_mul(self.per_packet())
    }

    fn of(&self, channel: &Channel) -> Sums {
        let arrivals = channel.arrivals();
        let work = u64::from(self.packets_of(channel)).saturating_mul(self.per_packet());
        let link = self.egress.time_of(arrivals.max_message()).as_nanos();
        let every = arrivals.min_inter_arrival();
        let share = |nanos| share(Service::from_nanos(nanos), every);
        Sums { work, link, channels: 1, work_share: share(work), link_share: share(link) }
    }

    fn of_receiving(&self, limit: ReadLimit) -> Sums {
        let work = self.received_packet;
        Sums {
            work: work.as_nanos().saturating_mul(limit.burst()),
            work_share: share(work, limit.spacing()),
            ..Sums::default()
        }
    }

    fn per_packet(&self) -> u64 {
        self.egress.per_packet().as_nanos()
    }

    fn packets_of(&self, channel: &Channel) -> u32 {
        self.egress.cut().packets_of(channel.arrivals().max_message())
    }

    /// Returns the channel's shortest packet: the shortest message if all fit in one packet, else
    /// one byte, because a last packet may be as short.
    fn shortest_of(&self, channel: &Channel) -> u32 {
        match self.packets_of(channel) {
            1 => channel.arrivals().min_message(),
            _ => 1,
        }
    }
}

/// Returns the time in which `once` and `share` of all time are done, or `None` if they never are.
fn within(once: u128, share: u128) -> Option<u128> {
    let idle = ONE.checked_sub(share).filter(|idle| *idle > 0)?;
    // A sum of a few 64-bit numbers, and its quotient by at least 2⁻⁶⁴.
    once.checked_mul(ONE).map(|once| once.div_ceil(idle))
}

/// Returns the share of reservations, and the time for which they may keep a thread from running:
/// twice their budgets.
fn taken_by(above: &[Reservation]) -> (u128, u64) {
    let shares = above.iter().map(|one| share(one.budget(), one.period())).sum();
    let budgets = above.iter().map(|one| one.budget().as_nanos());
    (shares, budgets.fold(0, u64::saturating_add).saturating_mul(2))
}

/// Returns the share, rounded up; no period is zero.
fn share(work: Service, every: Duration) -> u128 {
    (u128::from(work.as_nanos()) * ONE).div_ceil(u128::from(every.as_nanos()))
}
