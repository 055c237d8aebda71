//! Exports for Prometheus what a broker has granted and refused, and how late contracted work was.
//!
//! - [`Source`]: collects the numbers and renders them as a page.
//! - [`Format`]: the two formats of a page.
//! - [`Address`]: the address to listen on.
//! - [`serve`]: answers scrapes.
//!
//! # Examples
//! ```no_run
//! use std::sync::Arc;
//! use punctual::metrics::{Address, Source, serve};
//! use punctual::watch::Jobs;
//!
//! let listener = "127.0.0.1:9464".parse::<Address>()?.listen()?;
//! let report = |why: &_| eprintln!("the broker does not answer: {why}");
//! let source = Source::new("/run/punctual/broker.sock".into(), None, report);
//! let source = Arc::new(source);
//! source.watch(Jobs::start())?;
//! match serve(listener, move |format| source.page(format))? {}
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod format;
mod http;
mod page;
mod request;
mod source;

pub use address::{Address, AddressError, ListenError};
pub use format::Format;
pub use http::serve;
pub use source::Source;
