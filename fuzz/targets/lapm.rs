//! Any bits as what a modem hears, and any frames as what a link does: never a panic, never a
//! time-out that is due and stays.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_model::{Duration, Instant};
use punctual_modem::lapm::{Link, Parameters, Session, Start};
use punctual_modem::modem::Role;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    let role = if first & 1 == 0 { Role::Calling } else { Role::Answering };
    let parameters = Parameters { negotiate: first & 2 == 0, ..Parameters::for_rate(2_400) };
    if first & 4 == 0 { frames(role, parameters, rest) } else { bits(role, parameters, rest) }
});

/// A length, a pause, and so many bytes of a frame, again and again.
fn frames(role: Role, parameters: Parameters, mut bytes: &[u8]) {
    let mut now = Instant::ZERO;
    let mut link = Link::new(now, role, parameters);
    while let Some((&[length, pause], rest)) = bytes.split_first_chunk() {
        let (frame, rest) = rest.split_at(rest.len().min(usize::from(length & 0x1f)));
        bytes = rest;
        now += Duration::from_millis(u64::from(pause) * 20);
        link.frame(now, frame);
        let _ = link.write(frame);
        while let Some(frame) = link.next_frame(now) {
            assert!(frame.bytes().len() >= 2);
        }
        assert!(link.next_timeout().is_none_or(|due| due > now));
        if length & 0x20 != 0 {
            let _ = link.read(&mut [0; 50]);
        }
        if length == 0xff {
            link.release();
        }
    }
}

fn bits(role: Role, parameters: Parameters, bytes: &[u8]) {
    let mut now = Instant::ZERO;
    let start = Start::Detect { t400: Duration::from_secs(1) };
    let mut session = Session::new(now, role, parameters, start);
    for &byte in bytes {
        for bit in 0..8 {
            session.put_bit(now, byte >> bit & 1 == 1);
            let _ = session.next_bit(now);
        }
        let _ = session.write(&[byte]);
        let _ = session.read(&mut [0; 3]);
        now += Duration::from_millis(3);
    }
}
