//! What a reservation supplies, and what fits into it.

#[path = "../common/mod.rs"]
mod common;

mod bound;
mod constraints;
mod inside;
mod region;
mod timetable;
