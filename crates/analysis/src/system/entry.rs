//! The entries of a system, and how they are taken out and put back.

use alloc::boxed::Box;

use punctual_model::Reservation;
use punctual_model::channel::{Channel, Direction, ReadLimit};
use punctual_model::units::Bytes;

use super::served::Server;
use super::{BackEnd, Request, System};
use crate::load::TaskLoad;

/// An entry, with the share that counts against the limit on grants.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) share_ppm: u64,
    pub(super) executed: Executed,
}

/// An entry in the terms of the back end that executes it.
#[derive(Clone, Debug)]
pub(super) enum Executed {
    Executor {
        cpu: usize,
        /// What counts.
        tasks: Box<[TaskLoad]>,
        /// What there is; `None`: the same.
        own: Option<Box<[TaskLoad]>>,
    },
    Deadline {
        reservation: Reservation,
        /// What counts.
        counted: Reservation,
        is_command: bool,
    },
    Timetable {
        cpu: u16,
    },
    Server {
        cpu: u16,
        reservation: Reservation,
        /// What counts.
        counted: Reservation,
    },
    Unproven,
    Memory(Bytes),
    /// A sending channel, with its rate on the link in bits a second.
    Sending {
        /// What counts.
        channel: Box<Channel>,
        /// What there is; `None`: the same.
        own: Option<Box<Channel>>,
        bps: u64,
    },
    Receiving(ReadLimit),
    BestEffort(Direction),
}

impl Entry {
    pub(super) fn back_end(&self) -> BackEnd {
        match self.executed {
            // A host has at most 2¹⁶ CPUs.
            Executed::Executor { cpu, .. } => BackEnd::Executor { cpu: cpu as u16 },
            Executed::Deadline { .. } => BackEnd::Deadline,
            Executed::Timetable { cpu } => BackEnd::Timetable { cpu },
            Executed::Server { cpu, .. } => BackEnd::Server { cpu },
            Executed::Unproven => BackEnd::Unproven,
            Executed::Memory(_) => BackEnd::Reclaim,
            Executed::Sending { .. } | Executed::BestEffort(Direction::Send) => BackEnd::Egress,
            Executed::Receiving(_) | Executed::BestEffort(Direction::Receive) => BackEnd::Ingress,
        }
    }

    /// Returns whether it is counted for more than it has.
    pub(super) fn counts_more(&self) -> bool {
        match &self.executed {
            Executed::Executor { own, .. } => own.is_some(),
            Executed::Deadline { reservation, counted, .. }
            | Executed::Server { reservation, counted, .. } => counted != reservation,
            Executed::Sending { own, .. } => own.is_some(),
            _ => false,
        }
    }

    pub(super) fn is_sending(&self) -> bool {
        matches!(self.executed, Executed::Sending { .. })
    }

    pub(super) fn is_command_of_the_kernel(&self) -> bool {
        matches!(self.executed, Executed::Deadline { is_command: true, .. })
    }

    pub(super) fn reservation(&self) -> Option<Reservation> {
        match self.executed {
            Executed::Deadline { reservation, .. } => Some(reservation),
            _ => None,
        }
    }
}

impl<Id: Copy + Ord> System<Id> {
    /// Returns the back end of an entry, or `None` if there is no such entry.
    pub fn back_end(&self, id: Id) -> Option<BackEnd> {
        self.entries.get(&id).map(Entry::back_end)
    }

    /// Returns the CPU whose timetable or server holds an entry, by the kernel's number.
    pub(crate) fn command_cpu(&self, id: Id) -> Option<u16> {
        match self.back_end(id)? {
            BackEnd::Timetable { cpu } | BackEnd::Server { cpu } => Some(cpu),
            _ => None,
        }
    }

    /// Returns the kernel reservation of an entry, if it is one.
    pub fn reservation(&self, id: Id) -> Option<Reservation> {
        self.entries.get(&id)?.reservation()
    }

    /// Takes out an entry that has not run yet, or that affects no job any more, and returns whether it
    /// was there. The others keep their proofs.
    pub fn release(&mut self, id: Id) -> bool {
        self.take_out(id).is_some()
    }

    pub(super) fn enter(&mut self, id: Id, request: Request<'_>, executed: Executed) -> BackEnd {
        let entry = Entry { share_ppm: self.counted_ppm(request), executed };
        let back_end = entry.back_end();
        self.granted_ppm += entry.share_ppm;
        self.entries.insert(id, entry);
        back_end
    }

    pub(super) fn take_out(&mut self, id: Id) -> Option<Entry> {
        self.counts_no_more(id);
        self.take_out_as_counted(id)
    }

    /// Takes out an entry, and leaves it noted that it is counted for more than it has.
    pub(super) fn take_out_as_counted(&mut self, id: Id) -> Option<Entry> {
        let entry = self.entries.remove(&id)?;
        self.granted_ppm -= entry.share_ppm;
        match &entry.executed {
            Executed::Executor { cpu, tasks, .. } => {
                self.cpus[*cpu].remove(id, tasks, entry.share_ppm);
            }
            Executed::Deadline { counted, .. } => self.unreserve_above(*counted),
            Executed::Timetable { .. } => self.hold_no_longer(id),
            Executed::Server { cpu, counted, .. } => {
                self.serve_no_longer(Server::new(id, *cpu, *counted, None));
            }
            Executed::Unproven | Executed::Memory(_) | Executed::BestEffort(_) => {}
            channel @ (Executed::Sending { .. } | Executed::Receiving(_)) => {
                self.carry_no_longer(channel);
            }
        }
        Some(entry)
    }

    /// Restores an entry that was taken out. Everything was proven beside it, so nothing is
    /// examined.
    pub(super) fn put_back(&mut self, id: Id, entry: Entry) {
        match &entry.executed {
            Executed::Executor { cpu, tasks, .. } => {
                self.cpus[*cpu].put_back(id, tasks, entry.share_ppm);
            }
            Executed::Deadline { counted, .. } => self.put_back_of_the_kernel(*counted),
            Executed::Server { cpu, counted, .. } => {
                self.serve_again(Server::new(id, *cpu, *counted, None));
            }
            // The tables are restored separately.
            Executed::Timetable { .. }
            | Executed::Unproven
            | Executed::Memory(_)
            | Executed::BestEffort(_) => {}
            channel @ (Executed::Sending { .. } | Executed::Receiving(_)) => {
                self.carry_again(channel);
            }
        }
        self.granted_ppm += entry.share_ppm;
        self.entries.insert(id, entry);
    }
}
