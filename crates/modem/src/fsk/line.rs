//! A card, a modem on it, and the work of one interrupt.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;
use core::slice;

use super::Recording;
use super::raw;

/// A line and its card of 512 samples each way, as [`crate::card`] describes it, served by the core.
///
/// ```
/// use punctual_modem::LineQuality;
/// use punctual_modem::fsk::{Line, Recording};
///
/// let recording = Recording::of_far_end(LineQuality::default(), 1);
/// let mut line = Line::new(0);
/// for period in 1..=80 {
///     line.serve(&recording, period * 100, 1);
/// }
/// let stats = line.stats();
/// assert_eq!((stats.lost, stats.bad), (0, 0));
/// assert!(stats.good > 25);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line(raw::Line);

/// The counters of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Stats {
    /// Samples taken or lost: the card's position as far as the driver has seen it.
    pub read: u64,
    /// Samples that no driver ever took.
    pub lost: u64,
    /// Samples for which the line received the ring's old content, because the ring wrapped.
    pub stale: u64,
    /// Services that found that the ring had wrapped.
    pub overruns: u32,
    /// The largest number of samples that waited when the driver came.
    pub most_pending: u32,
    /// Bytes received that continued the sequence.
    pub good: u32,
    /// Bytes received that did not continue the sequence.
    pub bad: u32,
}

impl Line {
    /// The size in bytes of a line in memory that is shared with the kernel.
    pub const SIZE: usize = size_of::<raw::Line>();

    /// Creates a line before its first sample. `offset` is its starting position in the recording.
    pub fn new(offset: u32) -> Self {
        assert_eq!(raw::punctual_line_size() as usize, Self::SIZE, "raw.rs is not line.h");
        let mut line = MaybeUninit::uninit();
        // SAFETY: the function writes a whole `struct line`, which has the size and the fields of
        // `raw::Line`.
        unsafe {
            raw::punctual_line_begin(line.as_mut_ptr(), offset);
            Self(line.assume_init())
        }
    }

    /// Does the work of one interrupt with the card at `position` (in samples since its start):
    /// takes the pending samples, demodulates them, checks the bytes, and modulates as many
    /// samples.
    ///
    /// A second modem, whose output goes nowhere, processes the same samples `passes` − 1 times
    /// more. This multiplies the core's own work and has to be declared wherever a figure is shown.
    ///
    /// Returns the number of samples taken: none if the position has been served before.
    pub fn serve(&mut self, recording: &Recording, position: u64, passes: u32) -> u32 {
        // SAFETY: the line is ours (`&mut self`), the recording is only read and has the length that
        // the core masks its index by.
        unsafe { raw::punctual_line_serve(&raw mut self.0, recording.samples(), position, passes) }
    }

    /// Returns the counters so far.
    pub fn stats(&self) -> Stats {
        let raw::Line { read, lost, stale, overruns, most_pending, good, bad, .. } = self.0;
        Stats { read, lost, stale, overruns, most_pending, good, bad }
    }

    /// Returns the ring that is played onto the line.
    pub fn transmit_ring(&self) -> &[i16] {
        &self.0.tx
    }

    /// Reads a line from memory that is shared with the kernel. Returns `None` if `bytes` does not
    /// hold [`Line::SIZE`] bytes.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != Self::SIZE {
            return None;
        }
        let mut line = Self::new(0);
        // SAFETY: copies the size of a line into a line of ours. All fields are integers, so any
        // bytes are a valid value.
        unsafe { (&raw mut line.0).cast::<u8>().copy_from(bytes.as_ptr(), Self::SIZE) };
        Some(line)
    }

    /// Returns the [`Line::SIZE`] bytes to be written to memory that is shared with the kernel.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: a line's size in bytes, without padding, so all are initialised; shared as long
        // as `self` is borrowed.
        unsafe { slice::from_raw_parts((&raw const self.0).cast(), Self::SIZE) }
    }
}
