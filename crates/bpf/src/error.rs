//! What can go wrong, as sentences that say what to do.

use thiserror::Error;

/// Why an object was not loaded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LoadError {
    /// EPERM.
    #[error(
        "the kernel lets this user load no programs ({object}): it takes CAP_BPF and CAP_PERFMON; \
         run as root"
    )]
    Privilege {
        /// The object.
        object: &'static str,
    },
    /// The kernel has no type information of itself.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux is missing), which {object} needs: it takes \
         a kernel built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf {
        /// The object.
        object: &'static str,
    },
    /// Not what clang makes, or not what this libbpf reads.
    #[error(
        "{object} is no BPF object that can be read: {why}; build it again with tools/build-bpf"
    )]
    NotAnObject {
        /// The object.
        object: &'static str,
        /// What libbpf says.
        why: String,
    },
    /// A size was asked for that the object's memory cannot have.
    #[error("{object}: {map} cannot have {entries} entries: {why}")]
    Size {
        /// The object.
        object: &'static str,
        /// The map.
        map: String,
        /// Entries asked for.
        entries: u32,
        /// What libbpf says.
        why: String,
    },
    /// The kernel refused it.
    #[error(
        "the kernel refused {object}: {why}; it was made for Linux 6.9 or newer{}",
        if log.is_empty() { String::new() } else { format!(". It said:\n{log}") }
    )]
    Refused {
        /// The object.
        object: &'static str,
        /// The error.
        why: String,
        /// The last lines of what the kernel's check said.
        log: String,
    },
}

/// Why a program was not attached.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AttachError {
    /// No such program.
    #[error("the object has no program {program}; it has {there}")]
    NoProgram {
        /// The name.
        program: String,
        /// Those there are.
        there: String,
    },
    /// perf_event_open(2) refused.
    #[error(
        "no software clock on CPU {cpu} (perf_event_open: {why}): it takes CAP_PERFMON, and a CPU \
         that is online"
    )]
    Clock {
        /// The CPU.
        cpu: usize,
        /// What the kernel says.
        why: String,
    },
    /// perf_event_open(2) refused.
    #[error("the page faults of thread {tid} cannot be watched (perf_event_open: {why})")]
    PageFaults {
        /// The thread.
        tid: u32,
        /// What the kernel says.
        why: String,
    },
    /// A period of zero, or beyond 63 bits of nanoseconds.
    #[error("a clock of {nanos} ns: it must be from 1 to 9223372036854775807 ns")]
    Period {
        /// The period asked for.
        nanos: u64,
    },
    /// The kernel refused.
    #[error("the kernel does not attach {program}: {why}")]
    Refused {
        /// The name.
        program: String,
        /// What libbpf says.
        why: String,
    },
}

/// Why there is no view of a map.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// No such map.
    #[error("the object has no map {map}; it has {there}")]
    NoMap {
        /// The name.
        map: String,
        /// Those there are.
        there: String,
    },
    /// Of another kind.
    #[error("{map} is no {wanted}")]
    Kind {
        /// The name.
        map: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// The kernel refused.
    #[error("{map} cannot be mapped: {why}")]
    Refused {
        /// The name.
        map: String,
        /// What the kernel says.
        why: String,
    },
}

/// Why a program was not run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// No such program.
    #[error("the object has no program {program}; it has {there}")]
    NoProgram {
        /// The name.
        program: String,
        /// Those there are.
        there: String,
    },
    /// The kernel refused.
    #[error("the kernel does not run {program}: {why}; is it a program for SEC(\"syscall\")?")]
    Refused {
        /// The name.
        program: String,
        /// What libbpf says.
        why: String,
    },
}
