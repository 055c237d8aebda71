//! Admission as its users see it: decisions, numbers, offers, and how long they take to come.

#[path = "../common/mod.rs"]
mod common;

mod decisions;
mod extremes;
mod incremental;
mod joint;
mod offers;
mod random_runs;
mod sufficient_tests;
