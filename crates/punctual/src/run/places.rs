//! The CPUs that programs are held on, each with a timetable once one is needed.

use std::process::{Child, Command};

use punctual_analysis::supply::timetable::Table;
use punctual_analysis::supply::together::{NotPlaced, Wanted, place};
use punctual_linux::memory::{self, Locked};
use punctual_model::Reservation;
use punctual_model::reservation::Enforcement;
use punctual_runtime::reservation::{
    Choice, Facts, Held, Refused, Reservations, Room, Settings, StartError,
};

use super::notice::{Notice, Observer};
use crate::host;

/// The timetables of this process.
pub(super) struct Places {
    settings: Settings,
    facts: Option<Facts>,
    /// One for each CPU, so that each program can be sent to its own.
    by_cpu: Vec<(usize, Reservations)>,
    /// Memory is locked from the first timetable on, if this process may do so: a dispatcher that
    /// waits for a page is late.
    locked: Option<Locked>,
}

impl Places {
    /// Begins with the CPUs that this process may use, from the last to the first. Slots are
    /// extended by the costs measured on this host. `event_room` events of each CPU are kept for a
    /// trace.
    pub(super) fn new(event_room: usize, observer: &mut Observer<'_>) -> Self {
        let settings = Settings::default().with_event_room(event_room);
        let (measured, notes) = host::measured_here();
        notes.iter().for_each(|note| observer(&Notice::Profile(note)));
        let settings = match measured {
            Some(calibration) => settings.for_host(&calibration),
            None => settings,
        };
        Self { settings, facts: None, by_cpu: Vec::new(), locked: None }
    }

    /// Returns the abilities of this host, which are probed once.
    pub(super) fn facts(&mut self) -> &Facts {
        self.facts.get_or_insert_with(|| Facts::probe(&self.settings))
    }

    /// Finds a CPU for each of these reservations, which begin together: the one that it is bound
    /// to, or one of the first `cpus` that this process may use. CPUs that are `taken` by the
    /// timetable of another process are not used.
    pub(super) fn plan(
        &self,
        wanted: &[Wanted],
        cpus: usize,
        taken: &[usize],
    ) -> Result<Vec<Table>, Refused> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let free = self.settings.cpus.iter().filter(|cpu| !taken.contains(cpu)).take(cpus);
        let cpus: Vec<u16> = free.filter_map(|cpu| u16::try_from(*cpu).ok()).collect();
        if cpus.is_empty() {
            let cpu = taken.first().copied().unwrap_or_default();
            return Err(StartError::Taken { cpu }.into());
        }
        place(wanted, &cpus, self.settings.rules())
            .map_err(|NotPlaced { cpu, refusal }| Refused::DoesNotFit { cpu: cpu.into(), refusal })
    }

    /// Makes room for all of these reservations, which begin together, or for none. The rooms are
    /// in the same order.
    pub(super) fn make_room(
        &mut self,
        wanted: &[Wanted],
        cpus: usize,
    ) -> Result<Vec<Room>, Refused> {
        let mut taken = Vec::new();
        loop {
            let tables = self.plan(wanted, cpus, &taken)?;
            match self.make_room_in(wanted, &tables) {
                Err(Refused::Start(StartError::Taken { cpu }))
                    if !wanted.iter().any(|(_, bound)| bound.map(usize::from) == Some(cpu)) =>
                {
                    taken.push(cpu);
                }
                outcome => return outcome,
            }
        }
    }

    fn make_room_in(&mut self, wanted: &[Wanted], tables: &[Table]) -> Result<Vec<Room>, Refused> {
        let mut rooms = Vec::with_capacity(wanted.len());
        for Table { cpu, holds, .. } in tables {
            let cpu = usize::from(*cpu);
            let here: Vec<Reservation> = holds.iter().map(|at| wanted[*at].0).collect();
            let made = self.on(cpu).map_err(Refused::from).and_then(|on| on.make_room(cpu, &here));
            if made.is_err() {
                self.leave(cpu);
            }
            rooms.extend(holds.iter().copied().zip(made?));
        }
        rooms.sort_by_key(|(at, _)| *at);
        Ok(rooms.into_iter().map(|(_, room)| room).collect())
    }

    /// Starts the program that `make` makes in the room that was made for it.
    pub(super) fn spawn_in(
        &mut self,
        room: Room,
        make: &dyn Fn() -> Command,
        enforcement: Enforcement,
        choice: Choice,
    ) -> Result<(Child, Held), Refused> {
        self.on(room.cpu())?.spawn_in(room, &mut make(), enforcement, choice)
    }

    fn on(&mut self, cpu: usize) -> Result<&Reservations, StartError> {
        let at = match self.by_cpu.iter().position(|(at, _)| *at == cpu) {
            Some(at) => at,
            None => {
                let settings = Settings { cpus: vec![cpu], ..self.settings.clone() };
                // The guard is forked first: none of our memory needs to be locked in it.
                let facts = self.facts().clone();
                self.by_cpu.push((cpu, Reservations::on(facts, settings)?));
                if self.locked.is_none() {
                    // Without locked memory the timetable is followed all the same
                    // (docs/CAVEATS.md).
                    self.locked = memory::lock_all().ok();
                }
                self.by_cpu.len() - 1
            }
        };
        Ok(&self.by_cpu[at].1)
    }

    /// Returns the timetables in use.
    pub(super) fn timetables(&self) -> Vec<Reservations> {
        self.by_cpu.iter().map(|(_, on)| on.clone()).collect()
    }

    /// Releases a CPU on which nothing is held any more: its dispatcher ends.
    fn leave(&mut self, cpu: usize) {
        self.by_cpu.retain(|(at, on)| *at != cpu || on.taken().iter().any(|(_, ppm)| *ppm > 0));
    }
}
