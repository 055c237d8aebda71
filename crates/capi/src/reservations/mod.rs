//! Exports CPU reservations, X every Y, and time constraints.
//!
//! In the order of the header:
//! - `opening`: the handle that gives them, in this process.
//! - `records`: the request, and the state of a reservation.
//! - `held`: a reservation of a thread or a process.
//! - `constraint`: time constraints.

mod opening;

mod records;

mod held;

mod constraint;

pub use constraint::{
    punctual_constraint, punctual_constraint_begin, punctual_constraint_end, punctual_used,
};
pub use held::{
    punctual_reservation, punctual_reservation_because, punctual_reservation_change,
    punctual_reservation_get, punctual_reservation_next, punctual_reservation_release,
    punctual_reserve_process, punctual_reserve_thread,
};
pub use opening::{
    punctual_reservation_options, punctual_reservations, punctual_reservations_free,
    punctual_reservations_open,
};
pub(crate) use records::reservation;
pub use records::{
    punctual_backend, punctual_enforcement, punctual_reservation_info, punctual_reserve,
};
