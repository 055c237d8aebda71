//! The errors of this crate, as sentences that say what to do.
//!
//! libbpf's messages are captured per thread, instead of printed to standard error.

use std::cell::RefCell;
use std::sync::Once;

use libbpf_rs::PrintLevel;
use thiserror::Error;

/// The line that libbpf prints below the kernel verifier's log. It distinguishes a failed check
/// from a lack of privilege: both are EACCES (bpf(2)).
pub(super) const CHECKED: &str = "END PROG LOAD LOG";
/// The lines kept of the log: the end of a failed check gives the reason.
const KEPT: usize = 12;

/// The reason an object was not loaded.
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
    /// The kernel has no type information about itself.
    #[error(
        "this kernel has no BTF (/sys/kernel/btf/vmlinux is missing), which {object} needs: it takes \
         a kernel built with CONFIG_DEBUG_INFO_BTF"
    )]
    NoBtf {
        /// The object.
        object: &'static str,
    },
    /// The file was not made by clang, or this libbpf cannot read it.
    #[error(
        "{object} is no BPF object that can be read: {why}; build it again with tools/build-bpf"
    )]
    NotAnObject {
        /// The object.
        object: &'static str,
        /// The message of libbpf.
        why: String,
    },
    /// The object's map cannot have the requested size.
    #[error("{object}: {map} cannot have {entries} entries: {why}")]
    Size {
        /// The object.
        object: &'static str,
        /// The map.
        map: String,
        /// The requested number of entries.
        entries: u32,
        /// The message of libbpf.
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
        /// The last lines of the kernel verifier's log.
        log: String,
    },
}

/// The reason a program was not attached.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AttachError {
    /// The object has no such program.
    #[error("the object has no program {program}; it has {there}")]
    NoProgram {
        /// The name.
        program: String,
        /// The programs that it has.
        there: String,
    },
    /// perf_event_open(2) failed for a CPU's clock.
    #[error(
        "no software clock on CPU {cpu} (perf_event_open: {why}): it takes CAP_PERFMON, and a CPU \
         that is online"
    )]
    Clock {
        /// The CPU.
        cpu: usize,
        /// The kernel's error.
        why: String,
    },
    /// perf_event_open(2) failed for a thread's page faults.
    #[error("the page faults of thread {tid} cannot be watched (perf_event_open: {why})")]
    PageFaults {
        /// The thread.
        tid: u32,
        /// The kernel's error.
        why: String,
    },
    /// A period of zero, or beyond 63 bits of nanoseconds.
    #[error("a clock of {nanos} ns: it must be from 1 to 9223372036854775807 ns")]
    Period {
        /// The requested period.
        nanos: u64,
    },
    /// The kernel refused.
    #[error("the kernel does not attach {program}: {why}")]
    Refused {
        /// The name.
        program: String,
        /// The message of libbpf.
        why: String,
    },
}

/// The reason a map cannot be viewed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// The object has no such map.
    #[error("the object has no map {map}; it has {there}")]
    NoMap {
        /// The name.
        map: String,
        /// The maps that it has.
        there: String,
    },
    /// The map is of another kind.
    #[error("{map} is no {wanted}")]
    Kind {
        /// The name.
        map: String,
        /// The required kind.
        wanted: &'static str,
    },
    /// The kernel refused.
    #[error("{map} cannot be mapped: {why}")]
    Refused {
        /// The name.
        map: String,
        /// The kernel's error.
        why: String,
    },
}

/// The reason a program was not run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// The object has no such program.
    #[error("the object has no program {program}; it has {there}")]
    NoProgram {
        /// The name.
        program: String,
        /// The programs that it has.
        there: String,
    },
    /// The kernel refused.
    #[error("the kernel does not run {program}: {why}; is it a program for SEC(\"syscall\")?")]
    Refused {
        /// The name.
        program: String,
        /// The message of libbpf.
        why: String,
    },
}

thread_local! {
    static CAPTURED: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Starts capturing, once for the whole process, and clears the calling thread's messages.
pub(super) fn capture() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, note)));
    });
    CAPTURED.take();
}

fn note(_: PrintLevel, text: String) {
    CAPTURED.with_borrow_mut(|captured| captured.push_str(&text));
}

/// Returns the last lines captured since [`capture`].
pub(super) fn last() -> String {
    let captured = CAPTURED.take();
    let lines: Vec<&str> = captured.lines().collect();
    lines[lines.len().saturating_sub(KEPT)..].join("\n")
}
