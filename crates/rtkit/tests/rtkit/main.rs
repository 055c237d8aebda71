//! The service on a bus of its own, with a broker and callers as processes of their own: the callers
//! belong to an ordinary user, and the service to the broker's.
//!
//! Each process is this program again, with its role in an environment variable, or a program that is
//! shipped. Without root privileges the tests print that and check nothing.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

mod caller;
mod conduct;
mod grants;
mod host;
mod polkit;
mod restarts;
mod starts;
