//! Admission from the user's point of view: decisions, numbers, offers, and the time they take.

#[path = "../common/mod.rs"]
mod common;

mod decisions;
mod extremes;
mod incremental;
mod joint;
mod offers;
mod random_runs;
mod sufficient_tests;
