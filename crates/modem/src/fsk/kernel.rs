//! The object for the kernel, and what it shares with us.
//!
//! `bpf/driver.bpf.c` has the programs `interrupt` (a hard interrupt, on a perf software clock),
//! `start_softirq` (arms a timer, whose expiry is a softirq) and `serve_once` (one service, for who
//! wants to compare). Their memory: one [`Control`], the lines ([`super::Line`]), one recording, and a
//! ring of [`RECORDS`] records ([`Record`]).
//!
//! The object is compiled with clang and kept beside its source, so that nobody needs the compiler;
//! `tools/build-bpf` makes it again, and says whether it is the same.

/// The object, as `libbpf` loads it.
pub fn object() -> &'static [u8] {
    /// Who reads an ELF file in memory may want its tables aligned.
    #[repr(align(8))]
    struct Aligned<T: ?Sized>(T);
    static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!("../../bpf/driver.bpf.o"));
    &OBJECT.0
}

/// Records kept; then the oldest is written over.
pub const RECORDS: usize = 1 << 14;

/// Programs and memory by name.
pub mod name {
    /// Serves all lines: for a perf event.
    pub const INTERRUPT: &str = "interrupt";
    /// Arms the timer on the CPU that runs it: for a test run. Not zero: refused.
    pub const START_SOFTIRQ: &str = "start_softirq";
    /// Serves all lines at `position`: for a test run.
    pub const SERVE_ONCE: &str = "serve_once";
    /// One [`super::Control`].
    pub const CONTROLS: &str = "controls";
    /// One [`crate::fsk::Line`] each.
    pub const LINES: &str = "lines";
    /// One [`crate::fsk::Recording`].
    pub const RECORDINGS: &str = "recordings";
    /// [`super::RECORDS`] of [`super::Record`].
    pub const RECORDS: &str = "records";
}

/// What is asked of the driver in the kernel, and what it counted (`struct control` of `core/line.h`):
/// where in its bytes each number lies.
pub struct Control;

impl Control {
    /// When sample 0 begins, in ns of CLOCK_MONOTONIC: 64 bits.
    pub const START: usize = 0;
    /// Softirq: when the next service is due, likewise.
    pub const DUE: usize = 8;
    /// Softirq: from one to the next, in ns: 64 bits.
    pub const PERIOD: usize = 16;
    /// The card's position for `serve_once`, in samples: 64 bits.
    pub const POSITION: usize = 24;
    /// How often the core does its work: 32 bits.
    pub const PASSES: usize = 32;
    /// Lines to serve: 32 bits.
    pub const LINES: usize = 36;
    /// Not zero: serve no more, and do not arm the timer again. 32 bits.
    pub const STOP: usize = 40;
    /// Services so far: 32 bits.
    pub const SERVICES: usize = 44;
    /// What the kernel said to `start_softirq`: 64 bits, zero or a negated error number.
    pub const STARTED: usize = 48;
    /// What it said when it refused to arm the timer again; zero: never.
    pub const REFUSED: usize = 56;
    /// Bytes in all.
    pub const SIZE: usize = 64;
}

/// One service (`struct record` of `core/line.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it was due, in ns of CLOCK_MONOTONIC; `None` in a hard interrupt, whose phase nobody is
    /// told.
    pub due: Option<u64>,
    /// Its first instruction.
    pub begin: u64,
    /// After its last line.
    pub end: u64,
    /// The multiplier of the work.
    pub passes: u32,
    /// Lines served.
    pub lines: u32,
}

impl Record {
    /// Bytes of a record.
    pub const SIZE: usize = 32;

    /// From memory that is shared with the kernel.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let word =
            |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().expect("eight bytes of 32"));
        let half =
            |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().expect("four bytes of 32"));
        let due = Some(word(0)).filter(|&due| due != 0);
        Self { due, begin: word(8), end: word(16), passes: half(24), lines: half(28) }
    }
}
