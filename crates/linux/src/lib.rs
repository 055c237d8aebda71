//! What Punctual asks of Linux: clocks, threads, scheduling classes, memory locks, child
//! processes, and probes that tell what this host can promise.
//!
//! Everything here takes and gives the model's units ([`Instant`], [`Duration`], [`Service`] in
//! nanoseconds) and its `Reservation`, which is what SCHED_DEADLINE is told; it explains a refusal by the kernel as a sentence that says what would help, and
//! undoes what it did: guards restore on drop, probes work on scratch threads of their own.
//!
//! `unsafe` is allowed only in the modules that make raw system calls ([`sched`], [`process`], [`measure`], [`net`])
//! or share memory ([`shm`], [`memfd`]); wherever `rustix` has the call, it makes it.
//!
//! [`Instant`]: punctual_model::time::Instant
//! [`Duration`]: punctual_model::time::Duration
//! [`Service`]: punctual_model::time::Service

pub mod awake;
pub mod bell;
pub mod cgroup;
pub mod clock;
pub mod host;
pub mod measure;
pub mod memfd;
pub mod memory;
pub mod net;
pub mod park;
pub mod pass;
pub mod process;
pub mod procfs;
pub mod sched;
pub mod shm;
pub mod thread;
pub mod timer;
pub mod usage;
