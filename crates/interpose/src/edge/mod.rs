//! The edge to the program: unsafe code, and nothing but what needs it.
//!
//! - [`next`]: the calls as they were before us.
//! - [`start`]: what is read when the library is loaded, and what a child does.
//! - [`datagram`]: a datagram as C passes it.
//! - [`calls`]: the calls that the program gets instead.
#![allow(unsafe_code, reason = "the edge to C")]

mod calls;
mod datagram;
mod next;
mod start;
