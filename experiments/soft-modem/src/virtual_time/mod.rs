//! The study in virtual time: a device whose interrupts the clock alone makes, and a driver that
//! serves it when a model of its context lets it.
//!
//! Everything is a function of its arguments and seeds: no clock is read.
//!
//! - [`device`]: what comes in, how much work it is, and what a card loses.
//! - [`service`]: when the driver has the processor: reservations early, late and at a fixed place,
//!   with or without an ordinary thread's turns outside.
//! - [`driver`]: one call of a device, counted: how much was lost.
//! - [`contexts`]: interrupt, deferred call, thread and reserved thread as such models.
//! - [`mod@transfer`]: a file over two real modems, one of them so driven.

pub mod contexts;
pub mod device;
pub mod driver;
pub mod service;
pub mod transfer;
