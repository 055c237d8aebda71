//! What the broker is told when it starts.

use std::path::PathBuf;
use std::process::Command;

use punctual_model::Service;

use crate::parts::Part;

/// Where everything is.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration; the defaults hold if there is no such file and `config_must_exist` is false.
    pub config: PathBuf,
    /// Whether somebody named the configuration.
    pub config_must_exist: bool,
    /// Where clients connect, unless the service manager passes a socket.
    pub socket: PathBuf,
    /// The folder of the ledger.
    pub state: PathBuf,
    /// What this host was measured to need, if it was and still is that host.
    pub measured: Option<Measured>,
    /// Says how this program is run again with a role, in which it calls [`Part::run`].
    pub part: fn(Part) -> Command,
}

/// The part of a host profile that admission uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Processor time of a switch between two threads, charged twice a job.
    pub context_switch: Option<Service>,
    /// How late its timer wakes a thread.
    pub wake_up: Option<Service>,
    /// Processor time of a packet that the channels' thread wakes up for.
    pub per_packet: Option<Service>,
    /// Processor time of one that comes in, from its socket to its client's queue.
    pub per_packet_received: Option<Service>,
    /// Which profile, in words: what status says.
    pub source: String,
}
