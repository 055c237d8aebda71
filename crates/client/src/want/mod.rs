//! The requests of clients, and their form on the socket.

mod channel;

use std::fmt;

use punctual_linux::thread::Tid;
use punctual_model::reservation::Enforcement;
use punctual_model::{Duration, Reservation, ReservationError, Service, Upcall, UpcallSpec};
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use channel::{MAX_QUEUE, MAX_SLOTS, RawChannel, WantedChannel};

/// The most upcalls of one grant.
pub const MAX_UPCALLS: usize = 64;

/// The longest name of an upcall or a channel, in bytes.
pub const MAX_NAME: usize = 64;

/// The longest period in a request. Use is judged over four periods, so with a longer one a thread
/// would run unwatched for long.
pub const LONGEST: Duration = Duration::from_secs(1);

/// The least share that a grant of bare priority is accounted at, in parts per million.
pub const LEAST_PRIORITY_SHARE: u32 = 1_000;

/// The kind of a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Periodic handlers under SCHED_FIFO, admitted by response times.
    Upcalls,
    /// A budget in every period for one thread, under SCHED_DEADLINE.
    Reservation,
    /// The lowest SCHED_FIFO priority for one thread, without a promise.
    Priority,
    /// Messages of a given size and rate, with or without a delay bound.
    Channels,
    /// A budget in every period for a whole program, in a deferrable server.
    Program,
}

impl Kind {
    /// The kinds with the names they have in a configuration.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("upcalls", Self::Upcalls),
        ("reservations", Self::Reservation),
        ("priority", Self::Priority),
        ("channels", Self::Channels),
        ("programs", Self::Program),
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, kind)| kind == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// A valid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The thread that is to run all the upcalls, hold the reservation, or get the priority; the
    /// first thread of a program.
    pub thread: Tid,
    /// The guarantee for that thread.
    pub what: Guarantee,
}

/// The guarantee that a thread asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guarantee {
    /// Upcalls that one thread runs (`punctual_runtime::Upcalls`): from 1 to [`MAX_UPCALLS`].
    Upcalls(Vec<Upcall>),
    /// A budget in every period.
    Reservation(Reservation),
    /// A priority above all ordinary work and below everything that is promised. The thread may use
    /// this share of a CPU, in parts per million.
    Priority {
        /// From [`LEAST_PRIORITY_SHARE`] to a million.
        share_ppm: u32,
    },
    /// A budget in every period for a process with all its threads and all that it starts, on one
    /// CPU: while it lasts they run when they wake.
    Program {
        /// The budget and the period.
        reservation: Reservation,
        /// Hard if they are stopped without budget; soft if they are ordinary ones then.
        enforcement: Enforcement,
    },
}

impl Guarantee {
    /// Returns the kind of guarantee.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Upcalls(_) => Kind::Upcalls,
            Self::Reservation(_) => Kind::Reservation,
            Self::Priority { .. } => Kind::Priority,
            Self::Program { .. } => Kind::Program,
        }
    }

    /// Returns its share of a CPU, in parts per million, rounded up.
    pub fn share_ppm(&self) -> u64 {
        match self {
            Self::Upcalls(upcalls) => upcalls.iter().map(Upcall::utilisation_ppm).sum(),
            Self::Reservation(reservation) | Self::Program { reservation, .. } => {
                reservation.utilisation_ppm()
            }
            Self::Priority { share_ppm } => (*share_ppm).into(),
        }
    }

    /// Returns its shortest period, or `None` for bare priority.
    pub fn shortest_period(&self) -> Option<Duration> {
        match self {
            Self::Upcalls(upcalls) => upcalls.iter().map(Upcall::period).min(),
            Self::Reservation(reservation) | Self::Program { reservation, .. } => {
                Some(reservation.period())
            }
            Self::Priority { .. } => None,
        }
    }

    /// Returns how far its use may run ahead of its share: one batch of each upcall, or one budget.
    pub fn burst(&self) -> Service {
        match self {
            Self::Upcalls(upcalls) => upcalls.iter().map(Upcall::batch_service).sum(),
            Self::Reservation(reservation) | Self::Program { reservation, .. } => {
                reservation.budget()
            }
            Self::Priority { .. } => Service::ZERO,
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Upcalls(upcalls) => {
                for (at, upcall) in upcalls.iter().enumerate() {
                    let comma = if at == 0 { "" } else { ", " };
                    write!(
                        f,
                        "{comma}\"{}\" {} every {}",
                        upcall.name(),
                        upcall.batch_service(),
                        upcall.period()
                    )?;
                }
                Ok(())
            }
            Self::Reservation(reservation) => write!(f, "{reservation}"),
            Self::Program { reservation, enforcement } => {
                write!(f, "{reservation}, {} server", enforcement.name())
            }
            Self::Priority { share_ppm } => {
                write!(f, "lowest priority, {:.1} % of a CPU", f64::from(*share_ppm) / 10_000.0)
            }
        }
    }
}

/// A request as it stands in a message, with any numbers. All times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum RawWant {
    /// See [`Guarantee::Upcalls`].
    Upcalls {
        /// Kernel id of the thread that runs them.
        thread: i32,
        /// The upcalls.
        upcalls: Vec<RawUpcall>,
    },
    /// See [`Guarantee::Reservation`].
    Reservation {
        /// Kernel id of the thread that holds it.
        thread: i32,
        /// The budget.
        budget_ns: u64,
        /// The period.
        period_ns: u64,
    },
    /// See [`Guarantee::Priority`].
    Priority {
        /// Kernel id of the thread that gets it.
        thread: i32,
        /// Parts per million of a CPU.
        share_ppm: u32,
    },
    /// See [`Guarantee::Program`].
    Program {
        /// Kernel id of the process.
        thread: i32,
        /// The budget.
        budget_ns: u64,
        /// The period.
        period_ns: u64,
        /// Whether it is stopped without budget.
        hard: bool,
    },
}

impl RawWant {
    /// Returns the kernel id of the thread.
    pub fn thread(&self) -> i32 {
        let (Self::Upcalls { thread, .. }
        | Self::Reservation { thread, .. }
        | Self::Priority { thread, .. }
        | Self::Program { thread, .. }) = self;
        *thread
    }

    /// Returns the same request for another thread.
    pub fn of(mut self, other: i32) -> Self {
        let (Self::Upcalls { thread, .. }
        | Self::Reservation { thread, .. }
        | Self::Priority { thread, .. }
        | Self::Program { thread, .. }) = &mut self;
        *thread = other;
        self
    }
}

/// An upcall in a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawUpcall {
    /// The name, for people.
    pub name: String,
    /// The time between two releases.
    pub period_ns: u64,
    /// PDUs per period.
    pub batch: u32,
    /// PDUs between two yield points.
    pub quantum: u32,
    /// Processor time of a PDU.
    pub time_per_pdu_ns: u64,
}

/// The field of a request that is wrong, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct Malformed {
    /// The field, such as `upcalls[2]`.
    pub field: String,
    /// The reason, in one sentence.
    pub problem: String,
}

fn malformed(field: impl Into<String>, problem: impl fmt::Display) -> Malformed {
    Malformed { field: field.into(), problem: problem.to_string() }
}

impl TryFrom<RawWant> for Want {
    type Error = Malformed;

    fn try_from(raw: RawWant) -> Result<Self, Malformed> {
        let (thread, what) = match raw {
            RawWant::Upcalls { thread, upcalls } => {
                if !(1..=MAX_UPCALLS).contains(&upcalls.len()) {
                    let problem = format!(
                        "{} upcalls; from 1 to {MAX_UPCALLS} can be asked for",
                        upcalls.len()
                    );
                    return Err(malformed("upcalls", problem));
                }
                let valid = upcalls.into_iter().enumerate().map(|(at, raw)| upcall(at, raw));
                (thread, Guarantee::Upcalls(valid.collect::<Result<_, _>>()?))
            }
            RawWant::Reservation { thread, budget_ns, period_ns } => {
                (thread, Guarantee::Reservation(reservation("reservation", budget_ns, period_ns)?))
            }
            RawWant::Program { thread, budget_ns, period_ns, hard } => {
                let reservation = reservation("program", budget_ns, period_ns)?;
                let enforcement = if hard { Enforcement::Hard } else { Enforcement::Soft };
                (thread, Guarantee::Program { reservation, enforcement })
            }
            RawWant::Priority { thread, share_ppm } => {
                if !(LEAST_PRIORITY_SHARE..=1_000_000).contains(&share_ppm) {
                    let problem =
                        format!("{share_ppm}; it is from {LEAST_PRIORITY_SHARE} to 1000000");
                    return Err(malformed("share_ppm", problem));
                }
                (thread, Guarantee::Priority { share_ppm })
            }
        };
        let none =
            || malformed("thread", format!("{thread} is no thread's id: those are positive"));
        Ok(Self { thread: Tid::from_raw(thread).ok_or_else(none)?, what })
    }
}

fn reservation(
    field: &'static str,
    budget_ns: u64,
    period_ns: u64,
) -> Result<Reservation, Malformed> {
    let (budget, period) = (Service::from_nanos(budget_ns), Duration::from_nanos(period_ns));
    if period > LONGEST {
        return Err(malformed(field, too_long(period)));
    }
    Reservation::new(budget, period).map_err(|why: ReservationError| malformed(field, why))
}

fn too_long(period: Duration) -> String {
    format!("the period {period} is longer than {LONGEST}, the longest whose use can be watched")
}

/// Checks that a name is short and printable.
fn named(field: &str, name: String) -> Result<String, Malformed> {
    if name.len() > MAX_NAME || name.chars().any(char::is_control) {
        let problem =
            format!("the name must have at most {MAX_NAME} bytes and no control characters");
        return Err(malformed(field, problem));
    }
    Ok(name)
}

fn upcall(at: usize, raw: RawUpcall) -> Result<Upcall, Malformed> {
    let field = || format!("upcalls[{at}]");
    let RawUpcall { name, period_ns, batch, quantum, time_per_pdu_ns } = raw;
    let name = named(&field(), name)?;
    let period = Duration::from_nanos(period_ns);
    if period > LONGEST {
        return Err(malformed(field(), too_long(period)));
    }
    let time_per_pdu = Service::from_nanos(time_per_pdu_ns);
    Upcall::new(UpcallSpec { name, period, batch, quantum, time_per_pdu })
        .map_err(|why| malformed(field(), why))
}

impl From<&Want> for RawWant {
    fn from(want: &Want) -> Self {
        let thread = want.thread.as_raw();
        match &want.what {
            Guarantee::Upcalls(upcalls) => {
                Self::Upcalls { thread, upcalls: upcalls.iter().map(RawUpcall::from).collect() }
            }
            Guarantee::Reservation(reservation) => Self::Reservation {
                thread,
                budget_ns: reservation.budget().as_nanos(),
                period_ns: reservation.period().as_nanos(),
            },
            Guarantee::Priority { share_ppm } => Self::Priority { thread, share_ppm: *share_ppm },
            Guarantee::Program { reservation, enforcement } => Self::Program {
                thread,
                budget_ns: reservation.budget().as_nanos(),
                period_ns: reservation.period().as_nanos(),
                hard: *enforcement == Enforcement::Hard,
            },
        }
    }
}

impl From<&Upcall> for RawUpcall {
    fn from(upcall: &Upcall) -> Self {
        Self {
            name: upcall.name().into(),
            period_ns: upcall.period().as_nanos(),
            batch: upcall.batch().get(),
            quantum: upcall.quantum().get(),
            time_per_pdu_ns: upcall.time_per_pdu().as_nanos(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw_upcall() -> RawUpcall {
        RawUpcall {
            name: "sender".into(),
            period_ns: 40_000_000,
            batch: 8,
            quantum: 2,
            time_per_pdu_ns: 250_000,
        }
    }

    #[test]
    fn a_want_survives_the_wire() {
        for raw in [
            RawWant::Upcalls { thread: 7, upcalls: vec![raw_upcall()] },
            RawWant::Reservation { thread: 7, budget_ns: 2_000_000, period_ns: 8_000_000 },
            RawWant::Priority { thread: 7, share_ppm: 50_000 },
            RawWant::Program { thread: 7, budget_ns: 2_000_000, period_ns: 8_000_000, hard: true },
        ] {
            let want = Want::try_from(raw.clone()).expect("valid");
            assert_eq!(RawWant::from(&want), raw);
            assert!(want.what.share_ppm() > 0);
        }
    }

    #[test]
    fn an_error_is_named_with_its_place() {
        let upcalls = |upcalls| RawWant::Upcalls { thread: 7, upcalls };
        let late = RawUpcall { period_ns: u64::MAX, ..raw_upcall() };
        let second = RawUpcall { period_ns: LONGEST.as_nanos() + 1, ..raw_upcall() };
        let slow = LONGEST.as_nanos() + 1;
        let named = RawUpcall { name: "a\n".into(), ..raw_upcall() };
        for (raw, field) in [
            (upcalls(vec![]), "upcalls"),
            (upcalls(vec![raw_upcall(); MAX_UPCALLS + 1]), "upcalls"),
            (upcalls(vec![raw_upcall(), RawUpcall { batch: 0, ..raw_upcall() }]), "upcalls[1]"),
            (upcalls(vec![late]), "upcalls[0]"),
            (upcalls(vec![raw_upcall(), second]), "upcalls[1]"),
            (
                RawWant::Reservation { thread: 7, budget_ns: 2_000_000, period_ns: slow },
                "reservation",
            ),
            (upcalls(vec![named]), "upcalls[0]"),
            (RawWant::Reservation { thread: 7, budget_ns: 2, period_ns: 1 }, "reservation"),
            (RawWant::Program { thread: 7, budget_ns: 2, period_ns: 1, hard: false }, "program"),
            (RawWant::Priority { thread: 7, share_ppm: 0 }, "share_ppm"),
            (RawWant::Priority { thread: -1, share_ppm: 9_000 }, "thread"),
        ] {
            assert_eq!(Want::try_from(raw).expect_err(field).field, field);
        }
    }
}
