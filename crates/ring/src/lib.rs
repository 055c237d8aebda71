//! Lock-free queues. This crate imports nothing, and is one of the few where `unsafe` lives.
//!
//! - [`spsc`]: from one thread to another, dropping (and counting) what does not fit.

pub mod spsc;
