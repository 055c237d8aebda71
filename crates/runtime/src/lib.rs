//! The policies of `punctual-policy`, turned on Linux.
//!
//! - [`upcalls`]: create, admit, run, change and stop the upcalls of this process.
//! - [`placement`]: under which kernel class they run.
//! - [`level_order`]: how the kernel's FIFO queue is made to keep the order of upcalls.
//! - [`run_loop`]: the loop: one thread, all upcalls of the process, no lock between them, and a
//!   guard that goes on without a handler that does not come back.
//! - [`reservation`]: CPU reservations for threads, processes and commands; time constraints.
//! - [`callback`]: a periodic callback that measures how late it is woken.

pub mod callback;
pub mod level_order;
pub mod placement;
pub mod reservation;
mod run_loop;
pub mod upcalls;

pub use callback::Callback;
pub use placement::Placement;
pub use upcalls::{
    Activity, CreateError, Notice, NoticeKind, OrderError, Running, StartError, Stopped, Upcalls,
};
