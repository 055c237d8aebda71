//! What processes hand each other over a Unix socket, trusting each other or not: open files
//! ([`send`], [`receive`]), a [`Bell`] to wake each other, and a [`Doorbell`] to wake who trusts nobody.

mod bell;
mod descriptors;
mod doorbell;
mod error;
#[cfg(test)]
mod tests;

pub use bell::{Bell, Heard};
pub use descriptors::{MOST, receive, send};
pub use doorbell::Doorbell;
pub use error::PassError;
