//! The study in virtual time: a device whose interrupts depend on the clock alone, and a driver
//! that serves it when a model of its context lets it.
//!
//! Everything is a function of its arguments and seeds: no clock is read.
//!
//! - [`device`]: the samples of a device, their work, and the losses of a card.
//! - [`service`]: the times at which the driver has the processor: reservations early, late and at
//!   a fixed place, with or without an ordinary thread's turns outside.
//! - [`driver`]: one call of a device, with its losses counted.
//! - [`contexts`]: models of interrupt, deferred call, thread and reserved thread.
//! - [`mod@transfer`]: a file over two real modems, one of them driven in this way.

pub mod contexts;
pub mod driver;
pub mod service;
pub mod transfer;
