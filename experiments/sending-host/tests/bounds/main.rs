//! Compares bounds of channels with a host simulated event by event.

mod host;
mod simulation;
mod trends;
