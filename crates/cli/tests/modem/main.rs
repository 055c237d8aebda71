//! `punctual modem` and the programs that use its ttys. Nothing here asserts how long anything
//! takes, but for limits that a modem of 2400 bit/s keeps many times over.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

mod bank;
mod client;
#[path = "../common/mod.rs"]
mod common;
mod network;
mod pair;
mod programs;
mod recording;
mod started;
