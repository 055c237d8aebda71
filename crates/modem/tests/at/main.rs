//! The command interpreter as a terminal and a line see it, in virtual time.

mod calls;
mod commands;
mod escape;
mod garbage;

use punctual_model::{Duration, Instant};
use punctual_modem::at::{
    Compressed, Connection, ErrorControl, Interpreter, LineEvent, Modulation, Order,
};

/// A terminal and a line around an interpreter.
struct Bench {
    modem: Interpreter,
    now: Instant,
    /// The bytes that went to the far end.
    sent: Vec<u8>,
}

const CALL: Connection = Connection {
    modulation: Modulation::V22bis,
    transmit_rate: 2400,
    receive_rate: 2400,
    error_control: ErrorControl::Lapm,
    compression: Compressed { sent: false, received: false },
};

impl Bench {
    /// Creates a modem that does not echo.
    fn new() -> Self {
        let mut bench = Self::echoing();
        assert_eq!(bench.types("ATE0\r"), "ATE0\r\r\nOK\r\n");
        bench
    }

    fn echoing() -> Self {
        Self { modem: Interpreter::new(), now: Instant::from_nanos(5_000), sent: Vec::new() }
    }

    /// Creates a modem that is online in a call that it placed.
    fn online() -> Self {
        let mut bench = Self::new();
        assert_eq!(bench.types("ATD1\r"), "");
        assert!(matches!(bench.modem.next_order(), Some(Order::Dial(_))));
        assert_eq!(bench.event(LineEvent::Connected(CALL)), "\r\nCONNECT 2400\r\n");
        bench
    }

    fn byte(&mut self, byte: u8) {
        self.sent.extend(self.modem.terminal(self.now, byte));
    }

    /// Types `text` and returns the modem's output.
    fn types(&mut self, text: &str) -> String {
        text.bytes().for_each(|byte| self.byte(byte));
        self.output()
    }

    fn event(&mut self, event: LineEvent) -> String {
        self.modem.line(self.now, event);
        self.output()
    }

    /// Lets time pass as a driver would: each timeout is handled exactly when it is due.
    fn wait(&mut self, length: Duration) -> String {
        let end = self.now + length;
        while let Some(due) = self.modem.next_timeout().filter(|&due| due <= end) {
            self.now = due;
            self.modem.handle_timeout(due);
        }
        self.now = end;
        self.output()
    }

    fn output(&mut self) -> String {
        let mut text = Vec::new();
        let mut piece = [0; 7];
        loop {
            match self.modem.take_output(&mut piece) {
                0 => return String::from_utf8(text).expect("the modem speaks ASCII"),
                count => text.extend_from_slice(&piece[..count]),
            }
        }
    }

    fn orders(&mut self) -> Vec<Order> {
        std::iter::from_fn(|| self.modem.next_order()).collect()
    }
}
