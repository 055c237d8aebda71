//! `punctual run` on live programs. No test asserts a duration.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

mod awake;
mod broker;
mod channel;
#[path = "../common/mod.rs"]
mod common;
mod contract;
mod ends;
mod kernel;
mod live;
mod profile;
mod programs;
mod server;
mod timetable;
mod usage;
