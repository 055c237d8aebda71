//! The broker and its clients, as processes of their own: the clients belong to an ordinary user.
//!
//! Each process is this program again, with its role in an environment variable. Without root
//! privileges the tests print that and check nothing. They check which process holds what, never
//! how fast.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

mod client;
mod crashes;
mod feedback;
mod grants;
mod host;
mod hostile;
mod overuse;
mod upcalls;
