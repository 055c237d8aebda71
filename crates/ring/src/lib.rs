//! Lock-free queues. This crate imports nothing, and is one of the few where `unsafe` lives.
//!
//! - [`releases`]: who waits for the CPU, in words that processes share.
//! - [`spsc`]: from one thread to another, dropping (and counting) what does not fit.

pub mod releases;
pub mod spsc;
