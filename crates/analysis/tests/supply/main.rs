//! The supply of a reservation, and the load that fits into it.

#[path = "../common/mod.rs"]
mod common;

mod bound;
mod constraints;
mod inside;
mod region;
mod timetable;
