//! The core's structs, as `core/fsk.h` and `core/line.h` declare them, and its functions.
//!
//! Every field is an integer and there is no padding, so any bytes are a valid value. The core
//! masks every index, so no value leads it outside of its struct. [`super::modem`] and
//! [`super::line`] check the sizes against the C compiler's.

use super::RECORDING_SAMPLES;
use crate::card::RING;

pub(super) const SLOTS: usize = 32;
pub(super) const BYTES: usize = 64;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) written: u32,
    pub(super) read: u32,
    pub(super) bytes: [u8; BYTES],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tx {
    pub(super) phase: u32,
    pub(super) mark: u32,
    pub(super) space: u32,
    pub(super) bit_phase: u32,
    pub(super) bit: u32,
    pub(super) bits: u32,
    pub(super) left: u32,
    pub(super) queue: Queue,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mixed {
    pub(super) mark_i: i32,
    pub(super) mark_q: i32,
    pub(super) space_i: i32,
    pub(super) space_q: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rx {
    pub(super) phase_mark: u32,
    pub(super) phase_space: u32,
    pub(super) mark: u32,
    pub(super) space: u32,
    pub(super) heard: u32,
    pub(super) bit_phase: u32,
    pub(super) place: u32,
    pub(super) character: u32,
    pub(super) carrier: u32,
    pub(super) framing_errors: u32,
    pub(super) soft: i64,
    pub(super) sum: Mixed,
    pub(super) slots: [Mixed; SLOTS],
    pub(super) queue: Queue,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fsk {
    pub(super) tx: Tx,
    pub(super) unused: u32,
    pub(super) rx: Rx,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) read: u64,
    pub(super) lost: u64,
    pub(super) stale: u64,
    pub(super) offset: u32,
    pub(super) overruns: u32,
    pub(super) most_pending: u32,
    pub(super) good: u32,
    pub(super) bad: u32,
    pub(super) expected: u32,
    pub(super) said: u32,
    pub(super) scratch_sum: u32,
    pub(super) modem: Fsk,
    pub(super) scratch: Fsk,
    pub(super) rx: [i16; RING],
    pub(super) tx: [i16; RING],
}

#[allow(unsafe_code)]
unsafe extern "C" {
    /// Writes all of `fsk`.
    pub(super) fn punctual_fsk_begin(fsk: *mut Fsk, calls: u32);
    pub(super) fn punctual_fsk_put(fsk: *mut Fsk, byte: u8) -> u32;
    pub(super) fn punctual_fsk_take(fsk: *mut Fsk) -> i32;
    pub(super) fn punctual_fsk_hear(fsk: *mut Fsk, sample: i16);
    pub(super) fn punctual_fsk_speak(fsk: *mut Fsk) -> i16;
    /// Writes all of `line`.
    pub(super) fn punctual_line_begin(line: *mut Line, offset: u32);
    /// Writes `line`, reads `recording`.
    pub(super) fn punctual_line_serve(
        line: *mut Line,
        recording: *const [i16; RECORDING_SAMPLES],
        position: u64,
        passes: u32,
    ) -> u32;
    pub(super) safe fn punctual_fsk_size() -> u32;
    pub(super) safe fn punctual_line_size() -> u32;
}
