//! The arguments with which the broker starts.

use std::path::PathBuf;
use std::process::Command;

use punctual_model::Service;

use crate::link::Part;

/// The paths and measurements that the broker uses.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration; the defaults hold if there is no such file and `config_must_exist` is
    /// false.
    pub config: PathBuf,
    /// Whether the user named the configuration.
    pub config_must_exist: bool,
    /// The path to which clients connect, unless the service manager passes a socket.
    pub socket: PathBuf,
    /// The folder of the ledger.
    pub state: PathBuf,
    /// The measured costs of this host, if they were measured and still apply to it.
    pub measured: Option<Measured>,
    /// Returns the command that runs this program again with a role, in which it calls
    /// [`Part::run`].
    pub part: fn(Part) -> Command,
}

/// The part of a host profile that admission uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// Processor time of a switch between two threads, charged twice a job.
    pub context_switch: Option<Service>,
    /// The delay of waking a thread by timer.
    pub wake_up: Option<Service>,
    /// Processor time of a packet for which the channels' thread wakes up.
    pub per_packet: Option<Service>,
    /// Processor time of a packet that comes in, from its socket to its client's queue.
    pub per_packet_received: Option<Service>,
    /// The profile, in words, for status.
    pub source: String,
}
