//! The BPF object, and the memory that it shares with this program.
//!
//! `bpf/driver.bpf.c` has the programs `interrupt` (a hard interrupt, on a perf software clock),
//! `start_softirq` (arms a timer, whose expiry is a softirq) and `serve_once` (one service, for
//! comparisons). Their memory holds one [`Control`], the lines ([`super::Line`]), one recording,
//! and a ring of [`RECORDS`] records ([`Record`]).
//!
//! The object is compiled with clang and kept beside its source, so that a build needs no clang;
//! `tools/build-bpf` compiles it again and checks that it is the same.

/// Returns the object, in the form that `libbpf` loads.
pub fn object() -> &'static [u8] {
    /// Aligned, because a parser may read the tables of an ELF file in place.
    #[repr(align(8))]
    struct Aligned<T: ?Sized>(T);
    static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/driver.bpf.o"));
    &OBJECT.0
}

/// The number of records kept; after that the oldest is overwritten.
pub const RECORDS: usize = 1 << 14;

/// The names of the programs and maps.
pub mod name {
    /// Serves all lines, for a perf event.
    pub const INTERRUPT: &str = "interrupt";
    /// Arms the timer on the CPU that runs it, for a test run. A result other than zero is a
    /// refusal.
    pub const START_SOFTIRQ: &str = "start_softirq";
    /// Serves all lines at `position`, for a test run.
    pub const SERVE_ONCE: &str = "serve_once";
    /// The map of one [`super::Control`].
    pub const CONTROLS: &str = "controls";
    /// The map of the [`crate::fsk::Line`]s.
    pub const LINES: &str = "lines";
    /// The map of one [`crate::fsk::Recording`].
    pub const RECORDINGS: &str = "recordings";
    /// The map of [`super::RECORDS`] times [`super::Record`].
    pub const RECORDS: &str = "records";
}

/// The offsets of the driver's parameters and counters in the kernel's memory (`struct control` of
/// `core/line.h`).
pub struct Control;

impl Control {
    /// The beginning of sample 0, in ns of CLOCK_MONOTONIC: 64 bits.
    pub const START: usize = 0;
    /// The due time of the next softirq service, in ns of CLOCK_MONOTONIC: 64 bits.
    pub const DUE: usize = 8;
    /// The period of the softirq services, in ns: 64 bits.
    pub const PERIOD: usize = 16;
    /// The card's position for `serve_once`, in samples: 64 bits.
    pub const POSITION: usize = 24;
    /// The number of times that the core does its work: 32 bits.
    pub const PASSES: usize = 32;
    /// The number of lines to serve: 32 bits.
    pub const LINES: usize = 36;
    /// Not zero: stop serving and do not arm the timer again. 32 bits.
    pub const STOP: usize = 40;
    /// The number of services so far: 32 bits.
    pub const SERVICES: usize = 44;
    /// The kernel's result for `start_softirq`: 64 bits, zero or a negated error number.
    pub const STARTED: usize = 48;
    /// The kernel's error when it refused to arm the timer again; zero if it never did.
    pub const REFUSED: usize = 56;
    /// The size in bytes.
    pub const SIZE: usize = 64;
}

/// The record of one service (`struct record` of `core/line.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its due time, in ns of CLOCK_MONOTONIC; `None` in a hard interrupt, whose phase is not
    /// known.
    pub due: Option<u64>,
    /// The time of its first instruction.
    pub begin: u64,
    /// The time after its last line.
    pub end: u64,
    /// The multiplier of the work.
    pub passes: u32,
    /// The number of lines served.
    pub lines: u32,
}

impl Record {
    /// The size of a record in bytes.
    pub const SIZE: usize = 32;

    /// Reads a record from memory that is shared with the kernel.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let word =
            |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().expect("eight bytes of 32"));
        let half =
            |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().expect("four bytes of 32"));
        let due = Some(word(0)).filter(|&due| due != 0);
        Self { due, begin: word(8), end: word(16), passes: half(24), lines: half(28) }
    }
}
