//! The sending host of real-time channels (structuring communication software for quality of
//! service): a host whose processor makes packets while its link sends others.
//!
//! Punctual admits and runs no such host: a channel server on a stock kernel makes a packet by
//! handing it over ([`punctual_policy::egress`], [`punctual_analysis::channel::egress`]). It is
//! here to be studied and compared with the server.
//!
//! - [`policy`]: the decisions of the host. Logical arrivals (§2.1), the three queues (§2.2),
//!   handlers with cooperative preemption (§3.1.1), link scheduling in interrupts (O1) or in a
//!   thread (O2) (§3.1.2).
//! - [`simulation`]: the host in virtual time, with the costs of §3 and §4.
//! - [`bounds`]: its proven delay bounds, in place of the estimate of §4.1 and §4.2
//!   ([`punctual_analysis::channel::paper`]).
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod bounds;
pub mod policy;
pub mod simulation;
