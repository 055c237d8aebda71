//! Linux as Punctual uses it: clocks, threads, scheduling classes, memory locks, child processes,
//! and probes that measure what this host can promise.
//!
//! The functions here take and return the model's units ([`Instant`], [`Duration`], [`Service`] in
//! nanoseconds) and its `Reservation`, which becomes the parameters of SCHED_DEADLINE. They explain
//! a refusal by the kernel as a sentence that says what would help. They undo what they did: guards
//! restore on drop, and probes work on scratch threads of their own.
//!
//! `unsafe` is allowed only in the modules that make raw system calls ([`sched`], [`process`],
//! [`measure`], [`net`], [`perf`]) or share memory ([`mapping`], [`shm`], [`memfd`]). Where `rustix` has the call,
//! `rustix` makes it.
//!
//! [`Instant`]: punctual_model::time::Instant
//! [`Duration`]: punctual_model::time::Duration
//! [`Service`]: punctual_model::time::Service

pub mod awake;

pub mod bandwidth;
pub mod cgroup;
pub mod clock;
pub mod host;
pub mod mapping;
pub mod measure;
pub mod memfd;
pub mod memory;
pub mod net;
pub mod park;
pub mod pass;
pub mod perf;
pub mod process;
pub mod procfs;
pub mod sched;
pub mod shm;
pub mod thread;
pub mod timer;
pub mod usage;
