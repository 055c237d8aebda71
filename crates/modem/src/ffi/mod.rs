//! The few functions of SpanDSP 0.0.6 that we call, and safe owners for its objects.
//!
//! Every `unsafe` block here relies on the following:
//!
//! - **Signatures** are copied by hand from `/usr/include/spandsp/{v22bis,fsk,hdlc,async,v29rx}.h`
//!   and `{v8,modem_connect_tones,tone_detect}.h`. The object types are opaque: the library
//!   allocates and frees them.
//! - **Ownership**: each wrapper owns one C object and the Rust value that its callbacks work on.
//!   That value lives on the heap behind a raw pointer (never a `Box`, whose uniqueness the
//!   callbacks would violate) and is freed after the C object that points to it.
//! - **Callbacks** run only inside a call that holds `&mut` on the wrapper, so the `&mut` that a
//!   callback makes is the only reference to the value. They are `extern "C"`, so a panic in one
//!   aborts the process and cannot unwind through C frames.
//! - **Threads**: the library keeps no state outside its objects except constant tables (its
//!   logging, which has a global hook, stays off), so an object may move between threads with its
//!   owner.
#![allow(unsafe_code)]

mod greeting;
mod hdlc;
mod modulation;
mod raw;

pub(crate) use greeting::{AnswerTone, AnswerToneDetector, V8, V8Outcome};
pub(crate) use hdlc::{FrameSink, HdlcRx, HdlcTx};
pub(crate) use modulation::{BitPipe, Channel, Fsk, Status, V22bis};
pub(crate) use raw::OutOfMemory;
