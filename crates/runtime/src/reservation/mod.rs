//! CPU reservations, live: X every Y for a thread, a process with everything it has and makes, or a
//! command; and time constraints between them.
//!
//! Two back ends. [`choose()`] says which one holds what, and why:
//!
//! - The kernel's SCHED_DEADLINE, for the calling thread.
//! - A timetable (`analysis::supply`, [`punctual_policy::table_dispatcher`]) that a *dispatcher* thread follows
//!   on its CPU, at SCHED_FIFO [`DISPATCHER`]. An owner is at [`IN_SLOT`] in its slots. Outside them a
//!   soft owner is an ordinary program, a hard one is frozen. The dispatcher wakes by a high-resolution
//!   timer and preempts the owner, so keeping the budget needs nobody's cooperation.
//!
//! What holds: X in every window `[T, T + Y)`, from [`Held::since`] on, also while others come and
//! go, as far as the dispatcher is on time; `docs/reservations.md` has the proofs, `docs/CAVEATS.md`
//! what can make it late.
//!
//! What is left behind by whoever is killed is put back by a guard process
//! ([`punctual_linux::process::Guard`]).
//!
//! Reading order: [`choose()`], [`reservations`], `room`, [`held`], `lane`, `dispatcher`, `owner`, `before`, [`current`],
//! [`constraint`], `asked`; `settings`, `kernel_offer`.

mod asked;
mod before;
pub mod choose;
pub mod constraint;
pub mod current;
mod dispatcher;
mod error;
pub mod held;
mod kernel_offer;
mod lane;
mod mailbox;
mod owner;
pub mod reservations;
mod room;
mod settings;

pub use asked::Told;
pub use choose::{Backend, Choice, Facts, Kind, Unsuitable, Wish, choose};
pub use constraint::{Constraint, Used};
pub use current::{Adapted, Reserved};
pub use error::{Refused, StartError};
pub use held::Held;
pub use kernel_offer::KernelOffer;
pub use owner::{DISPATCHER, IN_SLOT};
pub use reservations::{Reservations, Subject};
pub use room::Room;
pub use settings::{Measured, Settings};
