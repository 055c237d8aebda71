//! `libpunctual_udp.so`: unmodified programs on a channel.
//!
//! It is loaded before the C library (LD_PRELOAD) and replaces the calls that send datagrams. Those
//! to one destination go into a channel that it opens at the broker. Everything else, and
//! everything after a failure, goes as it would without the library; a failure is reported once on
//! standard error.
//!
//! - [`address`], [`fds`]: the UDP sockets among the descriptors, and their destinations.
//! - [`process`]: the one channel of a process, opened when the first datagram is sent.
//! - [`route`]: the datagrams that go into it.
//! - [`opening`]: the broker; [`say`]: reports made once.
//! - [`edge`]: the calls themselves, and the only unsafe code.
//!
//! `PUNCTUAL_CHANNEL` is the channel in a line (`punctual_channel::client::compact`);
//! `PUNCTUAL_BROKER` is the path of the broker's socket. Without the first the library does
//! nothing.
//!
//! # Rules
//! - A descriptor is checked again before each datagram (fstat(2)): it may have been closed and its
//!   number reused in ways that a library does not see.
//! - Inside the library's own code a thread's calls bypass the channel: calls by the library
//!   itself, and by signal handlers that interrupt it, never wait for something that the thread
//!   holds.
//! - A child does not access its parent's ring. It opens a channel of its own with its first
//!   datagram.
//! - No panic unwinds into the program.
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
