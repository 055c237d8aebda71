//! What the kernel did meanwhile: the evidence of late jobs, collected on a live host.
//!
//! ```text
//! collector   the kernel's records: a BPF program, a ring buffer, drained a few times a second
//! record      the same as types of `trace::kernel`
//! followed    the threads of processes and of what they start (/proc)
//! session     records -> where each thread's time went -> jobs -> late ones -> verdicts
//! inject      trouble on purpose, to see what it does
//! ```
//!
//! All that decides is pure and in `trace`; here it meets the host's clock and kernel.

mod collector;
mod followed;
pub mod inject;
mod record;
mod session;

pub use collector::{CollectError, Collector, Counts};
pub use session::{Ended, Session};

pub use punctual_trace::cause::Verdict;
