//! The costs of operations on this host. Each function takes samples for a given length of time, on
//! threads of its own, and returns them unsorted; the caller judges them.
//!
//! Two threads that take turns are bound to one CPU and, if they may, run at one SCHED_FIFO
//! priority, so that no ordinary thread comes between. They keep that CPU busy: measure in bursts
//! of some tens of milliseconds, with pauses in which other threads can run. Every loop ends by the
//! clock, so no thread spins on if its partner is gone.

mod cache;
mod halting;
mod operations;
mod seat;
mod wakeup;

pub use cache::WorkingSets;
pub use halting::{Halting, Timers, halting};
pub use operations::{
    clock_read, hand_off, page_fault, priority_change, process_switch, system_call, thread_switch,
};
pub use seat::{MeasureError, PRIORITY, Seat};
pub use wakeup::wakeup;

#[cfg(test)]
mod tests;
