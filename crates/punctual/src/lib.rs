//! Gives periodic work real-time guarantees on stock Linux.
//!
//! A contract declares what work needs. [`admit`] says whether it fits on a host, with the numbers, or refuses it
//! with a counter-offer. The programs of this project render what these functions return.
//!
//! - [`contract`]: reads what is declared.
//! - [`host`]: knows what this host's operations cost, and where that is from.
//! - [`calibrate`]: measures them.
//! - [`doctor`]: tries what this host can promise, and says what to change.
//! - [`explore`]: finds what else would fit.
//! - [`simulate`]: runs a contract in virtual time.
//! - [`fit`]: proposes a reservation for a program that it watches.
//! - [`run`]: runs programs under reservations.
//! - [`verify`]: runs what a contract declares, and says of each promise whether it was kept.
//! - [`why`]: says why jobs were late.
//! - [`trace`]: reads trace files.
//! - [`model`], [`analysis`]: the types of contracts, and what fits together.
//!
//! # Examples
//! ```
//! use punctual::model::{Contract, HostProfile};
//!
//! let contract = Contract::parse(
//!     "audio.toml",
//!     br#"
//!     [[task]]
//!     name = "mixer"
//!     period = "10ms"
//!     wcet = "2ms"
//!     "#,
//! )?;
//! let grant = punctual::admit(&contract, &HostProfile::ideal(1)).expect("a fifth of a CPU fits");
//! assert_eq!(grant.tasks.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod calibrate;
pub mod contract;
pub mod doctor;
pub mod explore;
mod failure;
pub mod fit;
pub mod host;
pub mod program;
pub mod run;
pub mod simulate;
pub mod trace;
pub mod verify;
pub mod why;

pub use failure::Failure;
pub use punctual_analysis as analysis;
pub use punctual_analysis::admit;
pub use punctual_model as model;
