//! Room in a timetable for an owner that is still to come.

use std::sync::{Arc, Mutex};

use punctual_model::{Instant, Reservation};

use super::error::Refused;
use super::lane::{Lane, locked};

/// Room in the timetable of a CPU. Other work may use its slots until an owner takes it. Dropping
/// this gives it back.
pub struct Room {
    lane: Arc<Mutex<Lane>>,
    reservation: Reservation,
    /// The name in the timetable, unless the room was taken.
    name: Option<u32>,
    from: Instant,
}

impl Room {
    /// Makes room for one reservation.
    pub(super) fn of(lane: &Arc<Mutex<Lane>>, reservation: Reservation) -> Result<Self, Refused> {
        let (name, from) = locked(lane).admit(reservation)?;
        Ok(Self { lane: Arc::clone(lane), reservation, name: Some(name), from })
    }

    /// Makes room for all of `asked`, which begin together, or for none.
    pub(super) fn of_all(
        lane: &Arc<Mutex<Lane>>,
        asked: &[Reservation],
    ) -> Result<Vec<Self>, Refused> {
        let admitted = {
            // Under one lock, so that no other request comes in between.
            let mut lane = locked(lane);
            (!asked.is_empty() && lane.is_empty()).then(|| lane.admit_together(asked))
        };
        let Some(admitted) = admitted else {
            return asked.iter().map(|reservation| Self::of(lane, *reservation)).collect();
        };
        let (first, from) = admitted?;
        let names = (0..).map(|at| first.wrapping_add(at));
        let room = |(reservation, name): (&Reservation, u32)| Self {
            lane: Arc::clone(lane),
            reservation: *reservation,
            name: Some(name),
            from,
        };
        Ok(asked.iter().zip(names).map(room).collect())
    }

    /// Returns the budget and the period.
    pub fn reservation(&self) -> Reservation {
        self.reservation
    }

    /// Returns the CPU whose timetable it is in.
    pub fn cpu(&self) -> usize {
        locked(&self.lane).cpu()
    }

    pub(super) fn lane(&self) -> &Arc<Mutex<Lane>> {
        &self.lane
    }

    /// Leaves the room to the caller: returns its name, its reservation, and from when on it
    /// counts.
    pub(super) fn into_parts(mut self) -> (u32, Reservation, Instant) {
        let name = self.name.take().expect("taken once");
        (name, self.reservation, self.from)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(name) = self.name {
            locked(&self.lane).release(name);
        }
    }
}

impl std::fmt::Debug for Room {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { reservation, name, from, .. } = self;
        let mut all = f.debug_struct("Room");
        all.field("reservation", reservation).field("name", name).field("from", from);
        all.finish_non_exhaustive()
    }
}
