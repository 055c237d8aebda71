//! The broker: real-time guarantees for users without privilege.
//!
//! One process holds the privilege and one ledger of everything that is granted on the host. Its
//! clients ask over a Unix socket; each request is admitted beside all grants that live, within the
//! quota of who asks, and only then the kernel is told.
//!
//! Reading order:
//! - [`want`]: what can be asked for; [`config`]: who may have how much.
//! - [`admission`]: what fits beside what is granted. Pure: no clock, no system call.
//! - [`wire`]: the messages. [`client`]: the library for those who ask.
//! - [`ledger`]: what survives the broker's death. [`kernel`]: giving and taking back.
//! - [`server`]: the loop that puts them together. [`parts`]: the processes beside it, of which
//!   [`front`] touches what clients made, and [`guard`] looks at what is used.
//! - [`log`]: what is written for people to read.
//!
//! What is guaranteed and what is not is in `docs/broker.md`.
#![forbid(unsafe_code)]

pub mod admission;
pub mod client;
pub mod config;
pub mod front;
pub mod grant;
pub mod guard;
pub mod kernel;
pub mod ledger;
pub mod log;
mod pace;
pub mod parts;
pub mod server;
pub mod want;
pub mod wire;

/// Where the broker listens unless told otherwise.
pub const SOCKET: &str = "/run/punctual/broker.sock";

/// Where it keeps its ledger: in memory that ends with the boot, as processes do.
pub const STATE: &str = "/run/punctual/state";

/// Where its configuration is.
pub const CONFIG: &str = "/etc/punctual/broker.toml";
