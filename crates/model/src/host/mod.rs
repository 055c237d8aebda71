//! The capacity of a host and the costs of its operations.
//!
//! [`HostProfile`] is the host as admission sees it. [`Calibration`] holds the measurements of a
//! host, with the distribution of each figure. Its file form is in `file`, its JSON in `serialize`, and
//! [`Calibration::profile`] converts it to a profile.

mod calibration;
mod file;
mod operation;
mod packets;
mod profile;
mod serialize;
mod spread;

pub use calibration::{Absent, CacheRefill, Calibration, Figure, HostIdentity, Run, SwitchCharge};
pub use file::MAX_ENTRIES;
pub use operation::Operation;
pub use packets::{ArrivalCost, MessageCost, ReceiveCharge, SendCharge};
pub use profile::{DeadlineLimits, HostProfile, ReceiveCosts};
pub use spread::{Percentile, Sampled, Spread, SpreadError, StepCharge, Under};
