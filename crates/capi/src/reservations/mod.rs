//! CPU reservations, X every Y, and time constraints.
//!
//! In the order in which the header has them:
//! - `opening`: what gives them, in this process.
//! - `records`: what is asked, and how a reservation stands.
//! - `held`: a reservation of a thread or a process.
//! - `constraint`: this much work by then.

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
pub use records::{
    punctual_backend, punctual_enforcement, punctual_reservation_info, punctual_reserve,
};
