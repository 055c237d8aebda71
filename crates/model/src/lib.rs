//! The types of the system: time, tasks, upcalls, reservations, contracts.
//!
//! Everything here is pure. A value of one of these types is valid by construction: every
//! constructor checks, so no other crate checks again.
//!
//! Reading order: [`time`], [`task`], [`upcall`], [`overrun`], [`best_effort`], [`reservation`],
//! [`handler`], [`contract`]. Then [`channel`]: declared traffic and the costs of sending it;
//! [`stream`]: the data of an application in its own terms.
//!
//! # Conventions
//! - Intervals are half-open, `[start, end)`.
//! - [`Rank`] is the one priority direction: rank 0 is the most urgent.
//! - A deadline is met when the job completes at or before its absolute deadline.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod best_effort;
pub mod channel;
pub mod command;
pub mod contract;
pub mod handler;
pub mod host;
pub mod overrun;
pub mod rank;
pub mod reservation;
pub mod rt_app;
pub mod stream;
pub mod task;
pub mod text_file;
pub mod time;
pub mod timetable;
pub mod units;
pub mod upcall;

pub use best_effort::{BestEffort, BestEffortError, BestEffortSpec};
pub use command::{Command, CommandError, CommandSpec};
pub use contract::{Contract, Policy};
pub use handler::Handler;
pub use host::{DeadlineLimits, HostProfile};
pub use overrun::Overrun;
pub use rank::Rank;
pub use reservation::{Enforcement, Reservation, ReservationError};
pub use stream::{Stream, StreamClass, StreamError, StreamSpec};
pub use task::{Backlog, JobId, Task, TaskError, TaskSpec};
pub use text_file::FileError;
pub use time::{Duration, Instant, Service};
pub use timetable::{Slot, Timetable, TimetableError};
pub use upcall::{Upcall, UpcallError, UpcallSpec};
