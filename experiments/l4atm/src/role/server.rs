//! The channel server, as `punctual serve` runs it.

use std::path::Path;
use std::process::Command;

use punctual_broker::parts::Part;
use punctual_broker::server::{Options, Server};
use tracing_subscriber::filter::LevelFilter;

use crate::Error;

/// Serves from `folder`. Warnings go to standard error; each grant would be a line.
pub(super) fn serve(folder: &Path) -> Result<(), Error> {
    let level = LevelFilter::WARN;
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    let server = Server::open(Options {
        config: folder.join("broker.toml"),
        config_must_exist: true,
        socket: folder.join("socket"),
        state: folder.join("state"),
        measured: None,
        part: again,
    })?;
    Ok(server.run()?)
}

/// Returns a command that runs this program as a part of the server.
fn again(part: Part) -> Command {
    let role = super::Role::Part { name: part.name().into() };
    let mut command = Command::new("/proc/self/exe");
    // Cannot fail: a name is text.
    command.arg("role").arg(serde_json::to_string(&role).unwrap_or_default());
    command
}

pub(super) fn be_part(name: &str) -> Result<(), Error> {
    Ok(Part::of_name(name).ok_or("no part of a server has this name")?.run()?)
}
