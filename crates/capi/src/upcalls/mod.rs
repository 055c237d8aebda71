//! Exports the upcalls of a process.
//!
//! - `options`, `contract`, `handler`: the program's input.
//! - `notice`, `records`: the results.
//! - `life`: open, create, run, stop, free.
//! - `orders`: suspend, resume, change, close, wait.
//! - `queries`: activity, notices, events, statistics.
//! - `state`, `post`, `tally`: the implementation of the handle.

mod contract;
mod handler;
mod life;
mod notice;
mod options;
mod orders;
mod post;
mod queries;
mod records;
mod state;
mod tally;

pub(crate) use contract::{after, from_now_on, within};
pub use contract::{punctual_best_effort, punctual_contract, punctual_overrun};
pub use handler::{PUNCTUAL_DONE, punctual_commit, punctual_handler, punctual_iterate};
pub use life::{
    punctual_create, punctual_create_best_effort, punctual_free, punctual_open, punctual_run,
    punctual_stop,
};
pub use notice::{
    punctual_activity, punctual_notice, punctual_notice_kind, punctual_on_notice, punctual_waited,
};
pub use options::{punctual_flags, punctual_options, punctual_placement};
pub use orders::{
    punctual_change, punctual_close, punctual_resume, punctual_suspend, punctual_wait,
};
pub use queries::{
    punctual_activity_of, punctual_drain, punctual_forget, punctual_get_stats, punctual_notices,
};
pub use records::{
    punctual_event, punctual_event_kind, punctual_stats, punctual_stopped, punctual_times,
};
pub use state::punctual_upcalls;
