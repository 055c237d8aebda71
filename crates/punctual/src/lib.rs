//! Gives periodic work real-time guarantees on stock Linux.
//!
//! A contract declares what periodic work needs. [`admit`] decides whether it fits on a host: it
//! returns the numbers, or a refusal with a counter-offer. The command-line programs of this
//! project only render the results of these functions.
//!
//! - [`contract`]: reads contract files.
//! - [`admission`]: the answer to a contract with its explanation, for a person or as JSON.
//! - [`host`]: chooses the host profile, which holds the measured costs of this host's operations.
//! - [`calibrate`]: measures a host profile and writes its file.
//! - [`doctor`]: tries out which promises this host can keep, and says what to change.
//! - [`explore`]: studies how much work of a kind would be admitted.
//! - [`simulate`]: runs a contract in virtual time.
//! - [`fit`]: watches a program and proposes a reservation for it.
//! - [`program`]: names a program or process to watch.
//! - [`run`]: runs programs under reservations.
//! - [`verify`]: runs everything in a contract, and says for each promise whether it was kept.
//! - [`watch`]: watches what the broker has granted and what jobs do, as it changes.
//! - [`metrics`]: exports for Prometheus what a broker has granted and how late work was.
//! - [`why`]: explains why jobs were late.
//! - [`trace`], [`export`]: reads trace files, and converts them for other tools.
//! - [`refusal`]: refusals in the form in which programs read them.
//! - [`file`]: writes files that take their place only when they are complete.
//! - [`model`], [`analysis`]: the types of contracts, and the admission tests.
//!
//! # Features
//! All are on by default. A program that leaves them out links no C library but the C library.
//!
//! - `kernel`: watches the kernel by BPF, which needs libelf and zlib: [`fit`], [`program`],
//!   [`verify`], [`watch`], and [`why::watch`].
//! - `explore`, `export`, `metrics`: the modules of these names.
//!
//! Most functions return [`Failure`] as their error: a message for a person, with its kind. Where a
//! remedy has another name in each front end, the message has it as a [`Remedy`] too.
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

pub mod admission;
pub mod calibrate;
pub mod contract;
pub mod doctor;
#[cfg(feature = "explore")]
pub mod explore;
#[cfg(feature = "export")]
pub mod export;
mod failure;
pub mod file;
#[cfg(feature = "kernel")]
pub mod fit;
pub mod host;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "kernel")]
pub mod program;
pub mod refusal;
pub mod run;
pub mod simulate;
pub mod trace;
#[cfg(feature = "kernel")]
pub mod verify;
#[cfg(feature = "kernel")]
pub mod watch;
pub mod why;

pub use failure::{Failure, Message, Remedy};
pub use punctual_analysis as analysis;
pub use punctual_analysis::admit;
pub use punctual_model as model;
