//! The policies of `punctual-policy`, turned on Linux.
//!
//! - [`upcalls`]: create, admit, run, change and stop the upcalls of this process.
//! - [`placement`]: under which kernel class they run.
//! - [`ceiling`]: how the kernel's FIFO queue is made to keep the order of upcalls.
//! - [`turning`]: the loop: one thread, all upcalls of the process, no lock between them, and a
//!   guard that goes on without a handler that does not come back.
//! - [`reservation`]: CPU reservations for threads, processes and commands; time constraints.
//! - [`callback`]: a periodic callback that measures how late it is woken.

pub mod callback;
pub mod ceiling;
pub mod placement;
pub mod reservation;
mod turning;
pub mod upcalls;

pub use callback::Callback;
pub use placement::Placement;
pub use upcalls::{
    Activity, CreateError, Notice, NoticeKind, OrderError, Running, StartError, Stopped, Upcalls,
};
