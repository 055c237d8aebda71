//! A request as it stands in a message, and its validation.

use std::fmt;

use punctual_linux::thread::Tid;
use punctual_model::{Duration, Reservation, ReservationError, Service, Upcall, UpcallSpec};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{Guarantee, LEAST_PRIORITY_SHARE, LONGEST, MAX_NAME, MAX_UPCALLS, Want};

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
}

impl RawWant {
    /// Returns the kernel id of the thread.
    pub fn thread(&self) -> i32 {
        let (Self::Upcalls { thread, .. }
        | Self::Reservation { thread, .. }
        | Self::Priority { thread, .. }) = self;
        *thread
    }

    /// Returns the same request for another thread.
    pub fn of(mut self, other: i32) -> Self {
        let (Self::Upcalls { thread, .. }
        | Self::Reservation { thread, .. }
        | Self::Priority { thread, .. }) = &mut self;
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

pub(super) fn malformed(field: impl Into<String>, problem: impl fmt::Display) -> Malformed {
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
                let (budget, period) =
                    (Service::from_nanos(budget_ns), Duration::from_nanos(period_ns));
                if period > LONGEST {
                    return Err(malformed("reservation", too_long(period)));
                }
                let reservation = Reservation::new(budget, period)
                    .map_err(|why: ReservationError| malformed("reservation", why))?;
                (thread, Guarantee::Reservation(reservation))
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

fn too_long(period: Duration) -> String {
    format!("the period {period} is longer than {LONGEST}, the longest whose use can be watched")
}

/// Checks that a name is short and printable.
pub(super) fn named(field: &str, name: String) -> Result<String, Malformed> {
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
