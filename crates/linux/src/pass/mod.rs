//! Passing open files over a Unix socket ([`send`], [`receive`]), and bells with which processes
//! wake each other ([`Bell`], [`Doorbell`]), with or without mutual trust.

mod bell;
mod descriptors;
#[cfg(test)]
mod tests;

pub use bell::{Bell, Doorbell, WaitOutcome};
pub use descriptors::{MOST, PassError, receive, refuse_files, send};
