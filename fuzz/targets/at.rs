//! Anything typed at a modem, at any time, with anything happening on its line: never a panic, and
//! orders that fit the calls there are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_model::{Duration, Instant};
use punctual_modem::at::{
    Compressed, Connection, ErrorControl, Interpreter, LineEvent, Modulation, Order,
};

const CALL: Connection = Connection {
    modulation: Modulation::V22bis,
    transmit_rate: 2400,
    receive_rate: 2400,
    error_control: ErrorControl::None,
    compression: Compressed { sent: false, received: false },
};

fuzz_target!(|bytes: &[u8]| {
    let mut modem = Interpreter::new();
    let mut now = Instant::ZERO;
    let mut busy = false;
    for &byte in bytes {
        // What is due comes before what happens: a call given up is over before the line says so.
        modem.handle_timeout(now);
        orders(&mut modem, &mut busy);
        // Most bytes are typed; those that no terminal sends are time and the line.
        match byte {
            0xf0..=0xf7 => now += Duration::from_millis(100 << (byte & 7)),
            0xf8 => modem.line(now, LineEvent::Ring),
            0xf9 => modem.line(now, LineEvent::Connected(CALL)),
            0xfa => modem.line(now, LineEvent::Busy),
            0xfb => modem.line(now, LineEvent::NoAnswer),
            0xfc => modem.line(now, LineEvent::Lost),
            0xfd => modem.terminal_gone(now),
            _ => {
                let online = modem.is_online();
                let data = modem.terminal(now, byte);
                assert!(data.is_none() || online);
            }
        }
        if matches!(byte, 0xfa..=0xfc) {
            busy &= modem.has_call() || modem.is_connecting();
        }
        orders(&mut modem, &mut busy);
        assert_eq!(busy, modem.has_call() || modem.is_connecting());
        let mut room = [0; 64];
        let _ = modem.take_output(&mut room);
    }
});

/// What the modem is told to do fits whether there is a call.
fn orders(modem: &mut Interpreter, busy: &mut bool) {
    while let Some(order) = modem.next_order() {
        assert_eq!(*busy, order == Order::HangUp, "{order:?}");
        *busy = !*busy;
    }
}
