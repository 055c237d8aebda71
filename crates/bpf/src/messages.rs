//! What libbpf says goes to a list of the thread that asked, not to standard error.

use std::cell::RefCell;
use std::sync::Once;

use libbpf_rs::PrintLevel;

/// What libbpf writes below what the kernel's check of a program said; bpf(2): EACCES.
pub(super) const CHECKED: &str = "END PROG LOAD LOG";
/// Of a check that failed, the end says why.
const KEPT: usize = 12;

thread_local! {
    static SAID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// From here on for the whole process, once.
pub(super) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Warn, note)));
    });
    SAID.take();
}

fn note(_: PrintLevel, text: String) {
    SAID.with_borrow_mut(|said| said.push_str(&text));
}

/// The last lines of what was said since [`listen`].
pub(super) fn last() -> String {
    let said = SAID.take();
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(KEPT)..].join("\n")
}
