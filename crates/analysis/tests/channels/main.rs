//! Bounds of channels against a host simulated event by event.

mod buffers;
mod host;
mod simulation;
mod trends;
