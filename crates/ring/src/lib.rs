//! Lock-free queues. This crate imports nothing, and is one of the few where `unsafe` lives.
//!
//! - [`lease`]: a value with one owner at a time, which can be seized while it is lent.
//! - [`frames`]: messages between two processes that do not trust each other, in place.
//! - [`releases`]: who waits for the CPU, in words that processes share.
//! - [`spsc`]: from one thread to another, dropping (and counting) what does not fit.

pub mod frames;
pub mod lease;
pub mod releases;
pub mod spsc;
