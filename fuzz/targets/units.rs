//! Any text as any quantity: what parses as a time is written and read back the same; never a
//! panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_model::units::{self, MAX_NANOS};
use punctual_model::{Duration, Reservation, Service};

fuzz_target!(|text: &str| {
    if let Ok(nanos) = units::parse_nanos(text) {
        assert!(nanos <= MAX_NANOS);
        assert_eq!(units::parse_nanos(&Duration::from_nanos(nanos).to_string()), Ok(nanos));
        assert_eq!(units::parse_nanos(&Service::from_nanos(nanos).to_string()), Ok(nanos));
    }
    if let Ok(reservation) = text.parse::<Reservation>() {
        assert_eq!(reservation.to_string().parse(), Ok(reservation));
    }
    if let Ok(period) = units::parse_period(text) {
        assert!((1..=MAX_NANOS).contains(&period));
    }
    if let Ok(ppm) = units::parse_ppm(text) {
        assert!(ppm <= 1_000_000);
    }
    // Each has bounds of its own; here only that there is an answer.
    let _ = (units::parse_bytes(text), units::parse_bits_per_second(text));
    let _ = units::parse_picos_per_byte(text);
});
