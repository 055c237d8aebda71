//! Any bytes, in any pieces, as what a stranger sends to `punctual metrics`: an answer that does not
//! depend on the pieces, in bounded memory; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/punctual/src/metrics/format.rs"]
mod format;
#[path = "../../crates/punctual/src/metrics/request.rs"]
mod request;

use format::Format;
use request::{Head, MOST_BYTES};

fuzz_target!(|input: (u16, Vec<u8>)| {
    let (pieces, bytes) = input;
    let mut whole = Head::default();
    whole.take(&bytes);
    let mut apart = Head::default();
    for piece in bytes.chunks(usize::from(pieces).max(1)) {
        apart.take(piece);
    }
    assert_eq!(apart.parse(), whole.parse());
    match whole.parse() {
        Ok(asked) => {
            assert!(whole.is_over());
            assert!(bytes.starts_with(if asked.body { b"GET /metrics" } else { b"HEAD /metrics" }));
            let page = asked.format.of("# TYPE a counter\na_total 1\n# EOF\n");
            assert_eq!(page.ends_with("# EOF\n"), asked.format == Format::OpenMetrics);
            assert!(asked.format.content_type().ends_with("charset=utf-8"));
        }
        Err(status) => {
            assert!(["400", "404", "405", "431"].iter().any(|code| status.starts_with(code)));
            assert!(!status.starts_with("431") || bytes.len() > MOST_BYTES);
        }
    }
});
