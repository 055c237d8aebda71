//! The soft modem study (Jones and Saroiu, "Predictability Requirements of a Soft Modem"): the
//! effect on a call, and on everything beside it, of serving a soft device in a hard interrupt, a
//! softirq, a thread or a reserved thread.
//!
//! - [`live`]: on this host.
//! - [`map`]: in virtual time, with [`virtual_time`]'s devices, drivers and services.
//! - [`call`]: a file over real modems, for both of them.
//! - [`page`]: both on one page.
//! - [`command`]: both as subcommands.

pub mod call;
pub mod command;
pub mod live;
pub mod map;
pub mod page;
pub mod virtual_time;
