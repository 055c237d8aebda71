//! What processes hand each other over a Unix socket, trusting each other or not: open files
//! ([`send`], [`receive`]), and a [`Bell`] to wake each other.

mod bell;
mod descriptors;
mod doorbell;
mod error;
#[cfg(test)]
mod tests;

pub use bell::{Bell, Heard};
pub use descriptors::{MOST, receive, refuse_files, send};
pub use doorbell::Doorbell;
pub use error::PassError;
