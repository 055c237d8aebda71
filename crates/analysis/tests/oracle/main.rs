//! Each exact test against a slow and obvious one, on random small systems.

#[path = "../common/mod.rs"]
mod common;

mod demand;
mod edf_response;
mod fifo;
mod fixed_priority;
mod kernel_reservations;
mod last_segment;
mod suspension;
