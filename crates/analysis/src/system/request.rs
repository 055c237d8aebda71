//! Requests to a system, and the back ends that execute entries.

use punctual_model::channel::{Channel, Direction, ReadLimit};
use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::units::Bytes;
use punctual_model::{Instant, Reservation, Task};

use crate::supply::TimeConstraint;

/// The order of upcalls of different executors on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpcallOrder {
    /// By the period of each upcall: executors pass the CPU on by priority handoff.
    LevelOrder,
    /// By the shortest period of each executor, whose thread has a fixed level. In both orders the
    /// longest quantum below a task blocks it; at fixed levels that is more than other executors
    /// can do.
    FixedLevel,
}

/// A request to admit an entry.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Tasks that one executor runs on one CPU, without locks between them. An empty list requests
    /// nothing.
    Executor(&'a [Task]),
    /// A kernel reservation for one thread.
    Deadline(Reservation),
    /// A reservation for a command, with all processes that it starts, that begins together with
    /// all other commands.
    Command {
        /// The reservation.
        reservation: Reservation,
        /// The enforcement of its budget.
        enforcement: Enforcement,
        /// The back end that enforces it.
        backend: Backend,
        /// The CPU that it is bound to, by the kernel's number; `None` for any.
        cpu: Option<u16>,
    },
    /// A reservation that joins the timetable of a CPU while that is followed, as the first or a
    /// further one. It can be changed for another while the timetable is followed.
    Joining(Joining<'a>),
    /// A share of bandwidth, in parts per million of a CPU, without any further promise.
    Share(u64),
    /// Memory that a program keeps.
    Memory(Bytes),
    /// A channel whose messages are sent within its delay bound.
    Sending(&'a Channel),
    /// A channel whose messages are received for a client, in as many datagrams.
    Receiving(ReadLimit),
    /// A channel without a promise.
    BestEffort(Direction),
}

/// A reservation that joins a timetable, with the place and time.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    /// The reservation.
    pub reservation: Reservation,
    /// The CPU of the timetable, by the kernel's number.
    pub cpu: u16,
    /// The earliest instant of the handover, which leaves the dispatcher time to receive it.
    pub earliest: Instant,
    /// The remaining work of the time constraints that were accepted on the CPU.
    pub standing: &'a [TimeConstraint],
}

impl Request<'_> {
    /// Returns the share of a CPU, in parts per million, with each task rounded up. Channels take
    /// nothing beyond the share set aside for all of them, and the share of a timetable's slots is
    /// known only when it is built.
    pub fn share_ppm(&self) -> u64 {
        match self {
            Self::Executor(tasks) => tasks.iter().map(Task::utilisation_ppm).sum(),
            Self::Deadline(reservation)
            | Self::Command { reservation, backend: Backend::Kernel | Backend::Server, .. } => {
                reservation.utilisation_ppm()
            }
            Self::Share(ppm) => *ppm,
            Self::Command { .. }
            | Self::Joining(_)
            | Self::Memory(_)
            | Self::Sending(_)
            | Self::Receiving(_)
            | Self::BestEffort(_) => 0,
        }
    }
}

/// The back end that executes an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackEnd {
    /// An executor of upcalls, whose thread must stay on this CPU.
    Executor {
        /// From 0 to the host's `cpus − 1`.
        cpu: u16,
    },
    /// The kernel (`SCHED_DEADLINE`), on any CPU.
    Deadline,
    /// The timetable of this CPU, by the kernel's number.
    Timetable {
        /// From 0 to the host's `cpus − 1`.
        cpu: u16,
    },
    /// A deferrable server on this CPU, by the kernel's number.
    Server {
        /// From 0 to the host's `cpus − 1`.
        cpu: u16,
    },
    /// Any thread below all others, on any CPU.
    Unproven,
    /// The kernel's reclaim, which takes none of it.
    Reclaim,
    /// The thread that sends the messages of all channels, by the egress scheduler.
    Egress,
    /// The thread that receives the messages of all channels.
    Ingress,
}
