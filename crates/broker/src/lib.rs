//! The broker: real-time guarantees for users without privilege.
//!
//! One process holds the privilege and one ledger of everything that is granted on the host.
//! Clients send requests over a Unix socket. The broker checks each request against the user's
//! quota, admits it beside all live grants, and only then calls the kernel.
//!
//! Reading order:
//! - [`config`]: which user may have how much.
//! - [`admission`]: decides what fits beside the existing grants. Pure: no clock, no system call.
//! - `punctual_client`: the messages, and the library for programs that ask.
//! - [`ledger`]: the state that survives the broker's death. [`kernel`]: putting grants in force
//!   and taking them back.
//! - [`server`]: the loop that puts them together. [`parts`]: the processes beside it
//!   and the [`link`] to each: [`front`]
//!   handles everything that clients made, [`guard`] polices use, and `dispatcher` holds whole
//!   programs.
//! - [`log`]: the log for people to read.
//!
//! `docs/broker.md` says what is guaranteed and what is not.
#![forbid(unsafe_code)]

pub mod admission;
pub mod config;
mod dispatcher;
pub mod front;
pub mod guard;
pub mod kernel;
pub mod ledger;
pub mod link;
pub mod log;
mod pace;
pub mod parts;
pub mod server;

/// The default folder of the ledger: in memory that ends with the boot, as processes do.
pub const STATE: &str = "/run/punctual/state";

/// The default configuration file.
pub const CONFIG: &str = "/etc/punctual/broker.toml";
