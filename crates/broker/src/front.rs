//! The part of the broker that touches what clients made.

use crate::parts::{Link, LinkError};

/// Serves until the broker is gone.
///
/// # Errors
/// If the link to the broker fails.
pub fn run(link: Link) -> Result<(), LinkError> {
    let mut buffer = [0; 64];
    while link.receive::<()>(&mut buffer)?.is_some() {}
    Ok(())
}
