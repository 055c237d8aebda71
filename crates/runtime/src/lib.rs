//! Drives the policies of `punctual-policy` on Linux.
//!
//! - [`upcalls`]: creates, admits, runs, changes and stops the upcalls of this process.
//! - [`placement`]: the kernel class under which they run.
//! - [`level_order`]: keeps the order of upcalls across processes with the kernel's FIFO queue.
//! - `run_loop`: one thread runs all upcalls of the process without a lock between them, and a
//!   guard goes on without a handler that does not return.
//! - [`reservation`]: CPU reservations for threads, processes and commands; time constraints.
//! - [`recording`]: writes the trace file of a run.
//! - [`callback`]: a periodic callback that measures how late it is woken.

pub mod callback;
pub mod level_order;
pub mod placement;
pub mod recording;
pub mod reservation;
mod run_loop;
pub mod upcalls;

pub use callback::Callback;
pub use placement::Placement;
pub use upcalls::{
    Activity, CreateError, Notice, NoticeKind, OrderError, Running, StartError, Stopped, Upcalls,
};
