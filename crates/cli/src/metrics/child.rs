//! The process that answers for a broker's metrics.
//!
//! A process of its own: what strangers may talk to has none of the broker's privileges, and a scraper
//! that is slow or hostile takes none of its time.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use punctual_linux::process::die_with_parent;

use super::address::Address;
use crate::exit::Failure;

/// Listens at `address` and starts it. It dies with us.
pub(crate) fn start(address: &Address, socket: &Path) -> Result<Child, Failure> {
    let listener = address.listen().map_err(|why| {
        Failure::cannot_here(format!(
            "{address}: metrics cannot be asked for there: {why}; choose another address"
        ))
    })?;
    let failed = |why: io::Error| Failure::cannot_here(format!("what answers for metrics: {why}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["metrics", "--of-parent", "--broker"]).arg(socket).stdin(Stdio::from(listener));
    die_with_parent(&mut command);
    command.spawn().map_err(failed)
}

/// Says so if it ends: the broker goes on without it. Call it when the broker has given up its
/// privileges, for the thread that waits has what its maker has.
pub(crate) fn tell_its_end(mut child: Child) {
    let waits = thread::Builder::new().name("metrics-end".into()).spawn(move || {
        let how = child.wait().map_or_else(|why| why.to_string(), |status| status.to_string());
        tracing::error!(how, "what answers for metrics has ended; the broker goes on without it");
    });
    if let Err(why) = waits {
        tracing::warn!(%why, "nobody will say if what answers for metrics ends");
    }
}
