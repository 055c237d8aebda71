//! The broker and its clients, as processes of their own: the clients belong to an ordinary user.
//!
//! Each process is this program again, told by an environment variable what to be. Without root's
//! rights the tests say so and check nothing. They check who holds what, never how fast.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

mod client;
mod crashes;
mod feedback;
mod grants;
mod host;
mod hostile;
mod overuse;
mod upcalls;
