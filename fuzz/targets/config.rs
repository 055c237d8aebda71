//! Any bytes as the broker's configuration: a place and a sentence, or something valid that the broker
//! can reckon with; never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_broker::config::{Config, MAX_CONFIG};
use punctual_model::Service;

fuzz_target!(|bytes: &[u8]| {
    match Config::parse("fuzz.toml", bytes) {
        Ok(mut config) => {
            assert!(config.reservable_ppm.is_none_or(|ppm| (1..=950_000).contains(&ppm)));
            for (uid, gids) in [(0, vec![]), (1_000, vec![1_000, 4]), (u32::MAX, vec![u32::MAX])] {
                let _ = config.quotas.of(uid, &gids);
            }
            if let Some(channels) = &mut config.channels {
                let link = channels.reckoned_link();
                assert!(channels.best_effort_ppm <= 1_000_000, "{link:?}");
                channels.take_measured(Some(Service::from_micros(7)), None);
                assert!(!channels.received_packet().is_zero());
            }
        }
        Err(error) => {
            assert!(bytes.len() > MAX_CONFIG || (1..=bytes.len() + 1).contains(&error.line));
            assert!(error.column >= 1);
            assert!(!error.to_string().is_empty());
        }
    }
});
