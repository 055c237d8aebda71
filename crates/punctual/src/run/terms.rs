//! What is asked for a program, and the terms under which it runs.

use std::ffi::OsString;
use std::path::PathBuf;

use punctual_channel::client::compact::Compact;
use punctual_client::SOCKET;
use punctual_client::grant::GrantId;
use punctual_model::Reservation;
use punctual_model::command::Backend;
use punctual_model::reservation::{BudgetRange, Enforcement};
use punctual_model::units::Bytes;
use punctual_policy::adaptive::{Adaptive, BadBounds, Bounds};
use punctual_runtime::reservation::Choice;
use serde::ser::SerializeStruct;

use super::places::{AllWanted, WantedServer};

/// How much more than the largest use of late a reservation that adapts itself has, in percent.
const MARGIN: u32 = 15;

/// The number of periods after which such a reservation shrinks, if it sufficed in all of them.
const RUN: u32 = 50;

/// A program to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The name in messages; `None` if messages do not name it.
    pub name: Option<String>,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables that its environment has besides those of this process.
    pub environment: Vec<(OsString, OsString)>,
    /// Its working directory; `None` for that of this process.
    pub directory: Option<PathBuf>,
    /// Its reservation; `None` for an ordinary program.
    pub reserve: Option<Reserve>,
    /// The channel for its datagrams to one destination; `None` to send them without one.
    pub channel: Option<Compact>,
}

impl Program {
    /// Makes an ordinary program without a name.
    pub fn new(
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self {
            name: None,
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            directory: None,
            reserve: None,
            channel: None,
        }
    }

    pub(super) fn words(&self) -> Vec<String> {
        let words = std::iter::once(&self.program).chain(&self.arguments);
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

/// The reservation that a program asks for, and how it is to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reserve {
    /// The budget and the period.
    pub reservation: Reservation,
    /// Whether it may run outside its budget. `None` leaves the choice to this host: soft in a
    /// timetable.
    pub enforcement: Option<Enforcement>,
    /// The back end that is to execute the reservation; `None` for the one that serves it best
    /// here.
    pub backend: Option<Backend>,
    /// The one CPU that it is to run on; `None` for any.
    pub cpu: Option<usize>,
    /// The budgets between which its server follows its use, from that of the reservation on; `None`
    /// if the budget stays.
    pub adapt: Option<BudgetRange>,
    /// The memory that it keeps, with all processes that it starts; `None` if none is promised.
    pub memory: Option<Bytes>,
}

impl From<Reservation> for Reserve {
    /// Leaves all other choices to this host.
    fn from(reservation: Reservation) -> Self {
        let (enforcement, backend, cpu, adapt, memory) = (None, None, None, None, None);
        Self { reservation, enforcement, backend, cpu, adapt, memory }
    }
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The socket of the broker, which is asked for channels, and for reservations if this process
    /// has no privilege. With `None` no broker is asked.
    pub broker: Option<PathBuf>,
    /// Whether the CPUs with reservations are kept from halting, or all CPUs if those are not
    /// known. This takes all of their idle time.
    pub awake: bool,
    /// The number of events of each CPU that are kept until they are written to a trace; 0 without
    /// a trace.
    pub event_room: usize,
    /// Whether signals that this process receives are passed on to the programs. A program that
    /// uses this crate beside its own work, in which other threads take signals, says no.
    pub passes_signals_on: bool,
}

impl Default for Settings {
    /// Asks this host's broker if this process has no privilege; keeps no events for a trace;
    /// passes signals on.
    fn default() -> Self {
        let broker = Some(SOCKET.into());
        Self { broker, awake: false, event_room: 0, passes_signals_on: true }
    }
}

/// The terms under which a program runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The budget and the period.
    pub reservation: Reservation,
    /// Whether it may run outside its budget.
    pub enforcement: Enforcement,
    /// The back end that executes the reservation, and the reason for choosing it.
    pub choice: Choice,
    /// The one CPU it runs on; `None` for any.
    pub cpu: Option<usize>,
    /// The broker that grants it; `None` if this process takes it by its own privilege.
    pub broker: Option<Through>,
    /// The budgets between which it adapts itself.
    pub adapt: Option<BudgetRange>,
    /// The memory that it keeps.
    pub memory: Option<Bytes>,
}

impl Terms {
    /// Returns the back end by which this process itself holds the program; `None` if the broker
    /// grants it.
    pub(super) fn held_here(&self) -> Option<Backend> {
        self.broker.is_none().then_some(self.choice.backend)
    }

    /// Returns the state of a reservation that adapts itself.
    ///
    /// # Errors
    /// If the budget at the start is not in the range, or the range is beyond the period.
    pub(super) fn adaptive(&self) -> Result<Option<Adaptive>, BadBounds> {
        let Some(range) = self.adapt else { return Ok(None) };
        let (least, most, pass_every) = (range.least(), range.most(), self.reservation.period());
        let bounds = Bounds { least, most, pass_every, margin_percent: MARGIN, run: RUN };
        let adaptive = Adaptive::new(bounds, pass_every)?;
        adaptive.starting_with(self.reservation.budget()).map(Some)
    }

    /// Adds the request to a timetable or a server, if one of this process is to hold the program,
    /// which has this rank among those with equal periods.
    pub(super) fn want(&self, rank: usize, all: &mut AllWanted) {
        // A CPU number that does not exist is refused later.
        let cpu = self.cpu.map(|cpu| u16::try_from(cpu).unwrap_or(u16::MAX));
        match self.held_here() {
            Some(Backend::Timetable) => all.tabled.push((self.reservation, cpu)),
            Some(Backend::Server) => {
                all.served.push(WantedServer { reservation: self.reservation, cpu, rank });
            }
            Some(Backend::Kernel) | None => {}
        }
    }
}

/// The broker that grants a program's reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// The socket of the broker.
    pub path: PathBuf,
    /// The grant; `None` before the program was started.
    pub grant: Option<GrantId>,
}

/// Writes the terms that hold a program; all keys are null for an ordinary one.
pub(super) fn serialize_terms<S: SerializeStruct>(
    row: &mut S,
    terms: Option<&Terms>,
) -> Result<(), S::Error> {
    let broker = terms.and_then(|terms| terms.broker.as_ref());
    let budget_ns = terms.map(|terms| terms.reservation.budget().as_nanos());
    let period_ns = terms.map(|terms| terms.reservation.period().as_nanos());
    row.serialize_field("budget_ns", &budget_ns)?;
    row.serialize_field("period_ns", &period_ns)?;
    row.serialize_field("enforcement", &terms.map(|terms| terms.enforcement.name()))?;
    row.serialize_field("backend", &terms.map(|terms| terms.choice.backend.name()))?;
    row.serialize_field("because", &terms.map(|terms| &terms.choice.because))?;
    row.serialize_field("broker", &broker.map(|through| through.path.display().to_string()))?;
    row.serialize_field("cpu", &terms.and_then(|terms| terms.cpu))?;
    let memory = terms.and_then(|terms| terms.memory);
    row.serialize_field("memory_bytes", &memory.map(|Bytes(bytes)| bytes))
}
