//! What channels need of the processor, at most, in any window of time.
//!
//! Their threads stand above all upcalls, and nothing throttles them: what they take, upcalls lose. The
//! upcalls are admitted beneath a reservation of X every Y ([`Egress::cpu`]), which takes at most
//! `U·t + X·(1 − U)` of any window of length t, with `U = X/Y`. So each promise made to upcalls holds if
//! the channels' threads take no more than that. One of two tests has to show it.
//!
//! # By the window
//! In no window of length Y do the threads need more than X. The outlet holds messages until their
//! logical arrivals, which are `I_i` apart, and what has arrived leaves within the longest busy time of the
//! link, `B`. So a window of length `Y` holds work of messages that arrived in `Y + B`, at most
//! `(Y + B)/I_i + 1` of channel `i`. With `C_i` the processor's time for a message, `L_i` the link's, and
//! `b` what is in front of them all ([`Egress::once`]):
//!
//! ```text
//! B  =  (b + J + Σ L_i) / (1 − Σ L_i / I_i)
//! work in Y  ≤  (Y + B)·Σ C_i / I_i  +  Σ C_i
//! ```
//!
//! `J` is for how long reservations may keep the thread from running, twice their budgets, and their part
//! of the processor counts as the link's too. And no more packets leave than link and processor have time
//! for, each at least as long as the shortest that is declared, beside one block that makes up for a late
//! one. Of a channel that receives, `Y/I_i` messages and its burst come, by its policer's leave. A part of
//! the budget stays for best effort.
//!
//! `Σ C_i` is what many channels with long spacings fail by: all may send at once. A budget of half a
//! millisecond is a dozen packets.
//!
//! # By the pace
//! The outlet begins no packet sooner than `p` after the one before was due ([`Egress::pace`]), so those
//! dozen packets and all that follow leave one by one. With `C` of the processor for a packet and blocks of
//! up to `P`, what is sent takes at most `(C/p)·t + 2·P·C·(1 − C/p) + C` of any window, of however many channels
//! and best effort beside them: `punctual_policy::egress` proves it. What waits for the pace is late by it,
//! and the delay bounds are admitted so (`analysis::channel::egress`). Two things are
//! not paced. A look at a ring that was rung for takes `h`, [`LOOK`], once for each of `n` channels, and
//! later ones are part of `C`. What channels receive comes with the bursts `σ` and the rate `ρ`. It is taken
//! out of the sockets up to `D` late, the longest time in which the threads catch up. So for every `t`, by
//! rate and by burst:
//!
//! ```text
//! C/p + ρ  ≤  U
//! 2·P·C·(1 − C/p) + C + n·h + σ + ρ·D  ≤  X·(1 − U)
//! D  =  (J + 2·P·C + C + n·h + σ) / (1 − C/p − ρ − reservations)
//! ```
//!
//! The sum of both lines is the promise. And over time the channels' packets fit into the pace, beside best
//! effort's part of it.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;

use punctual_model::channel::{Channel, LinearBounded};
use punctual_model::{Duration, Reservation, Service};

use super::egress::{Egress, LOOK};

/// One, in the units of shares.
const ONE: u128 = 1 << 64;

/// What channels need of the processor of an egress scheduler.
#[derive(Clone, Debug)]
pub struct Processor {
    egress: Egress,
    /// Of the budget, kept for best effort: in parts per million.
    best_effort_ppm: u32,
    received_packet: Service,
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
    /// How many channels.
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
}

impl Processor {
    /// Begins with no channels on `egress`, of whose budget `best_effort_ppm` is kept for best effort, at most a million;
    /// a packet that comes in takes `received_packet`.
    pub fn new(egress: Egress, best_effort_ppm: u32, received_packet: Service) -> Self {
        let (sums, receiving, shortest) = Default::default();
        Self { egress, best_effort_ppm, received_packet, sums, receiving, shortest }
    }

    /// Adds a channel that sends, if there is processor enough beneath these reservations.
    ///
    /// # Errors
    /// One clause with the numbers, and the budget that would do, where one of the same period would.
    pub fn add(&mut self, channel: &Channel, above: &[Reservation]) -> Result<(), String> {
        let one = self.of(channel);
        // Beyond this nothing below needs to be looked at, and no sum here is too large to be kept.
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

    /// Puts back a channel that was taken out while all others stayed as they are.
    pub fn put_back(&mut self, channel: &Channel) {
        self.sums = self.sums.with(self.of(channel));
        *self.shortest.entry(self.shortest_of(channel)).or_default() += 1;
    }

    /// Takes out a channel that was added.
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

    /// Adds a channel that receives, if there is processor enough.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn add_receiving(
        &mut self,
        arrivals: LinearBounded,
        above: &[Reservation],
    ) -> Result<(), String> {
        let with = self.receiving.with(self.of_receiving(arrivals));
        let least = self.shortest.keys().next().copied().unwrap_or(u32::MAX);
        self.within_budget(self.sums, with, least, above)?;
        self.receiving = with;
        Ok(())
    }

    /// Puts back one that was taken out while all others stayed as they are.
    pub fn put_back_receiving(&mut self, arrivals: LinearBounded) {
        self.receiving = self.receiving.with(self.of_receiving(arrivals));
    }

    /// Takes out one that was added.
    pub fn remove_receiving(&mut self, arrivals: LinearBounded) {
        let one = self.of_receiving(arrivals);
        self.receiving.work -= one.work;
        self.receiving.work_share -= one.work_share;
    }

    /// Returns whether there is enough for all beneath these reservations.
    pub fn holds(&self, above: &[Reservation]) -> bool {
        let least = self.shortest.keys().next().copied().unwrap_or(u32::MAX);
        self.within_budget(self.sums, self.receiving, least, above).is_ok()
    }

    fn within_budget(
        &self,
        sending: Sums,
        receiving: Sums,
        least: u32,
        above: &[Reservation],
    ) -> Result<(), String> {
        let cpu = self.egress.cpu();
        let period = u128::from(cpu.period().as_nanos());
        let sent = self.in_window(sending, above).min(self.as_fast_as_the_link(least));
        let came = period.saturating_mul(receiving.work_share).div_ceil(ONE);
        let came = u64::try_from(came).unwrap_or(u64::MAX).saturating_add(receiving.work);
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

    /// Whether what is paced, and what is received beside it, stays within `cpu` in every window.
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
        // No budget is above its period, and no pace below a packet's time.
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
        let Some(idle) = ONE.checked_sub(busy).filter(|idle| *idle > 0) else { return false };
        // Sums of some 64-bit numbers, and a quotient of them by 2⁻⁶⁴ at least.
        let once = u128::from(kept_from_running) + blocks + work + bursts;
        let Some(late) = once.checked_mul(ONE).map(|once| once.div_ceil(idle)) else {
            return false;
        };
        let late = late.saturating_mul(receiving.work_share).div_ceil(ONE);
        let at_once = (blocks * (pace - work)).div_ceil(pace) + work;
        let at_once = at_once.saturating_add(bursts);
        at_once.saturating_add(late) <= x * (y - x) / y
    }

    /// Says that the pace does not help either, and which `[channels] cpu` would do, if only more of the same
    /// period is wanting.
    fn add_remedy(&self, why: &mut String, sending: Sums, receiving: Sums, above: &[Reservation]) {
        let Some(pace) = self.egress.pace() else { return };
        why.push_str(&format!("; nor do they fit one after another, a packet every {pace}"));
        let cpu = self.egress.cpu();
        let with = |nanos| Reservation::new(Service::from_nanos(nanos), cpu.period()).ok();
        let holds = |nanos| {
            with(nanos).is_some_and(|cpu| self.holds_by_pace(cpu, sending, receiving, above))
        };
        let (has, period) = (cpu.budget().as_nanos(), cpu.period().as_nanos());
        // In hundredths of the period: more for the rate leaves less for what comes at once.
        let part = |hundredths: u64| (u128::from(period) * u128::from(hundredths) / 100) as u64;
        let found = (1..100).map(part).find(|nanos| *nanos > has && holds(*nanos)).and_then(with);
        if let Some(cpu) = found {
            why.push_str(&format!("; `cpu = \"{cpu}\"` would be enough of it"));
        }
    }

    /// Returns what of a CPU is left for best effort that is sent, in parts per million.
    pub fn left_ppm(&self) -> u64 {
        let all = self.egress.cpu().utilisation_ppm();
        let least = all * u64::from(self.best_effort_ppm) / 1_000_000;
        all.saturating_sub(self.ppm()).max(least)
    }

    /// Returns what all need of a CPU over time, in parts per million.
    pub fn ppm(&self) -> u64 {
        let share = self.sums.work_share.saturating_add(self.receiving.work_share);
        u64::try_from(share.saturating_mul(1_000_000).div_ceil(ONE)).unwrap_or(u64::MAX)
    }

    fn in_window(&self, sums: Sums, above: &[Reservation]) -> u64 {
        if sums.work == 0 {
            return 0;
        }
        let (share_above, above) = taken_by(above);
        let busy = sums.link_share.saturating_add(share_above);
        let Some(idle) = ONE.checked_sub(busy).filter(|idle| *idle > 0) else {
            return u64::MAX;
        };
        let once = self.egress.once().as_nanos().saturating_add(above);
        let busy = u128::from(once.saturating_add(sums.link)) * ONE / idle + 1;
        let window = busy.saturating_add(self.egress.cpu().period().as_nanos().into());
        let over_time = window.saturating_mul(sums.work_share).div_ceil(ONE);
        u64::try_from(over_time).unwrap_or(u64::MAX).saturating_add(sums.work)
    }

    fn as_fast_as_the_link(&self, least: u32) -> u64 {
        // While one is on the wire the next is handed over.
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

    fn of_receiving(&self, arrivals: LinearBounded) -> Sums {
        let work = u64::from(self.egress.cut().packets_of(arrivals.max_message()));
        let work = work.saturating_mul(self.received_packet.as_nanos());
        let at_once = u64::from(arrivals.max_burst()).saturating_add(1);
        Sums {
            work: work.saturating_mul(at_once),
            work_share: share(Service::from_nanos(work), arrivals.min_inter_arrival()),
            ..Sums::default()
        }
    }

    fn per_packet(&self) -> u64 {
        self.egress.per_packet().as_nanos()
    }

    fn packets_of(&self, channel: &Channel) -> u32 {
        self.egress.cut().packets_of(channel.arrivals().max_message())
    }

    /// Of messages of one packet the shortest; of others a last packet may be a byte.
    fn shortest_of(&self, channel: &Channel) -> u32 {
        match self.packets_of(channel) {
            1 => channel.arrivals().min_message(),
            _ => 1,
        }
    }
}

/// The share of reservations, and for how long they may keep a thread from running: twice their budgets.
fn taken_by(above: &[Reservation]) -> (u128, u64) {
    let shares = above.iter().map(|one| share(one.budget(), one.period())).sum();
    let budgets = above.iter().map(|one| one.budget().as_nanos());
    (shares, budgets.fold(0, u64::saturating_add).saturating_mul(2))
}

/// Rounded up; no period is zero.
fn share(work: Service, every: Duration) -> u128 {
    (u128::from(work.as_nanos()) * ONE).div_ceil(u128::from(every.as_nanos()))
}
