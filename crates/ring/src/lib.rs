//! Lock-free queues and tables. This crate imports nothing, and is one of the few that contain
//! `unsafe` code.
//!
//! - [`lease`]: a value with one owner at a time, which another thread can seize while it is lent.
//! - [`frames`]: messages between two processes that do not trust each other, written and read in
//!   place.
//! - [`releases`]: the releases for which threads wait, in words that processes share.
//! - [`spsc`]: a queue between two threads that drops, and counts, the items that do not fit.

pub mod frames;
pub mod lease;
pub mod releases;
pub mod spsc;
