//! The admission state: everything that is granted, and what fits beside it.
//!
//! Pure: no clock and no system call; `now` is an argument. [`AdmissionState::admit`] and
//! [`AdmissionState::change`] decide and enter in one step; a refusal changes nothing.
//!
//! One [`System`] decides what the host can promise; the admission state adds users with their
//! quotas, and the residuals of reservations. So the tests are, in this order:
//! 1. `quota`: of the user (and of the group), by kind, number of grants, shortest period, share.
//! 2. Those of [`System`]: `reservable-bandwidth`, `sched-deadline`, `response-time` and
//!    `channels`. The first counts also reservations whose bandwidth the kernel still holds, and
//!    the residuals of threads that have not left their class; beneath these residuals every upcall
//!    and every channel must be in time.
//!
//! Channels have quotas of their own, and other tests of the same system ([`channels`]).

pub mod channels;
mod offers;
mod quota;
mod residuals;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::mem;

use punctual_analysis::{BackEnd, Exchange, Refusal, Request, Steps, System, UpcallOrder};
use punctual_model::command::Backend;
pub(crate) use punctual_model::units::percent;
use punctual_model::{HostProfile, Instant, Task};

use self::channels::entries::ChannelEntries;
pub use self::terms::{Offer, Requester};
use self::terms::{Residual, Sum};
use punctual_client::grant::GrantId;
use punctual_client::want::Guarantee;

/// The elementary steps of one admission, of some nanoseconds each: enough to examine a thousand
/// upcalls anew beneath a reservation, and a bound on how long one message can keep the broker
/// busy.
pub const STEPS: u64 = 20_000_000;

/// The part of the steps of an admission that all tries of a search for offers have together: while
/// one person's offers are sought, all others wait. Each try has half of what is left. A try that it
/// does not suffice for is no offer.
const PART_FOR_OFFERS: u64 = 20;

/// A grant, with the user and the group whose quotas it counts in.
#[derive(Clone, Copy, Debug)]
struct Entry {
    uid: u32,
    group: Option<u32>,
    share_ppm: u64,
}

/// A change of a grant, which [`AdmissionState::undo`] undoes.
#[derive(Debug)]
pub struct Change {
    id: GrantId,
    before: Option<Entry>,
    exchange: Exchange<GrantId>,
}

impl Change {
    /// Returns the CPU of upcalls, or of a server.
    pub fn cpu(&self) -> Option<u32> {
        self.exchange.back_ends().first().copied().and_then(cpu_of)
    }
}

/// Everything that is granted on the host.
#[derive(Clone, Debug)]
pub struct AdmissionState {
    /// Grants and channels, which are numbered together.
    system: System<GrantId>,
    entries: BTreeMap<GrantId, Entry>,
    users: BTreeMap<u32, Sum>,
    groups: BTreeMap<u32, Sum>,
    /// The residuals of threads that have not left SCHED_DEADLINE although their reservation has
    /// ended.
    residuals: BTreeMap<GrantId, Residual>,
    /// `None`: no channels are carried here.
    channels: Option<ChannelEntries>,
    /// True if anything has become free since the last [`Self::settle`].
    freed: bool,
    steps: u64,
}

impl AdmissionState {
    /// Returns a state in which nothing is granted.
    pub fn new(host: HostProfile, order: UpcallOrder) -> Self {
        Self {
            system: System::new(host, order),
            entries: BTreeMap::new(),
            users: BTreeMap::new(),
            groups: BTreeMap::new(),
            residuals: BTreeMap::new(),
            channels: None,
            freed: false,
            steps: STEPS,
        }
    }

    /// Enters `what` as `id` if it fits. Returns the CPU of upcalls, or of a server.
    ///
    /// `id` must not be entered already.
    pub fn admit(
        &mut self,
        id: GrantId,
        requester: &Requester,
        what: &Guarantee,
        now: Instant,
    ) -> Result<Option<u32>, Box<Refusal>> {
        self.within_quota(requester, what)?;
        self.enter(id, requester, what, now)
    }

    /// Enters a grant that was made before, whatever the quota says today.
    pub fn enter(
        &mut self,
        id: GrantId,
        requester: &Requester,
        what: &Guarantee,
        now: Instant,
    ) -> Result<Option<u32>, Box<Refusal>> {
        self.withhold(now);
        let steps = &mut Steps::new(self.steps);
        let back_end = asking(what, None, |request| self.system.admit(id, request, steps))?;
        self.count(id, requester, what);
        Ok(cpu_of(back_end))
    }

    /// Enters `what` in place of the grant `id`. If it does not fit, `id` keeps its grant. The change
    /// can be undone until something else changes.
    pub fn change(
        &mut self,
        id: GrantId,
        requester: &Requester,
        what: &Guarantee,
        now: Instant,
    ) -> Result<Change, Box<Refusal>> {
        let before = self.uncount(id);
        self.withhold(now);
        let steps = &mut Steps::new(self.steps);
        let cpu = self.cpu_of(id);
        let answer = self.within_quota(requester, what).and_then(|()| {
            asking(what, cpu, |request| self.system.try_change(id, request, Some(now), steps))
        });
        match answer {
            Ok(exchange) => {
                self.count(id, requester, what);
                Ok(Change { id, before, exchange })
            }
            Err(refusal) => {
                before.into_iter().for_each(|entry| self.count_entry(id, entry));
                Err(refusal)
            }
        }
    }

    /// Gives a grant back what it was before `change`, since which only the time may have changed.
    pub fn undo(&mut self, Change { id, before, exchange }: Change) {
        self.uncount(id);
        self.system.undo(exchange);
        before.into_iter().for_each(|entry| self.count_entry(id, entry));
    }

    /// Takes `id` out; its threads have left their class. It stays counted as long as it affects others,
    /// and a reservation for one period, as the kernel counts it ([`System::retire`]).
    pub fn release(&mut self, id: GrantId, now: Instant) {
        self.system.retire(id, now);
        self.uncount(id);
    }

    /// Notes that the channels' sender was idle at `at`.
    pub fn sender_idle(&mut self, at: Instant) {
        self.system.sender_idle(at);
    }

    /// Advances the time to `now`. Returns whether any capacity of entries that left has become free
    /// since the last call.
    pub fn settle(&mut self, now: Instant) -> bool {
        self.catch_up(now);
        mem::take(&mut self.freed)
    }

    /// Advances the time to `now`, before a request.
    pub(crate) fn catch_up(&mut self, now: Instant) {
        self.freed |= self.system.settle(now);
    }

    /// Returns requests like `what` that would be admitted now, in place of `id` if that is
    /// entered.
    pub fn offers(
        &mut self,
        id: GrantId,
        requester: &Requester,
        what: &Guarantee,
        now: Instant,
    ) -> Vec<Offer> {
        let before = self.uncount(id);
        self.withhold(now);
        let least_ppm = requester.quota.quota.least_reservation_ppm;
        let cpu = before.and_then(|_| self.cpu_of(id));
        let least_served = self.host().slot_allowance;
        let mut left = Steps::new(self.steps / PART_FOR_OFFERS).briefly();
        let offers = offers::find(what, least_ppm, least_served, |what| {
            let mut steps = left.half();
            let fits = self.within_quota(requester, what).is_ok()
                && asking(what, cpu, |request| match before {
                    Some(_) => self.system.would_change(id, request, now, &mut steps).is_ok(),
                    None => self.system.would_admit(id, request, &mut steps).is_ok(),
                });
            left.put_back(steps);
            fits
        });
        before.into_iter().for_each(|entry| self.count_entry(id, entry));
        offers
    }

    /// Returns the CPU of the upcalls of `id`, or of its server.
    pub fn cpu_of(&self, id: GrantId) -> Option<u32> {
        cpu_of(self.system.back_end(id)?)
    }

    /// Returns the profile of what the host may promise.
    pub fn host(&self) -> &HostProfile {
        self.system.host()
    }

    /// Returns the share of all CPUs together that may be promised.
    pub fn capacity_ppm(&self) -> u64 {
        self.system.capacity_ppm()
    }

    /// Returns the share of all CPUs together that is promised.
    pub fn granted_ppm(&self) -> u64 {
        self.system.granted_ppm()
    }

    /// Returns the share that is granted to a user.
    pub fn of_user(&self, uid: u32) -> u64 {
        self.users.get(&uid).map_or(0, |sum| sum.ppm)
    }

    /// Returns the share that is granted to the members of a group by its quota.
    pub fn of_group(&self, gid: u32) -> u64 {
        self.groups.get(&gid).map_or(0, |sum| sum.ppm)
    }

    fn count(&mut self, id: GrantId, requester: &Requester, what: &Guarantee) {
        let (uid, group, share_ppm) = (requester.uid, requester.quota.group, what.share_ppm());
        self.count_entry(id, Entry { uid, group, share_ppm });
    }

    fn count_entry(&mut self, id: GrantId, entry: Entry) {
        self.entries.insert(id, entry);
        for sum in self.sums(&entry) {
            sum.ppm += entry.share_ppm;
            sum.grants += 1;
        }
    }

    fn uncount(&mut self, id: GrantId) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        for sum in self.sums(&entry) {
            sum.ppm -= entry.share_ppm;
            sum.grants -= 1;
        }
        self.users.retain(|_, sum| sum.grants > 0);
        self.groups.retain(|_, sum| sum.grants > 0);
        Some(entry)
    }

    fn sums(&mut self, entry: &Entry) -> impl Iterator<Item = &mut Sum> {
        let of_group = entry.group.map(|gid| self.groups.entry(gid).or_default());
        of_group.into_iter().chain([self.users.entry(entry.uid).or_default()])
    }

    /// Tells the system the time, and withholds the bandwidth that ended reservations keep.
    fn withhold(&mut self, now: Instant) {
        self.catch_up(now);
        self.system.withhold(self.left_behind(|_| true).ppm);
    }
}

/// Passes `what` to `ask` in the terms of the analysis. A program that is held stays on its `cpu`.
fn asking<T>(what: &Guarantee, cpu: Option<u32>, ask: impl FnOnce(Request<'_>) -> T) -> T {
    match *what {
        Guarantee::Program { reservation, enforcement } => ask(Request::Command {
            reservation,
            enforcement,
            backend: Backend::Server,
            cpu: cpu.and_then(|cpu| u16::try_from(cpu).ok()),
        }),
        Guarantee::Upcalls(ref upcalls) => {
            ask(Request::Executor(&upcalls.iter().map(Task::from).collect::<Vec<_>>()))
        }
        Guarantee::Reservation(reservation) => ask(Request::Deadline(reservation)),
        Guarantee::Priority { share_ppm } => ask(Request::Share(share_ppm.into())),
    }
}

fn cpu_of(back_end: BackEnd) -> Option<u32> {
    match back_end {
        BackEnd::Executor { cpu } | BackEnd::Server { cpu, .. } => Some(cpu.into()),
        _ => None,
    }
}
