//! Injects faults at every point: a process is cut at its n-th system call, for each n, and what is
//! left must be in order.
//!
//! - [`ptrace`]: stops another process at its system calls.
//! - [`cutter`]: the process that cuts.
//! - [`holder`]: a client that works in small steps.
//! - [`brokered`]: what a broker and its clients do; [`local`]: what needs no broker; [`files`]:
//!   what commands write.
//!
//! The same scenario, victim, action and number give the same cut where time is counted in
//! instructions (docs/machines.md), and nearly the same cut elsewhere.

mod brokered;
mod cutter;
mod files;
mod holder;
mod local;
mod ptrace;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use cutter::Action;
use cutter::Ended;

pub(super) use cutter::obey as cut;
pub(super) use holder::obey as hold;

/// The activity that the cut interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// Upcalls are requested, used, changed and given back.
    Upcalls,
    /// A reservation is requested, used, changed and given back.
    Reservation,
    /// A low priority is requested, used, changed and given back.
    Priority,
    /// A channel is opened, attached, sends, and is given back.
    Channel,
    /// A client that holds a grant and a channel ends.
    Teardown,
    /// A broker recovers from its ledger what its predecessor had granted.
    Recovery,
    /// Messages are put into a channel and leave it.
    Message,
    /// Upcalls of two processes take turns.
    Handover,
    /// `punctual run` runs a program in SCHED_DEADLINE.
    RunKernel,
    /// `punctual run` runs it in a timetable.
    RunTimetable,
    /// `punctual export` replaces a file.
    Export,
    /// `punctual report` replaces a file.
    Report,
    /// `punctual simulate` writes a trace.
    Trace,
}

impl Scenario {
    /// All scenarios, with their names on the command line.
    pub const ALL: [(Self, &'static str); 13] = [
        (Self::Upcalls, "upcalls"),
        (Self::Reservation, "reservation"),
        (Self::Priority, "priority"),
        (Self::Channel, "channel"),
        (Self::Teardown, "teardown"),
        (Self::Recovery, "recovery"),
        (Self::Message, "message"),
        (Self::Handover, "handover"),
        (Self::RunKernel, "run-kernel"),
        (Self::RunTimetable, "run-timetable"),
        (Self::Export, "export"),
        (Self::Report, "report"),
        (Self::Trace, "trace"),
    ];
}

/// The process that is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The broker's first process, which decides.
    Broker,
    /// The broker's process that touches what clients send.
    Front,
    /// The broker's process that polices.
    Guard,
    /// The client that makes the requests.
    Client,
    /// The only program of the scenario.
    Program,
}

impl Victim {
    /// All victims, with their names on the command line.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Broker, "broker"),
        (Self::Front, "front"),
        (Self::Guard, "guard"),
        (Self::Client, "client"),
        (Self::Program, "program"),
    ];
}

/// Returns the name of an element of a table.
fn name_of<T: PartialEq>(what: &T, all: &[(T, &'static str)]) -> &'static str {
    all.iter().find(|(one, _)| one == what).map_or("", |(_, name)| name)
}

/// One process, cut in one way at each of its calls in one scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sweep {
    /// The activity that is interrupted.
    pub scenario: Scenario,
    /// The process that is cut.
    pub victim: Victim,
    /// The action at the cut.
    pub action: Action,
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scenario = name_of(&self.scenario, &Scenario::ALL);
        let victim = name_of(&self.victim, &Victim::ALL);
        write!(f, "--scenario {scenario} --victim {victim} --action {}", self.action.name())
    }
}

/// Cuts once, at the given number. Returns whether the victim was cut, or what was broken or left
/// behind as `Err`.
type Cycle = Box<dyn FnMut(u64) -> Result<Ended, String>>;

/// The result of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The number of times the victim was cut.
    pub cuts: u64,
    /// The greatest number at which it was cut.
    pub last: u64,
    /// Each cut that broke something, by its number.
    pub broken: Vec<(u64, String)>,
}

/// The number of broken cuts that ends a sweep.
const MOST_BROKEN: usize = 8;

impl Sweep {
    /// Returns all sweeps.
    pub fn all() -> Vec<Self> {
        let all = Scenario::ALL.into_iter().flat_map(|(scenario, _)| {
            Victim::ALL.into_iter().flat_map(move |(victim, _)| {
                let of = move |(action, _)| Self { scenario, victim, action };
                Action::ALL.into_iter().map(of)
            })
        });
        all.filter(Self::is_there).collect()
    }

    fn is_there(&self) -> bool {
        use {Action as A, Scenario as S, Victim as V};
        let Self { scenario, victim, action } = *self;
        match (scenario, victim, action) {
            (S::Message, V::Broker | V::Client, A::KillAtInstruction) => true,
            (S::Handover, V::Program, A::Kill | A::Stop | A::KillAtInstruction) => true,
            (S::RunKernel | S::RunTimetable, V::Program, A::Kill | A::Stop) => true,
            (S::Export | S::Report, V::Program, A::Kill | A::Full | A::Hold) => true,
            (S::Trace, V::Program, A::Kill | A::Full) => true,
            (S::Recovery, V::Broker, A::Kill | A::Full) => true,
            (S::Teardown, V::Broker | V::Front | V::Guard, A::Kill | A::Stop) => true,
            (S::Upcalls | S::Reservation | S::Priority | S::Channel, victim, action) => {
                match action {
                    A::Kill | A::Stop => victim != V::Program,
                    A::Full => victim == V::Broker,
                    A::Unplug => scenario == S::Channel && matches!(victim, V::Broker | V::Client),
                    A::KillAtInstruction | A::Hold => false,
                }
            }
            _ => false,
        }
    }

    fn prepare(self) -> Result<Cycle, String> {
        match self.scenario {
            Scenario::Handover => local::handover(self),
            Scenario::RunKernel => local::run(self, &["--backend", "kernel"]),
            Scenario::RunTimetable => local::run(self, &["--backend", "timetable", "--hard"]),
            Scenario::Export => files::prepare(self, files::Kind::Export),
            Scenario::Report => files::prepare(self, files::Kind::Report),
            Scenario::Trace => files::prepare(self, files::Kind::Trace),
            _ => brokered::prepare(self),
        }
    }

    /// Cuts at `first`, and then at every `stride`-th call until the victim makes no more calls, or
    /// `most` times.
    pub fn run(self, first: u64, stride: u64, most: u64, mut done: impl FnMut(u64)) -> Swept {
        let mut swept = Swept::default();
        let mut prepared = None;
        let (mut at, mut whole) = (first, 0);
        // Two in a row, because one run may make fewer calls than another where time is the host's.
        while whole < 2 && swept.cuts < most && swept.broken.len() < MOST_BROKEN {
            let cycle = &mut prepared;
            let once = AssertUnwindSafe(move || {
                if cycle.is_none() {
                    *cycle = Some(self.prepare()?);
                }
                cycle.as_mut().map_or_else(|| Err("not prepared".into()), |cycle| cycle(at))
            });
            let ended = catch_unwind(once).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().cloned();
                Err(text
                    .or_else(|| Some((*panic.downcast_ref::<&str>()?).to_owned()))
                    .unwrap_or_default())
            });
            match ended {
                Ok(Ended::Whole(_)) => whole += 1,
                Ok(Ended::Cut(_)) => {
                    whole = 0;
                    (swept.cuts, swept.last) = (swept.cuts + 1, at);
                }
                Err(why) => {
                    whole = 0;
                    (swept.cuts, swept.last) = (swept.cuts + 1, at);
                    swept.broken.push((at, why));
                    // The next cycle must not suffer from this one.
                    prepared = None;
                }
            }
            done(at);
            at += stride;
        }
        swept
    }
}
