//! Processes: children that run under a reservation, die with us and report their usage; the
//! threads of other processes; and a guard that restores them if we die.

mod guard;
mod introduce;
mod limits;
mod signals;
mod spawn;
mod threads;
mod wait;

pub use guard::Guard;
pub use introduce::{Introduced, introduce_on_exec};
pub use limits::{Limit, limit_of};
/// The kernel's reason for a refusal.
pub use rustix::io::Errno;
pub use rustix::process::Signal;
pub use signals::{Blocked, Caught, SignalError, send, send_to, unblock_all_on_exec};
pub use spawn::{
    ReserveOnExec, SpawnError, allow_huge_pages_on_exec, die_with_parent, join_on_exec,
    reserve_on_exec, spawn_reserved,
};
pub use threads::{
    lower, lower_alone, of as threads_of, parse_start, pin, process_of, raise, raise_alone,
    start_of,
};
pub use wait::{Ended, Handle, Usage, is_stopped, poll, wait_for_one};
