//! Child processes: that run under a reservation, die with us, and tell what they used.

mod signals;
mod spawn;
mod wait;

pub use rustix::process::Signal;
pub use signals::{Blocked, Caught, SignalError, send};
pub use spawn::{ReserveOnExec, SpawnError, die_with_parent, reserve_on_exec, spawn_reserved};
pub use wait::{Ended, Usage, poll};
