//! The upcalls of one CPU.

use punctual_analysis::incremental::{Admission, Denial, TaskId};
use punctual_analysis::{Refusal, Steps};
use punctual_model::{Duration, Policy, Reservation, Service, Task, Upcall};
use punctual_runtime::ceiling::{CEILING, level_of};

use super::{Order, denied, percent};
use crate::grant::GrantId;

/// Smaller is more urgent.
type Key = (u8, Duration, GrantId, Duration, usize);

#[derive(Clone, Debug)]
struct Placed {
    key: Key,
    grant: GrantId,
    id: TaskId,
}

#[derive(Clone, Debug)]
pub(super) struct Cpu {
    order: Order,
    admission: Admission,
    /// The most urgent first.
    tasks: Vec<Placed>,
    shares: Vec<(GrantId, u64)>,
}

impl Cpu {
    pub(super) fn new(order: Order, context_switch: Service) -> Self {
        let policy = match order {
            Order::Ceiling => Policy::Rmdp,
            // The order is ours: by thread, then by period.
            Order::Level => Policy::Fp,
        };
        let admission = Admission::new(policy, [], context_switch);
        Self { order, admission, tasks: Vec::new(), shares: Vec::new() }
    }

    pub(super) fn share_ppm(&self) -> u64 {
        self.shares.iter().map(|(_, ppm)| ppm).sum()
    }

    /// Admits all `upcalls` of one thread, or none.
    pub(super) fn admit(
        &mut self,
        grant: GrantId,
        upcalls: &[Upcall],
        share_ppm: u64,
        most_ppm: u64,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        let has = self.share_ppm();
        if let Some(short) = (has + share_ppm).checked_sub(most_ppm).filter(|short| *short > 0) {
            let (wanted, has, most) = (percent(share_ppm), percent(has), percent(most_ppm));
            let why =
                format!("{wanted} beside {has} is more than the {most} of one CPU, on every CPU");
            return Err(denied("bandwidth", why, Some(short)));
        }
        let shortest = upcalls.iter().map(Upcall::period).min().unwrap_or(Duration::MAX);
        for (at, upcall) in upcalls.iter().enumerate() {
            let key = match self.order {
                Order::Ceiling => (0, upcall.period(), grant, Duration::ZERO, at),
                Order::Level => {
                    (CEILING - level_of(shortest), shortest, grant, upcall.period(), at)
                }
            };
            if let Err(denial) = self.admit_at(key, grant, &Task::from(upcall), steps) {
                self.remove(grant);
                return Err(explain(upcall, denial));
            }
        }
        self.shares.push((grant, share_ppm));
        Ok(())
    }

    fn admit_at(
        &mut self,
        key: Key,
        grant: GrantId,
        task: &Task,
        steps: &mut Steps,
    ) -> Result<(), Denial> {
        let at = self.tasks.partition_point(|placed| placed.key < key);
        let id = match (self.order, self.tasks.get(at)) {
            (Order::Level, Some(below)) => self.admission.admit_above(below.id, task, steps)?,
            _ => self.admission.admit(task, steps)?,
        };
        self.tasks.insert(at, Placed { key, grant, id });
        Ok(())
    }

    pub(super) fn remove(&mut self, grant: GrantId) {
        let Self { admission, tasks, shares, .. } = self;
        tasks.retain(|placed| {
            let stays = placed.grant != grant;
            if !stays {
                admission.remove(placed.id);
            }
            stays
        });
        shares.retain(|(of, _)| *of != grant);
    }

    /// Puts `reservation` above all upcalls if all stay in time.
    pub(super) fn reserve(
        &mut self,
        reservation: Reservation,
        steps: &mut Steps,
    ) -> Result<(), Box<Refusal>> {
        self.admission.reserve(reservation, steps).map_err(|denial| {
            // Of whom is nobody's business but its holder's.
            let why = format!("beneath it an upcall granted before would be late: {denial}");
            denied("response-time", why, None)
        })
    }

    /// Takes out a reservation that [`Self::reserve`] put in.
    pub(super) fn unreserve(&mut self, reservation: Reservation) {
        let was_there = self.admission.unreserve(reservation);
        debug_assert!(was_there);
    }
}

fn explain(upcall: &Upcall, denial: Denial) -> Box<Refusal> {
    denied("response-time", format!("with upcall \"{}\", {denial}", upcall.name()), None)
}
