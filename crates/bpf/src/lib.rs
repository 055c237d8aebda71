//! Programs for the kernel's BPF machine (bpf(2)), loaded from objects that clang made.
//!
//! ```text
//! Object::load ──> run          a SEC("syscall") program, once, on the calling thread's CPU
//!              ──> on_cpu_clock a SEC("perf_event") program in a hard interrupt, periodically
//!              ──> attach       a tracepoint's program, as its section says
//!              ──> on_page_faults a SEC("perf_event") program at the end of a thread's page faults
//!              ──> array, table memory shared with the programs, and their lookup tables
//!              ──> ring         records that the programs wrote
//! Policer: discards datagrams that come too fast, before the network stack (XDP)
//! probe: which of these work here
//! ```
//!
//! Nothing is pinned: when the descriptors are closed, by drop or because the process died, the
//! kernel detaches and frees everything. libbpf does the loading, including an object's relocations
//! and types. This crate adds typed errors and safe access to shared memory.
//!
//! It takes CAP_BPF and CAP_PERFMON (capabilities(7)), and a kernel with BTF.

mod error;
mod event;
mod maps;
mod object;
mod policer;
pub mod probe;

pub use error::{AttachError, LoadError, MapError, RunError};
pub use event::{CpuClock, PageFaults};
pub use maps::{Array, Ring, Table};
pub use object::{Attached, Object};
pub use policer::{Policer, PolicerError};
