//! Capturing of libbpf's messages per thread, instead of printing them to standard error.

use std::cell::RefCell;
use std::sync::Once;

use libbpf_rs::PrintLevel;

/// The line that libbpf prints below the kernel verifier's log. It distinguishes a failed check
/// from a lack of privilege: both are EACCES (bpf(2)).
pub(super) const CHECKED: &str = "END PROG LOAD LOG";
/// The lines kept of the log: the end of a failed check gives the reason.
const KEPT: usize = 12;

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
