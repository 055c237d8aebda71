//! Observation of the kernel: the evidence for the causes of late jobs, collected on a live host.
//!
//! ```text
//! collector   the kernel's records: a BPF program, a ring buffer, drained a few times a second
//! record      the same as types of `trace::kernel`
//! followed    the threads of processes and of their descendants (/proc), and how these change
//! threads     records -> each thread's use of time -> events of its jobs
//! seen        the observations of a session, for a trace file
//! session     followed threads -> late jobs -> verdicts
//! fitting     records -> the jobs of each thread, for its needs
//! inject      deliberate trouble, to see its effect
//! hold        deliberate trouble for one process
//! ```
//!
//! All decisions are pure and in `trace`; this crate connects them to the host's clock and kernel.

mod collector;
mod fitting;
pub mod followed;
pub mod hold;
pub mod inject;
mod record;
mod seen;
mod session;
mod threads;

pub use collector::{CollectError, Collector, Counts, hidden_without};
pub use fitting::{Fitting, Promised, SeenThread};
pub use seen::Seen;
pub use session::{Ended, Judging, Session};
pub use threads::{Came, Threads};

pub use punctual_trace::cause::{Release, Rhythm, Taken, Verdict};
