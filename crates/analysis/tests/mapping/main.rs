//! The mapping of streams to upcalls and channels.

mod common;
mod derivation;
mod extremes;
mod simulation;
