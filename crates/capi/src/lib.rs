//! The C API: a thin edge over `punctual-runtime`, and over the clients of broker and channels.
//!
//! - [`error`]: error numbers, and the sentence behind each.
//! - [`sized`]: structures whose first member is their size, read and written with care.
//! - [`upcalls`]: the upcalls of a process.
//! - [`reservations`]: CPU reservations and time constraints.
//! - [`channels`]: messages with a promised delay.
//!
//! Nothing panics across the edge: `error::guarded` is around every call.
//! `include/punctual.h` is made from this crate by cbindgen, so the documentation of public items is
//! written for readers of C.
//!
//! # Safety
//! What the caller of every function promises: a pointer is null, or points to what its type says,
//! for as long as the call lasts; a structure that begins with its size is as long as it says; a
//! text ends with a zero; what is written to is used by nobody else meanwhile. A handle is null, or
//! was given by this library and not freed, and is not freed during the call.
#![allow(unsafe_code, reason = "the edge to C")]
#![allow(non_camel_case_types, reason = "these are the names that C programs see")]
#![allow(clippy::missing_safety_doc, reason = "said once, above, for all that C calls")]
#![warn(unsafe_op_in_unsafe_fn)]

// In the order in which the header has them.
pub mod error;
pub mod sized;

pub mod upcalls;

pub mod reservations;

pub mod channels;

use std::ffi::{CStr, c_char};

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zero in it"),
    };

/// The version of this library, as "0.1.0". Never freed.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_version() -> *const c_char {
    VERSION.as_ptr()
}

/// The time: nanoseconds of CLOCK_MONOTONIC.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_now() -> u64 {
    punctual_linux::clock::now().as_nanos()
}
