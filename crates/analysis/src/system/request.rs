//! What a system is asked for, and what executes it.

use punctual_model::channel::{Channel, Direction, LinearBounded};
use punctual_model::command::Backend;
use punctual_model::reservation::Enforcement;
use punctual_model::{Instant, Reservation, Task};

use crate::supply::TimeConstraint;

/// Who goes first among the upcalls of different executors on one CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpcallOrder {
    /// By the period of each upcall: executors pass the CPU on.
    LevelOrder,
    /// By the shortest period of each executor, whose thread stands at a fixed level. In both orders the longest quantum
    /// below a task blocks it, which at fixed levels is more than other executors can do.
    FixedLevel,
}

/// What is to be admitted.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Tasks that one executor runs on one CPU, without locks between them. Empty asks for nothing.
    Executor(&'a [Task]),
    /// A reservation of the kernel's for one thread.
    Deadline(Reservation),
    /// A reservation that holds a command, with all that it starts, from when all commands begin together.
    Command {
        /// What is held.
        reservation: Reservation,
        /// How.
        enforcement: Enforcement,
        /// Who is to hold it; `None`: a timetable.
        backend: Option<Backend>,
        /// The CPU that it is bound to, as the kernel counts them; `None`: any.
        cpu: Option<u16>,
    },
    /// A reservation that joins the timetable of a CPU while that is followed, or the first that it holds; to be changed
    /// for another while it is.
    Joining(Joining<'a>),
    /// A share of bandwidth, in parts per million of a CPU, of which nothing else is promised.
    Share(u64),
    /// A channel whose messages are sent within its delay bound.
    Sending(&'a Channel),
    /// A channel whose messages, so many as its sender was promised, are received for a client.
    Receiving(LinearBounded),
    /// A channel of which nothing is promised.
    BestEffort(Direction),
}

/// When and where a reservation joins.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    /// What is to be held.
    pub reservation: Reservation,
    /// By the timetable of this CPU, as the kernel counts them.
    pub cpu: u16,
    /// The follower hears of it in time for this instant, and not before.
    pub earliest: Instant,
    /// What is still to be done of the time constraints that were accepted on the CPU.
    pub standing: &'a [TimeConstraint],
}

impl Request<'_> {
    /// Returns what it takes of a CPU, in parts per million, each task rounded up. Channels take nothing beside what is
    /// set aside for all of them, and what the slots of a timetable take is known when it is built.
    pub fn share_ppm(&self) -> u64 {
        match self {
            Self::Executor(tasks) => tasks.iter().map(Task::utilisation_ppm).sum(),
            Self::Deadline(reservation)
            | Self::Command { reservation, backend: Some(Backend::Kernel), .. } => {
                reservation.utilisation_ppm()
            }
            Self::Share(ppm) => *ppm,
            Self::Command { .. }
            | Self::Joining(_)
            | Self::Sending(_)
            | Self::Receiving(_)
            | Self::BestEffort(_) => 0,
        }
    }
}

/// What executes an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackEnd {
    /// An executor of upcalls, whose thread must stay on this CPU.
    Executor {
        /// From 0 to the host's `cpus − 1`.
        cpu: u16,
    },
    /// The kernel (`SCHED_DEADLINE`), on any CPU.
    Deadline,
    /// The timetable of this CPU, as the kernel counts them.
    Timetable {
        /// From 0 to the host's `cpus − 1`.
        cpu: u16,
    },
    /// Any thread below all others, on any CPU.
    Unproven,
    /// The thread that sends the messages of all channels, by the egress scheduler.
    Egress,
    /// The thread that receives the messages of all channels.
    Ingress,
}
