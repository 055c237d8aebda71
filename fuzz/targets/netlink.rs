//! Any bytes as what the kernel sends on sockets: netlink's messages, acknowledgements, entries of the
//! error queue, part of which strangers wrote. An answer or none; never a panic, and reading ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_linux::net::Notice;
use punctual_linux::net::route::answered;
use punctual_linux::net::watch::{Change, changes_in};

/// `nlmsghdr` and the shortest body of a change.
const SHORTEST: usize = 16 + 8;

fuzz_target!(|bytes: &[u8]| {
    let changes: Vec<Change> = changes_in(bytes).collect();
    assert!(changes.len() <= bytes.len() / SHORTEST, "{changes:?}");
    for change in &changes {
        if let Change::Link { name, .. } = change {
            assert!(!name.contains('\0') && name.len() <= 3 * bytes.len());
        }
    }
    // What comes after does not change what was read; it may complete a message that was cut short.
    let mut more = bytes[..bytes.len() / 4 * 4].to_vec();
    let before: Vec<Change> = changes_in(&more).collect();
    more.extend_from_slice(&[0; 16]);
    let after: Vec<Change> = changes_in(&more).collect();
    assert!(after.starts_with(&before), "{before:?}, then {after:?}");
    let _ = answered(bytes);
    if let Some(notice) = Notice::parse(bytes, None) {
        assert!(bytes.len() >= 16 + 16, "{notice:?}");
    }
});
