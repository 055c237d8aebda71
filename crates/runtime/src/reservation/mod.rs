//! CPU reservations, live: a budget in every period for a thread, a process with all its threads
//! and children, or a command; and time constraints between them.
//!
//! There are three back ends. [`choose()`] decides which of the first two holds a reservation, and
//! gives the reason; a server is asked for ([`choose_server`]):
//!
//! - The kernel's SCHED_DEADLINE, for the calling thread.
//! - A timetable (`analysis::supply`, [`punctual_policy::table_dispatcher`]) that a *dispatcher*
//!   thread follows on its CPU, at SCHED_FIFO [`DISPATCHER`]. An owner is at [`IN_SLOT`] in its
//!   slots. Outside them a soft owner is an ordinary program, and a hard one is frozen. The
//!   dispatcher wakes by a high-resolution timer and preempts the owner, so keeping the budget does
//!   not depend on the owner's cooperation.
//!
//! - A deferrable server, for a program with all that it starts ([`Reservations::make_room_for_server`]):
//!   while its budget lasts it has a level of SCHED_FIFO, so it runs when it wakes, and beyond it
//!   is an ordinary program until the next period.
//!
//! The guarantee of a timetable: an owner gets its budget X in every window `[T, T + Y)`, from [`Held::since`] on,
//! also while other owners come and go, as far as the dispatcher is on time. `docs/reservations.md`
//! has the proofs; `docs/CAVEATS.md` says what can make the dispatcher late.
//!
//! If a process is killed, a guard process ([`punctual_linux::process::Guard`]) restores what it
//! leaves behind.
//!
//! Reading order: [`choose()`], [`reservations`], `room`, [`held`], `lane`, `dispatcher`, `owner`,
//! `server`, [`confined`], [`current`], [`constraint`], `requests`; `settings`, `kernel_offer`.

pub mod choose;
pub mod confined;
pub mod constraint;
pub mod current;
mod dispatcher;
mod error;
pub mod held;
mod lane;
mod mailbox;
mod owner;
pub mod requests;
mod reservations;
mod server;
mod settings;

pub use choose::{Backend, Choice, Facts, Kind, Unsuitable, Wish, choose, choose_server};
pub use confined::{Breakout, Confined, MOST_THREADS};
pub use constraint::{Constraint, Used};
pub use current::{Adapted, Reserved};
pub use error::{KernelOffer, Refused, StartError};
pub use held::Held;
pub use lane::Room;
pub use owner::{DISPATCHER, IN_SLOT};
pub use requests::Drained;
pub use reservations::{Reservations, Subject};
pub use settings::{Measured, Settings};
