//! Bounds of channels against a host simulated event by event.

mod host;
mod simulation;
mod trends;
