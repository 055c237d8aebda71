//! What is granted, all of it, and what fits beside it.
//!
//! Pure: no clock and no system call; `now` comes in. [`Books::admit`] and [`Books::change`] decide
//! and enter in one step; a refusal changes nothing.
//!
//! # The tests, in this order
//! 1. `quota`: of who asks (and of the group), by kind, number of grants, shortest period, share.
//! 2. `limits`: what the kernel takes at all of a reservation (`analysis::sched_deadline`).
//! 3. `bandwidth`: all grants together, reservations whose bandwidth the kernel still holds, and what
//!    threads keep that have not left their class, within `reservable` of all CPUs; the upcalls of
//!    one CPU within that of one.
//! 4. `response-time`: on each CPU every upcall in time under all reservations of the host, because
//!    the kernel may run those anywhere (`analysis::incremental`).
//!
//! # Who goes first among upcalls
//! Under the ceiling protocol, rate monotonic with delayed preemption, over all processes. At fixed
//! levels ([`Order::Level`]) all upcalls of a thread stand at the level of its shortest period, so
//! they stand together, in the order of those; inside a thread the policy is the same. In both, the
//! longest quantum below a task is charged to it as blocking, which at fixed levels is more than
//! other threads can do.
//!
//! # Costs
//! Upcalls and reservations are admitted incrementally: O(n) for n upcalls on a CPU, or on all CPUs
//! beneath a reservation. Only those whose spare it exceeds are examined anew, O(n) each.

pub mod channels;
mod cpu;
mod limits;
mod offers;
mod remnants;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use punctual_analysis::{Refusal, Resource, Shortfall, Steps};
use punctual_model::{Instant, Reservation};

use self::cpu::Cpu;
use self::remnants::Remnant;
pub use self::terms::{Asker, Host, Offer, Order};
use crate::grant::GrantId;
use crate::want::What;

/// Elementary steps of one admission, of some nanoseconds each: enough to examine a thousand upcalls
/// anew beneath a reservation, and a bound on how long one message can keep the broker busy.
const STEPS: u64 = 20_000_000;

/// The same for each try of the search for offers.
const STEPS_OF_AN_OFFER: u64 = STEPS / 10;

#[derive(Clone, Debug)]
struct Entry {
    uid: u32,
    group: Option<u32>,
    what: What,
    share_ppm: u64,
    cpu: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    ppm: u64,
    grants: u32,
}

/// Everything that is granted on the host.
#[derive(Clone, Debug)]
pub struct Books {
    host: Host,
    cpus: Vec<Cpu>,
    entries: BTreeMap<GrantId, Entry>,
    users: BTreeMap<u32, Sum>,
    groups: BTreeMap<u32, Sum>,
    total_ppm: u64,
    /// Reservations that ended and until when the kernel keeps their bandwidth.
    lingering: Vec<(Instant, u64)>,
    /// What threads keep whose reservation has ended and who have not left the class.
    remnants: BTreeMap<GrantId, Remnant>,
    steps: u64,
}

impl Books {
    /// Nothing is granted yet.
    pub fn new(host: Host, order: Order) -> Self {
        let cpus = (0..host.cpus.max(1)).map(|_| Cpu::new(order, host.context_switch)).collect();
        Self {
            host,
            cpus,
            entries: BTreeMap::new(),
            users: BTreeMap::new(),
            groups: BTreeMap::new(),
            total_ppm: 0,
            lingering: Vec::new(),
            remnants: BTreeMap::new(),
            steps: STEPS,
        }
    }

    /// With `cpu` set aside, above all upcalls of whatever CPU, for threads of the broker's own.
    pub fn with_set_aside(mut self, cpu: Reservation) -> Result<Self, Box<Refusal>> {
        self.within_bandwidth(&What::Reservation(cpu))?;
        self.reserve(cpu, &mut Steps::new(self.steps))?;
        self.total_ppm += cpu.utilisation_ppm();
        Ok(self)
    }

    /// The reservations that are entered.
    pub fn reservations(&self) -> impl Iterator<Item = Reservation> {
        self.entries.values().filter_map(|entry| match entry.what {
            What::Reservation(reservation) => Some(reservation),
            _ => None,
        })
    }

    /// Enters `what` as `id` if it fits: the CPU of upcalls.
    ///
    /// `id` must not be entered already.
    pub fn admit(
        &mut self,
        id: GrantId,
        asker: &Asker,
        what: &What,
        now: Instant,
    ) -> Result<Option<u32>, Box<Refusal>> {
        self.within_quota(asker, what)?;
        self.enter(id, asker, what, now)
    }

    /// Enters what was granted before, whatever the quota says today.
    pub fn enter(
        &mut self,
        id: GrantId,
        asker: &Asker,
        what: &What,
        now: Instant,
    ) -> Result<Option<u32>, Box<Refusal>> {
        self.lingering.retain(|(until, _)| *until > now);
        self.within_bandwidth(what)?;
        let steps = &mut Steps::new(self.steps);
        let cpu = match what {
            What::Upcalls(upcalls) => {
                let most = self.host.reservable_ppm;
                let share = what.share_ppm();
                // The fullest first: what is left in one piece is worth more.
                let mut order: Vec<usize> = (0..self.cpus.len()).collect();
                order.sort_by_key(|&cpu| std::cmp::Reverse(self.cpus[cpu].share_ppm()));
                let mut first = None;
                let found = order.into_iter().find(|&cpu| {
                    let cpu = &mut self.cpus[cpu];
                    match cpu.admit(id, upcalls, share, most, steps) {
                        Ok(()) => true,
                        Err(denied) => {
                            first.get_or_insert(denied);
                            false
                        }
                    }
                });
                match (found, first) {
                    (Some(cpu), _) => Some(cpu),
                    (None, Some(denied)) => return Err(denied),
                    (None, None) => {
                        return Err(denied("cpus", "the host promises no CPU".into(), None));
                    }
                }
            }
            What::Reservation(reservation) => {
                self.reserve(*reservation, steps)?;
                None
            }
            What::Priority { .. } => None,
        };
        let (uid, group, share_ppm) = (asker.uid, asker.quota.group, what.share_ppm());
        self.entries.insert(id, Entry { uid, group, what: what.clone(), share_ppm, cpu });
        self.total_ppm += share_ppm;
        for sum in self.sums(uid, group) {
            sum.ppm += share_ppm;
            sum.grants += 1;
        }
        Ok(cpu.map(|cpu| cpu as u32))
    }

    /// Enters `what` in place of what `id` has. If it does not fit, `id` keeps what it has.
    pub fn change(
        &mut self,
        id: GrantId,
        asker: &Asker,
        what: &What,
        now: Instant,
    ) -> Result<Option<u32>, Box<Refusal>> {
        let mut changed = self.clone();
        changed.take_out(id);
        let cpu = changed.admit(id, asker, what, now)?;
        *self = changed;
        Ok(cpu)
    }

    /// Takes `id` out. What the kernel still holds of a reservation stays counted for a period.
    pub fn release(&mut self, id: GrantId, now: Instant) {
        if let Some(Entry { what: What::Reservation(reservation), share_ppm, .. }) =
            self.take_out(id)
        {
            self.lingering.push((now.saturating_add(reservation.period()), share_ppm));
        }
    }

    /// Requests like `what` that would be admitted now, in place of `id` if that is entered.
    pub fn offers(&self, id: GrantId, asker: &Asker, what: &What, now: Instant) -> Vec<Offer> {
        let mut trial = Self { steps: STEPS_OF_AN_OFFER, ..self.clone() };
        trial.take_out(id);
        offers::find(what, asker.quota.quota.least_reservation_ppm, |what| {
            let fits = trial.admit(id, asker, what, now).is_ok();
            if fits {
                trial.take_out(id);
            }
            fits
        })
    }

    /// The CPU of the upcalls of `id`.
    pub fn cpu_of(&self, id: GrantId) -> Option<u32> {
        self.entries.get(&id)?.cpu.map(|cpu| cpu as u32)
    }

    /// What the host may promise.
    pub fn host(&self) -> Host {
        self.host
    }

    /// Of all CPUs together: what may be promised.
    pub fn capacity_ppm(&self) -> u64 {
        self.host.reservable_ppm * u64::from(self.host.cpus)
    }

    /// Of all CPUs together: what is promised.
    pub fn granted_ppm(&self) -> u64 {
        self.total_ppm
    }

    /// What a user has.
    pub fn of_user(&self, uid: u32) -> u64 {
        self.users.get(&uid).map_or(0, |sum| sum.ppm)
    }

    /// What the members of a group have by its quota.
    pub fn of_group(&self, gid: u32) -> u64 {
        self.groups.get(&gid).map_or(0, |sum| sum.ppm)
    }

    fn take_out(&mut self, id: GrantId) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.total_ppm -= entry.share_ppm;
        for sum in self.sums(entry.uid, entry.group) {
            sum.ppm -= entry.share_ppm;
            sum.grants -= 1;
        }
        self.users.retain(|_, sum| sum.grants > 0);
        self.groups.retain(|_, sum| sum.grants > 0);
        match &entry.what {
            What::Upcalls(_) => {
                if let Some(cpu) = entry.cpu {
                    self.cpus[cpu].remove(id);
                }
            }
            What::Reservation(reservation) => {
                self.cpus.iter_mut().for_each(|cpu| cpu.unreserve(*reservation));
            }
            What::Priority { .. } => {}
        }
        Some(entry)
    }

    fn sums(&mut self, uid: u32, group: Option<u32>) -> impl Iterator<Item = &mut Sum> {
        let of_group = group.map(|gid| self.groups.entry(gid).or_default());
        of_group.into_iter().chain([self.users.entry(uid).or_default()])
    }

    /// Above the upcalls of every CPU, because the kernel may run it on any, or above none.
    fn reserve(&mut self, reservation: Reservation, steps: &mut Steps) -> Result<(), Box<Refusal>> {
        for at in 0..self.cpus.len() {
            if let Err(denied) = self.cpus[at].reserve(reservation, steps) {
                self.cpus[..at].iter_mut().for_each(|cpu| cpu.unreserve(reservation));
                return Err(denied);
            }
        }
        Ok(())
    }
}

/// Refuses by `test`, each of which is about one resource.
fn denied(test: &'static str, why: String, short_ppm: Option<u64>) -> Box<Refusal> {
    let resource = match test {
        "quota" | "room" => Resource::Quota,
        "limits" | "bandwidth" => Resource::Bandwidth,
        "cpus" => Resource::Cpus,
        "link" | "datagram" => Resource::Link,
        "delay-bound" => Resource::Delay,
        _ => Resource::Cpu,
    };
    let shortfall = short_ppm.map(Shortfall::Share);
    Box::new(Refusal { shortfall, ..Refusal::new(test, resource, why) })
}

/// "12.5 %".
pub(crate) fn percent(ppm: u64) -> String {
    format!("{:.1} %", ppm as f64 / 10_000.0)
}
