//! The channel server, as `punctual serve` runs it.

use std::path::Path;

use punctual_broker::server::{Options, Server};
use tracing_subscriber::filter::LevelFilter;

use crate::Error;

/// Warnings go where our errors go; each grant would be a line.
pub(super) fn serve(folder: &Path) -> Result<(), Error> {
    let level = LevelFilter::WARN;
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    let server = Server::open(Options {
        config: folder.join("broker.toml"),
        config_must_exist: true,
        socket: folder.join("socket"),
        state: folder.join("state"),
        measured: None,
    })?;
    Ok(server.run()?)
}
