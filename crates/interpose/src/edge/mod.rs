//! The edge to the program: unsafe code, and only what needs it.
//!
//! - [`next`]: the C library's own functions.
//! - [`start`]: the actions when the library is loaded, and in a child.
//! - [`datagram`]: a datagram as C passes it.
//! - [`calls`]: the functions that the program gets instead.
#![allow(unsafe_code, reason = "the edge to C")]

mod calls;
mod datagram;
mod start;
