//! V.21 in integers: one source for a thread, a softirq and a hard interrupt.
//!
//! The core is a C header (`core/fsk.h`, `core/line.h`). It is compiled here for threads, and by
//! clang for the kernel's BPF machine, whose programs run on a perf software clock (a hard
//! interrupt) and on a timer (a softirq): the contexts INT and DPC of the soft modem study (§5).
//! All three give the same state, bit for bit.
//!
//! - [`Modem`]: samples on one side, bytes on the other.
//! - [`Recording`]: the signal from the far end of a line, noise included.
//! - [`Line`]: a card with rings of 512 samples, and a modem on it; [`Line::serve`] is the work of
//!   one interrupt.
//! - [`kernel`]: the BPF object, and the memory that it shares with this program.
//!
//! A line sends and receives bytes that count upwards, so that a missing byte shows.

pub mod kernel;
mod line;
mod modem;
mod raw;
mod recording;

pub use line::{Line, Stats};
pub use modem::Modem;
pub use recording::{NotARecording, Recording};

/// Samples of a [`Recording`]: 32.8 s. It repeats.
pub const RECORDING_SAMPLES: usize = 1 << 18;

/// Nanoseconds of a sample.
pub const NANOS_PER_SAMPLE: u64 = 125_000;
