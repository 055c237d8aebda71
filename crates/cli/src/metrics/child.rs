//! Starts the process that serves a broker's metrics.
//!
//! It is a separate process, so that the program that untrusted clients connect to has none of the
//! broker's privileges, and a slow or hostile client takes none of the broker's time.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use punctual_linux::process::die_with_parent;

use super::address::Address;
use crate::exit::Failure;

/// Listens at `address` and starts the process, which dies with this one.
pub(crate) fn start(address: &Address, socket: &Path) -> Result<Child, Failure> {
    let listener = address.listen().map_err(|why| {
        Failure::cannot_here(format!(
            "{address}: cannot listen for metrics: {why}; choose another address"
        ))
    })?;
    let failed = |why: io::Error| Failure::cannot_here(format!("the metrics process: {why}"));
    let mut command = Command::new(std::env::current_exe().map_err(failed)?);
    command.args(["metrics", "--of-parent", "--broker"]).arg(socket).stdin(Stdio::from(listener));
    die_with_parent(&mut command);
    command.spawn().map_err(failed)
}

/// Logs an error if the process ends; the broker continues without it. Call this after the broker has
/// given up its privileges, because the waiting thread inherits those of its creator.
pub(crate) fn log_its_end(mut child: Child) {
    let waits = thread::Builder::new().name("metrics-end".into()).spawn(move || {
        let how = child.wait().map_or_else(|why| why.to_string(), |status| status.to_string());
        tracing::error!(how, "the metrics process has ended; the broker continues without it");
    });
    if let Err(why) = waits {
        tracing::warn!(%why, "the end of the metrics process will not be logged");
    }
}
