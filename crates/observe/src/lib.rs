//! What the kernel did meanwhile: the evidence of late jobs, collected on a live host.
//!
//! ```text
//! collector   the kernel's records: a BPF program, a ring buffer, drained a few times a second
//! record      the same as types of `trace::kernel`
//! followed    the threads of processes and of what they start (/proc)
//! threads     records -> where each thread's time went -> events of its jobs
//! seen        what a session saw, for a trace file
//! session     threads that are followed -> late jobs -> verdicts
//! recorder    the file of a run, as it grows
//! run         what run that is: command, host, clock
//! fitting     records -> the jobs of each thread, for what it needs
//! inject      trouble on purpose, to see what it does
//! ```
//!
//! All that decides is pure and in `trace`; here it meets the host's clock and kernel.

mod collector;
mod fitting;
mod followed;
pub mod inject;
mod record;
mod recorder;
mod run;
mod seen;
mod session;
mod threads;

pub use collector::{CollectError, Collector, Counts};
pub use fitting::{Fitting, Promised, SeenThread};
pub use recorder::{Existing, RecordError, Recorder};
pub use run::{run_here, run_in_virtual_time};
pub use seen::Seen;
pub use session::{Ended, Session};
pub use threads::{Came, Threads};

pub use punctual_trace::cause::Verdict;
