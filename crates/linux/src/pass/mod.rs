//! Passing open files over a Unix socket ([`send`], [`receive`]), and bells with which processes
//! wake each other ([`Bell`], [`Doorbell`]), with or without mutual trust.

mod bell;
mod descriptors;
mod doorbell;
mod error;
#[cfg(test)]
mod tests;

pub use bell::{Bell, WaitOutcome};
pub use descriptors::{MOST, receive, refuse_files, send};
pub use doorbell::Doorbell;
pub use error::PassError;
