//! Provides the C API: a thin layer over `punctual`, `punctual-runtime`, and the clients of broker
//! and channels.
//!
//! - [`error`]: error numbers and their sentences.
//! - [`sized`]: structures whose first member is their size, read and written with care.
//! - [`upcalls`]: the upcalls of a process.
//! - [`reservations`]: CPU reservations and time constraints.
//! - [`channels`]: messages with a promised delay.
//! - [`answers`]: whether a contract is admitted, how it runs in virtual time, what a trace proves,
//!   and what this host can promise.
//! - [`programs`]: programs under a reservation.
//!
//! No panic crosses the edge: `error::guarded` wraps every call. cbindgen makes
//! `include/punctual.h` from this crate, so the documentation of public items is written for
//! readers of C.
//!
//! # Safety
//! The caller of every function promises the following. A pointer is null, or points to what its
//! type says for as long as the call lasts. A structure that begins with its size is as long as
//! that says. A text ends with a zero. No other thread uses memory that is written to during the
//! call. A handle is null, or was given by this library and not freed, and is not freed during the
//! call.
#![allow(unsafe_code, reason = "the edge to C")]
#![allow(non_camel_case_types, reason = "these are the names that C programs see")]
#![allow(clippy::missing_safety_doc, reason = "said once, above, for all that C calls")]
#![warn(unsafe_op_in_unsafe_fn)]

// In the order of the header.
pub mod error;
pub mod sized;

pub mod upcalls;

pub mod reservations;

pub mod channels;

pub mod answers;

pub mod programs;

use std::ffi::{CStr, c_char};

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zero in it"),
    };

/// Returns the version of this library, such as "0.1.0". Must not be freed.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns the time in nanoseconds of CLOCK_MONOTONIC.
#[unsafe(no_mangle)]
pub extern "C" fn punctual_now() -> u64 {
    punctual_linux::clock::now().as_nanos()
}
