//! From what an application knows to what the machine needs.

mod common;
mod derivation;
mod extremes;
mod simulation;
