//! The CPUs that programs are held on, each with a timetable or servers once they are needed.

use std::process::{Child, Command};

use punctual_analysis::supply::timetable::Table;
use punctual_analysis::supply::together::{NotPlaced, Wanted, place};
use punctual_analysis::{Request, Steps, System, UpcallOrder};
use punctual_linux::cgroup::memory::Kept;
use punctual_linux::memory::{self, Locked};
use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::{HostProfile, Reservation};
use punctual_runtime::reservation::{
    Choice, Facts, Held, Refused, Reservations, Room, Settings, StartError,
};

use super::notice::{Notice, Observer};
use crate::host;

/// What the programs of a run want, each kind in their order.
#[derive(Default)]
pub(super) struct AllWanted {
    /// Reservations in timetables.
    pub(super) tabled: Vec<Wanted>,
    /// Servers.
    pub(super) served: Vec<WantedServer>,
}

/// A server that is wanted.
pub(super) struct WantedServer {
    pub(super) reservation: Reservation,
    /// The CPU that it is bound to, by the kernel's number.
    pub(super) cpu: Option<u16>,
    /// Of equal periods the lower rank has the higher level, as in admission.
    pub(super) rank: usize,
}

impl AllWanted {
    fn is_empty(&self) -> bool {
        self.tabled.is_empty() && self.served.is_empty()
    }

    /// Returns whether one of them is bound to `cpu`.
    fn binds(&self, cpu: usize) -> bool {
        let of_servers = self.served.iter().map(|one| one.cpu);
        let mut all = self.tabled.iter().map(|(_, bound)| *bound).chain(of_servers);
        all.any(|bound| bound.map(usize::from) == Some(cpu))
    }
}

/// The places of what programs want.
#[derive(Default)]
pub(super) struct Plan {
    /// The timetables.
    pub(super) tables: Vec<Table>,
    /// The CPU of each server.
    pub(super) servers: Vec<u16>,
}

/// Room for programs, each kind in their order.
#[derive(Default)]
pub(super) struct Rooms {
    tabled: std::vec::IntoIter<Room>,
    served: std::vec::IntoIter<Room>,
}

impl Rooms {
    /// Takes the room for the next program of this back end.
    pub(super) fn next(&mut self, backend: Backend) -> Option<Room> {
        match backend {
            Backend::Timetable => self.tabled.next(),
            Backend::Server => self.served.next(),
            Backend::Kernel => None,
        }
    }
}

fn server_on(cpu: u16, reservation: Reservation) -> Request<'static> {
    let (enforcement, backend) = (Enforcement::Soft, Backend::Server);
    Request::Command { reservation, enforcement, backend, cpu: Some(cpu) }
}

/// The timetables and servers of this process.
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
    /// dispatcher of another process are not used.
    pub(super) fn plan(
        &self,
        wanted: &AllWanted,
        cpus: usize,
        taken: &[usize],
    ) -> Result<Plan, Refused> {
        if wanted.is_empty() {
            return Ok(Plan::default());
        }
        let free = self.settings.cpus.iter().filter(|cpu| !taken.contains(cpu)).take(cpus);
        let cpus: Vec<u16> = free.filter_map(|cpu| u16::try_from(*cpu).ok()).collect();
        if cpus.is_empty() {
            let cpu = taken.first().copied().unwrap_or_default();
            return Err(StartError::Taken { cpu }.into());
        }
        let tables = match &wanted.tabled[..] {
            [] => Vec::new(),
            tabled => place(tabled, &cpus, self.settings.rules()).map_err(
                |NotPlaced { cpu, refusal }| Refused::DoesNotFit { cpu: cpu.into(), refusal },
            )?,
        };
        let servers = self.place_servers(&wanted.served, &cpus, &tables)?;
        Ok(Plan { tables, servers })
    }

    /// Finds a CPU without a timetable for each of these servers, by the test of admission.
    fn place_servers(
        &self,
        wanted: &[WantedServer],
        cpus: &[u16],
        tables: &[Table],
    ) -> Result<Vec<u16>, Refused> {
        let bound = wanted.iter().filter_map(|one| one.cpu.as_ref());
        let all = cpus.iter().chain(bound).max().map_or(0, |last| last.saturating_add(1));
        let slot_allowance = self.settings.context_switch;
        let host = HostProfile { slot_allowance, ..HostProfile::ideal(all) };
        let mut system = System::new(host, UpcallOrder::LevelOrder);
        let free = cpus.iter().filter(|cpu| tables.iter().all(|table| table.cpu != **cpu));
        let free: Vec<u16> = free.copied().collect();
        let mut found = vec![0; wanted.len()];
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        // Those that are bound to a CPU come first.
        order.sort_by_key(|at| (wanted[*at].cpu.is_none(), wanted[*at].rank));
        for at in order {
            let &WantedServer { reservation, cpu, rank } = &wanted[at];
            let mut refused = None;
            let candidates = cpu.as_ref().map_or(&free[..], std::slice::from_ref);
            let fitting = candidates.iter().find(|&&cpu| {
                let request = server_on(cpu, reservation);
                let outcome = system.admit(rank, request, &mut Steps::default());
                outcome.map_err(|refusal| refused = refused.take().or(Some((cpu, refusal)))).is_ok()
            });
            found[at] = match (fitting, refused) {
                (Some(cpu), _) => *cpu,
                (None, Some((cpu, refusal))) => {
                    return Err(Refused::DoesNotFit { cpu: cpu.into(), refusal });
                }
                // Every CPU has a timetable.
                (None, None) => return Err(StartError::Taken { cpu: cpus[0].into() }.into()),
            };
        }
        Ok(found)
    }

    /// Makes room for all of these reservations, which begin together, or for none. The rooms are
    /// in the same order.
    pub(super) fn make_room(&mut self, wanted: &AllWanted, cpus: usize) -> Result<Rooms, Refused> {
        let mut taken = Vec::new();
        loop {
            let plan = self.plan(wanted, cpus, &taken)?;
            match self.make_room_in(wanted, &plan) {
                Err(Refused::Start(StartError::Taken { cpu })) if !wanted.binds(cpu) => {
                    taken.push(cpu);
                }
                outcome => return outcome,
            }
        }
    }

    fn make_room_in(&mut self, wanted: &AllWanted, plan: &Plan) -> Result<Rooms, Refused> {
        let mut tabled = Vec::with_capacity(wanted.tabled.len());
        for Table { cpu, holds, .. } in &plan.tables {
            let cpu = usize::from(*cpu);
            let here: Vec<Reservation> = holds.iter().map(|at| wanted.tabled[*at].0).collect();
            let made = self.made_on(cpu, |on| on.make_room(cpu, &here))?;
            tabled.extend(holds.iter().copied().zip(made));
        }
        tabled.sort_by_key(|(at, _)| *at);
        let mut served = Vec::with_capacity(wanted.served.len());
        // Of equal periods the first one made has the higher level.
        let mut order: Vec<usize> = (0..wanted.served.len()).collect();
        order.sort_by_key(|at| wanted.served[*at].rank);
        for at in order {
            let (reservation, cpu) = (wanted.served[at].reservation, plan.servers[at].into());
            served.push((at, self.made_on(cpu, |on| on.make_room_for_server(cpu, reservation))?));
        }
        served.sort_by_key(|(at, _)| *at);
        let in_order = |rooms: Vec<(usize, Room)>| {
            let rooms: Vec<Room> = rooms.into_iter().map(|(_, room)| room).collect();
            rooms.into_iter()
        };
        Ok(Rooms { tabled: in_order(tabled), served: in_order(served) })
    }

    /// Makes room on a CPU, or releases the CPU if it then holds nothing.
    fn made_on<T>(
        &mut self,
        cpu: usize,
        make: impl FnOnce(&Reservations) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let made = self.on(cpu).map_err(Refused::from).and_then(make);
        if made.is_err() {
            self.leave(cpu);
        }
        made
    }

    /// Starts the program that `make` makes in the room that was made for it, with the memory that is
    /// `kept` for it.
    pub(super) fn spawn_in(
        &mut self,
        room: Room,
        make: &dyn Fn() -> Command,
        enforcement: Enforcement,
        choice: Choice,
        kept: Option<&Kept>,
    ) -> Result<(Child, Held), Refused> {
        self.on(room.cpu())?.spawn_in(room, &mut make(), enforcement, choice, kept)
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
        self.by_cpu.retain(|(at, on)| *at != cpu || on.holds_anything());
    }
}
