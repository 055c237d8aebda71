//! `libpunctual_udp.so`: unmodified programs on a channel.
//!
//! Loaded before the C library (LD_PRELOAD), it has the calls that send datagrams, and puts those to
//! one destination into a channel that it opens at the broker. Everything else, and everything after a
//! failure, goes the way it always went; a failure is said once on standard error.
//!
//! - [`address`], [`fds`]: which descriptors are UDP sockets, and where they send to.
//! - [`process`]: the one channel of a process, opened when the first datagram is sent.
//! - [`route`]: which datagrams go into it.
//! - [`opening`]: the broker; [`say`]: what is said once.
//! - [`edge`]: the calls themselves, and the only unsafe code.
//!
//! `PUNCTUAL_CHANNEL` is the channel in a line (`punctual_channel::client::compact`), `PUNCTUAL_BROKER`
//! where the broker listens. Without the first the library does nothing.
//!
//! # Rules that it keeps
//! - A descriptor is looked at again before each datagram (fstat(2)): it may have been closed and its
//!   number be something else's, in ways that a library does not see.
//! - Inside its own calls a thread goes the plain way: what the library itself calls, and signal
//!   handlers that interrupt it, never wait for what the thread holds.
//! - A child does not touch its parent's ring. It opens a channel of its own with its first datagram.
//! - Nothing unwinds into the program.
#![allow(unreachable_pub, reason = "a library of exported symbols: nobody uses it by path")]

mod address;
mod edge;
mod fds;
mod opening;
mod process;
mod route;
mod say;
#[cfg(test)]
mod tests;
