//! A Hayes modem as its terminal sees it: commands in, result codes out (ITU-T V.250).
//!
//! Pure: [`Interpreter`] takes bytes of the terminal and events of the line with the instant at
//! which they came, and gives bytes for the terminal and [`Order`]s for the line. It reads no
//! clock and knows neither samples nor ttys.
//!
//! | state | bytes of the terminal are | left by |
//! |---|---|---|
//! | commands, no call | command lines | `D`, `A`, a ring that S0 answers |
//! | connecting | a wish to give up (§5.6.1), from 125 ms after the command on | CONNECT, a failure, S7 |
//! | online | data, and watched for the [`escape`] | the escape, DTR, the end of the call |
//! | commands, call on hold | command lines | `O`, `H`, `Z`, the end of the call |
//!
//! # Order of calls
//! Give every byte to [`Interpreter::terminal`] and every event to [`Interpreter::line`] in the
//! order of time; call [`Interpreter::handle_timeout`] when [`Interpreter::next_timeout`] passes
//! (both others do it first by themselves). After each of them take [`Interpreter::next_order`]
//! until there is none, and write [`Interpreter::take_output`] to the terminal before any data of
//! the line.
//!
//! # Example
//! ```
//! use punctual_model::Instant;
//! use punctual_softmodem::at::{Interpreter, Order};
//!
//! let mut modem = Interpreter::new();
//! let now = Instant::ZERO;
//! for &byte in b"ATE0DT5551\r" {
//!     assert_eq!(modem.terminal(now, byte), None, "no call, so nothing is data");
//! }
//! let Some(Order::Dial(number)) = modem.next_order() else { panic!("it dials") };
//! assert_eq!(number.digits().collect::<String>(), "5551");
//! ```

mod command;
mod dial;
pub mod escape;
mod execute;
mod extended;
mod line_buffer;
mod registers;
mod result;
mod settings;

use punctual_model::{Duration, Instant};

pub use dial::{DialError, DialStep, DialString, MAX_STEPS};
pub use line_buffer::LINE_ROOM;
pub use registers::{Register, RegisterError, Registers};
pub use result::{Connection, OUTPUT_ROOM, ResultCode};
pub use settings::{
    ErrorControl, ErrorSelection, Fallback, Modulation, OriginatorRequest, Settings, TerminalGone,
};

use escape::Escape;
use line_buffer::{Heard, LineBuffer};
use result::Output;

/// So long after a command, a byte does not give it up (V.250 §5.6.1): it may be the line feed
/// that a terminal sends after each carriage return.
pub const ABORT_GRACE: Duration = Duration::from_millis(125);

/// A ring that follows the one before by more than this begins another call's count.
pub const RING_MEMORY: Duration = Duration::from_secs(8);

/// What the line is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Call that number; report [`LineEvent::Connected`] or why not.
    Dial(DialString),
    /// Answer the call that comes in, or listen for a calling modem.
    Answer,
    /// End the call, or the attempt. Nothing is to be reported.
    HangUp,
}

/// What happens on the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEvent {
    /// One ring of a call that comes in.
    Ring,
    /// The call ordered came about: data flows.
    Connected(Connection),
    /// The call ordered fails: engaged.
    Busy,
    /// The call ordered fails: no dial tone.
    NoDialtone,
    /// The call ordered fails: nobody answers.
    NoAnswer,
    /// The call, or the attempt, is over: no carrier, or the far end hung up.
    Lost,
}

/// What the terminal's bytes mean.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Commands; with a call on hold, if there is one.
    Commands { held: Option<Connection> },
    /// A call is being made since `since`.
    Connecting { since: Instant },
    /// Data.
    Online { call: Connection, escape: Escape },
}

/// The interpreter. See the [module](self) for the order of calls.
#[derive(Clone, Debug)]
pub struct Interpreter {
    settings: Settings,
    phase: Phase,
    buffer: LineBuffer,
    output: Output,
    order: [Option<Order>; 2],
    last_ring: Option<Instant>,
}

impl Default for Interpreter {
    fn default() -> Self {
        Self::new()
    }
}

impl Interpreter {
    /// A modem with its factory settings and no call.
    pub fn new() -> Self {
        Self {
            settings: Settings::default(),
            phase: Phase::Commands { held: None },
            buffer: LineBuffer::default(),
            output: Output::new(),
            order: [None, None],
            last_ring: None,
        }
    }

    /// Takes a byte of the terminal; returns it if it is data for the far end.
    #[must_use = "a byte returned belongs to the far end"]
    pub fn terminal(&mut self, now: Instant, byte: u8) -> Option<u8> {
        self.handle_timeout(now);
        match &mut self.phase {
            Phase::Commands { .. } => {
                self.command_byte(now, byte);
                None
            }
            Phase::Connecting { since } => {
                if now.saturating_since(*since) >= ABORT_GRACE {
                    self.give_up();
                }
                None
            }
            Phase::Online { escape, .. } => {
                let registers = &self.settings.registers;
                let character = Some(registers.get(Register::Escape)).filter(|&byte| byte < 128);
                escape.byte(now, byte, character, registers.guard());
                self.handle_timeout(now);
                Some(byte)
            }
        }
    }

    /// Takes an event of the line. One that does not fit the state (a second CONNECT, BUSY without
    /// a call) changes nothing.
    pub fn line(&mut self, now: Instant, event: LineEvent) {
        self.handle_timeout(now);
        match (event, self.phase) {
            (LineEvent::Ring, Phase::Commands { held: None }) => self.ring(now),
            (LineEvent::Connected(call), Phase::Connecting { .. }) => self.go_online(now, call),
            (LineEvent::Busy, Phase::Connecting { .. }) => self.end(ResultCode::Busy),
            (LineEvent::NoDialtone, Phase::Connecting { .. }) => self.end(ResultCode::NoDialtone),
            (LineEvent::NoAnswer, Phase::Connecting { .. }) => self.end(ResultCode::NoAnswer),
            (
                LineEvent::Lost,
                Phase::Connecting { .. } | Phase::Online { .. } | Phase::Commands { held: Some(_) },
            ) => self.end(ResultCode::NoCarrier),
            _ => {}
        }
    }

    /// The terminal dropped DTR: on a pty, nobody has it open any more.
    pub fn terminal_gone(&mut self, now: Instant) {
        self.handle_timeout(now);
        self.buffer.clear();
        match (self.settings.terminal_gone, self.phase) {
            (TerminalGone::Ignored, _) | (_, Phase::Commands { held: None }) => {}
            (TerminalGone::Commands, Phase::Online { call, .. }) => self.hold(call),
            (TerminalGone::Commands, Phase::Commands { .. }) => {}
            // An attempt has nothing to be kept for.
            (_, Phase::Connecting { .. }) | (TerminalGone::HangsUp, _) => {
                self.order(Order::HangUp);
                self.phase = Phase::Commands { held: None };
                self.output.result(ResultCode::Ok, &self.settings);
            }
        }
    }

    /// When [`Interpreter::handle_timeout`] has something to do, if nothing else happens.
    pub fn next_timeout(&self) -> Option<Instant> {
        let registers = &self.settings.registers;
        match &self.phase {
            Phase::Commands { .. } => None,
            Phase::Connecting { since } => Some(since.saturating_add(registers.completion())),
            Phase::Online { escape, .. } => escape.due(registers.guard()),
        }
    }

    /// Does what is due at `now`: the end of a guard time, or of S7's patience.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.next_timeout().is_none_or(|due| now < due) {
            return;
        }
        match self.phase {
            Phase::Commands { .. } => {}
            Phase::Connecting { .. } => self.give_up(),
            Phase::Online { call, .. } => self.hold(call),
        }
    }

    /// The next order for the line.
    pub fn next_order(&mut self) -> Option<Order> {
        let order = self.order[0].take();
        self.order.swap(0, 1);
        order
    }

    /// Moves bytes for the terminal to the front of `into`; returns how many.
    pub fn take_output(&mut self, into: &mut [u8]) -> usize {
        self.output.take(into)
    }

    /// Whether [`Interpreter::take_output`] has something.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Bytes left out because a terminal did not read [`OUTPUT_ROOM`] bytes before them.
    pub fn output_dropped(&self) -> u64 {
        self.output.dropped()
    }

    /// Whether the terminal and the far end exchange data.
    pub fn is_online(&self) -> bool {
        matches!(self.phase, Phase::Online { .. })
    }

    /// Whether there is a call, online or on hold.
    pub fn has_call(&self) -> bool {
        matches!(self.phase, Phase::Online { .. } | Phase::Commands { held: Some(_) })
    }

    /// Whether a call is being made.
    pub fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Connecting { .. })
    }

    /// Circuit 109 (DCD): on during a call, or always where `&C0` says so.
    pub fn carrier_shown(&self) -> bool {
        self.has_call() || !self.settings.follow_carrier
    }

    /// What commands have set.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn ring(&mut self, now: Instant) {
        let rings = self.rings(now).saturating_add(1);
        self.settings.registers.set_rings(rings);
        self.last_ring = Some(now);
        self.output.result(ResultCode::Ring, &self.settings);
        let answer_at = self.settings.registers.get(Register::AutoAnswer);
        if answer_at > 0 && rings >= answer_at {
            self.connect(now, Order::Answer);
        }
    }

    /// Rings of the present call; none if the last was too long ago.
    fn rings(&self, now: Instant) -> u8 {
        match self.last_ring {
            Some(last) if now.saturating_since(last) <= RING_MEMORY => {
                self.settings.registers.get(Register::Rings)
            }
            _ => 0,
        }
    }

    fn connect(&mut self, now: Instant, order: Order) {
        self.last_ring = None;
        self.settings.registers.set_rings(0);
        self.buffer.clear();
        self.order(order);
        self.phase = Phase::Connecting { since: now };
    }

    fn go_online(&mut self, now: Instant, call: Connection) {
        if self.settings.report_modulation {
            let Connection { modulation, transmit_rate, receive_rate, .. } = call;
            let text = format!("+MCR: {}\n+MRR: {transmit_rate},{receive_rate}", modulation.name());
            self.report(&text);
        }
        if self.settings.report_errors {
            self.report(match call.error_control {
                ErrorControl::None => "+ER: NONE",
                ErrorControl::Lapm => "+ER: LAPM",
            });
        }
        self.output.result(ResultCode::Connect(call), &self.settings);
        self.phase = Phase::Online { call, escape: Escape::new(now) };
    }

    /// Intermediate results are suppressed with the final ones (V.250 §6.2.6).
    fn report(&mut self, text: &str) {
        if !self.settings.quiet {
            self.output.information(text, &self.settings);
        }
    }

    fn hold(&mut self, call: Connection) {
        self.phase = Phase::Commands { held: Some(call) };
        self.output.result(ResultCode::Ok, &self.settings);
    }

    fn give_up(&mut self) {
        self.order(Order::HangUp);
        self.end(ResultCode::NoCarrier);
    }

    fn end(&mut self, code: ResultCode) {
        // The rest of a command line being typed stays: only the call is gone.
        self.phase = Phase::Commands { held: None };
        self.output.result(code, &self.settings);
    }

    /// Two orders wait at most: a hang-up, and what follows it.
    fn order(&mut self, order: Order) {
        if order != Order::HangUp && self.order[0] == Some(Order::HangUp) {
            self.order[1] = Some(order);
        } else {
            self.order = [Some(order), None];
        }
    }

    fn command_byte(&mut self, now: Instant, byte: u8) {
        match self.buffer.byte(byte, &self.settings, &mut self.output) {
            Heard::Part => {}
            Heard::Line => {
                let body = self.buffer.body().to_vec();
                self.execute(now, &body);
            }
            Heard::TooLong => self.output.result(ResultCode::Error, &self.settings),
        }
    }
}
