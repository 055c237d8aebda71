//! Any bytes as a message to the broker and as its configuration: an answer with a place, or
//! something valid; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_broker::config::{Config, MAX_CONFIG};
use punctual_broker::want::{MAX_UPCALLS, RawWant, Want, What};
use punctual_broker::wire::{Ask, parse_ask, parse_said, to_bytes};

fuzz_target!(|bytes: &[u8]| {
    let _ = parse_said(bytes);
    if let Ok(envelope) = parse_ask(bytes) {
        // What was understood is understood again.
        let written = to_bytes(&envelope);
        if let Some(written) = written {
            assert_eq!(parse_ask(&written).expect("we wrote it"), envelope);
        }
        if let Ask::Request { want } | Ask::Change { want, .. } = envelope.ask
            && let Ok(valid) = Want::try_from(want.clone())
        {
            assert!(valid.thread.as_raw() > 0);
            assert!(valid.what.share_ppm() > 0);
            let _ = (valid.what.burst(), valid.what.to_string());
            if let What::Upcalls(upcalls) = &valid.what {
                assert!((1..=MAX_UPCALLS).contains(&upcalls.len()));
            }
            assert_eq!(RawWant::from(&valid), want);
        }
    }
    match Config::parse("fuzz.toml", bytes) {
        Ok(config) => assert!(config.reservable_ppm.is_none_or(|ppm| (1..=950_000).contains(&ppm))),
        Err(error) => {
            assert!(bytes.len() > MAX_CONFIG || (1..=bytes.len() + 1).contains(&error.line));
            assert!(error.column >= 1);
        }
    }
});
