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
//!
//! The core's structs are declared here as the headers declare them. Every field is an integer and
//! there is no padding, so any bytes are a valid value. The core masks every index, so no value
//! leads it outside of its struct. [`Modem`] and [`Line`] check the sizes against the C compiler's.
#![allow(unsafe_code)]

pub mod kernel;

use core::mem::MaybeUninit;
use core::slice;

use crate::LineQuality;
use crate::card::RING;
use crate::exchange::{Medium, Perfect};
use crate::impair::{Attenuation, Noise};
use crate::line::FULL_SCALE_DBM0;
use crate::modem::Role;

/// Samples of a [`Recording`]: 32.8 s. It repeats.
pub const RECORDING_SAMPLES: usize = 1 << 18;

/// Nanoseconds of a sample.
pub const NANOS_PER_SAMPLE: u64 = 125_000;
const SLOTS: usize = 32;
const BYTES: usize = 64;

/// The modem's level in dBm0: 12 dB below full scale, whose sine is 3 dB below a square wave.
const LEVEL_DBM0: f64 = FULL_SCALE_DBM0 - 3.01 - 12.04;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Queue {
    written: u32,
    read: u32,
    bytes: [u8; BYTES],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tx {
    phase: u32,
    mark: u32,
    space: u32,
    bit_phase: u32,
    bit: u32,
    bits: u32,
    left: u32,
    queue: Queue,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mixed {
    mark_i: i32,
    mark_q: i32,
    space_i: i32,
    space_q: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rx {
    phase_mark: u32,
    phase_space: u32,
    mark: u32,
    space: u32,
    heard: u32,
    bit_phase: u32,
    place: u32,
    character: u32,
    carrier: u32,
    framing_errors: u32,
    soft: i64,
    sum: Mixed,
    slots: [Mixed; SLOTS],
    queue: Queue,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fsk {
    tx: Tx,
    unused: u32,
    rx: Rx,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
/// The core's `struct line`.
struct CLine {
    read: u64,
    lost: u64,
    stale: u64,
    offset: u32,
    overruns: u32,
    most_pending: u32,
    good: u32,
    bad: u32,
    expected: u32,
    said: u32,
    scratch_sum: u32,
    modem: Fsk,
    scratch: Fsk,
    rx: [i16; RING],
    tx: [i16; RING],
}

unsafe extern "C" {
    /// Writes all of `fsk`.
    fn punctual_fsk_begin(fsk: *mut Fsk, calls: u32);
    fn punctual_fsk_put(fsk: *mut Fsk, byte: u8) -> u32;
    fn punctual_fsk_take(fsk: *mut Fsk) -> i32;
    fn punctual_fsk_hear(fsk: *mut Fsk, sample: i16);
    fn punctual_fsk_speak(fsk: *mut Fsk) -> i16;
    /// Writes all of `line`.
    fn punctual_line_begin(line: *mut CLine, offset: u32);
    /// Writes `line`, reads `recording`.
    fn punctual_line_serve(
        line: *mut CLine,
        recording: *const [i16; RECORDING_SAMPLES],
        position: u64,
        passes: u32,
    ) -> u32;
    safe fn punctual_fsk_size() -> u32;
    safe fn punctual_line_size() -> u32;
}

/// One end of a V.21 call (ITU-T V.21), 300 bit/s both ways: characters of one start bit, eight data
/// bits and one stop bit, at 8000 samples a second. It speaks its carrier all the time.
///
/// ```
/// use punctual_modem::fsk::Modem;
/// use punctual_modem::modem::Role;
///
/// let (mut near, mut far) = (Modem::new(Role::Calling), Modem::new(Role::Answering));
/// assert!(near.send(b'!'));
/// let mut samples = [0; 400];
/// near.transmit_samples(&mut samples);
/// far.receive_samples(&samples);
/// assert_eq!(far.receive(), Some(b'!'));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modem(Fsk);

impl Modem {
    /// Creates a modem before its first sample.
    pub fn new(role: Role) -> Self {
        assert_eq!(
            punctual_fsk_size() as usize,
            size_of::<Fsk>(),
            "the structs here are not fsk.h"
        );
        let mut fsk = MaybeUninit::uninit();
        // SAFETY: the function writes a whole `struct fsk`, which has the size and the fields of
        // `Fsk`.
        unsafe {
            punctual_fsk_begin(fsk.as_mut_ptr(), u32::from(role == Role::Calling));
            Self(fsk.assume_init())
        }
    }

    /// Queues a byte to send. Returns `false` if 64 bytes wait already.
    pub fn send(&mut self, byte: u8) -> bool {
        // SAFETY: works on this struct alone, which is ours (`&mut self`).
        (unsafe { punctual_fsk_put(&raw mut self.0, byte) }) != 0
    }

    /// Returns the received byte that has waited longest. While 64 bytes wait, further bytes are
    /// lost.
    pub fn receive(&mut self) -> Option<u8> {
        // SAFETY: as in `send`.
        u8::try_from(unsafe { punctual_fsk_take(&raw mut self.0) }).ok()
    }

    /// Demodulates samples from the line.
    pub fn receive_samples(&mut self, samples: &[i16]) {
        for &sample in samples {
            // SAFETY: as in `send`.
            unsafe { punctual_fsk_hear(&raw mut self.0, sample) };
        }
    }

    /// Fills `samples` with the next signal: queued bytes, or the mark of an idle line.
    pub fn transmit_samples(&mut self, samples: &mut [i16]) {
        for sample in samples {
            // SAFETY: as in `send`.
            *sample = unsafe { punctual_fsk_speak(&raw mut self.0) };
        }
    }

    /// Returns true if there is a carrier: it is detected above about 48 dB below full scale and
    /// lost below 51.
    pub fn carrier(&self) -> bool {
        self.0.rx.carrier != 0
    }

    /// Returns the energy of the mark minus that of the space over the last bit: positive for a
    /// mark. The unit is that of squared sums of 27 samples in 1/2⁸.
    pub fn soft(&self) -> i64 {
        self.0.rx.soft
    }

    /// Returns the number of characters dropped because they had no stop bit.
    pub fn framing_errors(&self) -> u32 {
        self.0.rx.framing_errors
    }
}

/// 32.8 s of a line, as the calling end receives it.
#[derive(Clone, PartialEq, Eq)]
pub struct Recording(Box<[i16; RECORDING_SAMPLES]>);

/// The number of samples is not that of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a recording has {RECORDING_SAMPLES} samples, not {samples}")]
pub struct NotARecording {
    /// The number of samples given.
    pub samples: usize,
}

impl Recording {
    /// Records the answering modem, which sends bytes that count upwards, over a line of the given
    /// quality. The same seed gives the same recording everywhere.
    pub fn of_far_end(quality: LineQuality, seed: u64) -> Self {
        let mut far = Modem::new(Role::Answering);
        let noise = LEVEL_DBM0 - quality.loss_db - quality.snr_db;
        let mut line = Noise::new(Attenuation::new(Perfect, quality.loss_db), noise, seed);
        let mut next = 0u8;
        let mut samples = vec![0; RECORDING_SAMPLES];
        for sample in &mut samples {
            if far.send(next) {
                next = next.wrapping_add(1);
            }
            far.transmit_samples(slice::from_mut(sample));
            *sample = line.pass(1, *sample);
        }
        Self::try_from(samples).expect("as many samples as a recording has")
    }

    fn samples(&self) -> &[i16; RECORDING_SAMPLES] {
        &self.0
    }

    /// Returns the bytes to be written to memory that is shared with the kernel.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: integers without padding, viewed as bytes, for as long as `self` is borrowed.
        unsafe { slice::from_raw_parts(self.0.as_ptr().cast(), size_of_val(&*self.0)) }
    }
}

impl TryFrom<Vec<i16>> for Recording {
    type Error = NotARecording;

    fn try_from(samples: Vec<i16>) -> Result<Self, NotARecording> {
        let samples = samples.into_boxed_slice();
        let count = samples.len();
        samples.try_into().map(Self).map_err(|_| NotARecording { samples: count })
    }
}

impl core::fmt::Debug for Recording {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Recording({RECORDING_SAMPLES} samples)")
    }
}

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
pub struct Line(CLine);

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
    pub const SIZE: usize = size_of::<CLine>();

    /// Creates a line before its first sample. `offset` is its starting position in the recording.
    pub fn new(offset: u32) -> Self {
        assert_eq!(punctual_line_size() as usize, Self::SIZE, "the structs here are not line.h");
        let mut line = MaybeUninit::uninit();
        // SAFETY: the function writes a whole `struct line`, which has the size and the fields of
        // `CLine`.
        unsafe {
            punctual_line_begin(line.as_mut_ptr(), offset);
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
        unsafe { punctual_line_serve(&raw mut self.0, recording.samples(), position, passes) }
    }

    /// Returns the counters so far.
    pub fn stats(&self) -> Stats {
        let CLine { read, lost, stale, overruns, most_pending, good, bad, .. } = self.0;
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
