//! The interpreter: its inputs, its outputs and its timers, and the beginning and end of calls with
//! their result codes.

use punctual_model::{Duration, Instant};

use super::escape::Escape;
use super::line_buffer::{LineBuffer, Progress};
use super::result::Output;
use super::{Compressed, Connection, ErrorControl, Register, ResultCode, Settings, TerminalGone};
use crate::at::DialString;

/// The time after a dial or answer command in which a byte does not abort it (V.250 §5.6.1): the
/// byte may be the line feed that a terminal sends after each carriage return.
pub const ABORT_GRACE: Duration = Duration::from_millis(125);

/// A ring that follows the previous one by more than this starts the count of another call.
pub const RING_MEMORY: Duration = Duration::from_secs(8);

/// An order to the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Call that number; report [`LineEvent::Connected`] or the reason for failure.
    Dial(DialString),
    /// Answer the incoming call, or listen for a calling modem.
    Answer,
    /// End the call, or the attempt. No report is expected.
    HangUp,
}

/// An event of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEvent {
    /// One ring of an incoming call.
    Ring,
    /// The ordered call is connected: data flows.
    Connected(Connection),
    /// The ordered call failed: the far end is busy.
    Busy,
    /// The ordered call failed: no dial tone.
    NoDialtone,
    /// The ordered call failed: no answer.
    NoAnswer,
    /// The call or the attempt is over: no carrier, or the far end hung up.
    Lost,
}

/// The meaning of the terminal's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    /// Commands, possibly with a call on hold.
    Commands { held: Option<Connection> },
    /// A call attempt that began at `since`.
    Connecting { since: Instant },
    /// Data.
    Online { call: Connection, escape: Escape },
}

/// The interpreter. See the [module](super) for the order of calls.
#[derive(Clone, Debug)]
pub struct Interpreter {
    pub(super) settings: Settings,
    pub(super) phase: Phase,
    buffer: LineBuffer,
    pub(super) output: Output,
    order: [Option<Order>; 2],
    last_ring: Option<Instant>,
}

impl Default for Interpreter {
    fn default() -> Self {
        Self::new()
    }
}

impl Interpreter {
    /// Creates a modem with its factory settings and no call.
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

    /// Takes a byte from the terminal; returns it if it is data for the far end.
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

    /// Takes an event of the line. An event that does not fit the state (a second CONNECT, BUSY
    /// without a call) changes nothing.
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

    /// Handles a drop of the terminal's DTR: on a pty, that no program has it open any more.
    pub fn terminal_gone(&mut self, now: Instant) {
        self.handle_timeout(now);
        self.buffer.clear();
        match (self.settings.terminal_gone, self.phase) {
            (TerminalGone::Ignored, _) | (_, Phase::Commands { held: None }) => {}
            (TerminalGone::Commands, Phase::Online { call, .. }) => self.hold(call),
            (TerminalGone::Commands, Phase::Commands { .. }) => {}
            // A call attempt cannot be held.
            (_, Phase::Connecting { .. }) | (TerminalGone::HangsUp, _) => {
                self.order(Order::HangUp);
                self.phase = Phase::Commands { held: None };
                self.output.result(ResultCode::Ok, &self.settings);
            }
        }
    }

    /// Returns the time at which [`Interpreter::handle_timeout`] has something to do, if nothing
    /// else happens.
    pub fn next_timeout(&self) -> Option<Instant> {
        let registers = &self.settings.registers;
        match &self.phase {
            Phase::Commands { .. } => None,
            Phase::Connecting { since } => Some(since.saturating_add(registers.completion())),
            Phase::Online { escape, .. } => escape.due(registers.guard()),
        }
    }

    /// Does the work due at `now`: the end of a guard time, or of the time in S7.
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

    /// Returns the next order for the line.
    pub fn next_order(&mut self) -> Option<Order> {
        let order = self.order[0].take();
        self.order.swap(0, 1);
        order
    }

    /// Moves bytes for the terminal to the front of `into` and returns their number.
    pub fn take_output(&mut self, into: &mut [u8]) -> usize {
        self.output.take(into)
    }

    /// Returns true if [`Interpreter::take_output`] has bytes.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Returns the number of bytes dropped because the terminal left
    /// [`OUTPUT_ROOM`](super::OUTPUT_ROOM) bytes unread.
    pub fn output_dropped(&self) -> u64 {
        self.output.dropped()
    }

    /// Returns true if the terminal and the far end exchange data.
    pub fn is_online(&self) -> bool {
        matches!(self.phase, Phase::Online { .. })
    }

    /// Returns true if there is a call, online or on hold.
    pub fn has_call(&self) -> bool {
        matches!(self.phase, Phase::Online { .. } | Phase::Commands { held: Some(_) })
    }

    /// Returns true if a call is being set up.
    pub fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Connecting { .. })
    }

    /// Returns circuit 109 (DCD): on during a call, or always with `&C0`.
    pub fn carrier_shown(&self) -> bool {
        self.has_call() || !self.settings.follow_carrier
    }

    /// Returns the settings made by commands.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn command_byte(&mut self, now: Instant, byte: u8) {
        match self.buffer.byte(byte, &self.settings, &mut self.output) {
            Progress::Part => {}
            Progress::Line => {
                let body = self.buffer.body().to_vec();
                self.execute(now, &body);
            }
            Progress::TooLong => self.output.result(ResultCode::Error, &self.settings),
        }
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

    /// Returns the number of rings of the present call: zero if the last was too long ago.
    pub(super) fn rings(&self, now: Instant) -> u8 {
        match self.last_ring {
            Some(last) if now.saturating_since(last) <= RING_MEMORY => {
                self.settings.registers.get(Register::Rings)
            }
            _ => 0,
        }
    }

    pub(super) fn connect(&mut self, now: Instant, order: Order) {
        self.last_ring = None;
        self.settings.registers.set_rings(0);
        self.buffer.clear();
        self.order(order);
        self.phase = Phase::Connecting { since: now };
    }

    pub(super) fn go_online(&mut self, now: Instant, call: Connection) {
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
        if self.settings.report_compression {
            self.report(match call.compression {
                Compressed { sent: false, received: false } => "+DR: NONE",
                Compressed { sent: true, received: true } => "+DR: V42B",
                Compressed { sent: false, received: true } => "+DR: V42B RD",
                Compressed { sent: true, received: false } => "+DR: V42B TD",
            });
        }
        self.output.result(ResultCode::Connect(call), &self.settings);
        self.phase = Phase::Online { call, escape: Escape::new(now) };
    }

    /// Writes an intermediate result. These are suppressed with the final ones (V.250 §6.2.6).
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
        // A command line being typed stays: only the call is gone.
        self.phase = Phase::Commands { held: None };
        self.output.result(code, &self.settings);
    }

    /// Queues an order for the line. At most two wait: a hang-up and the order after it.
    pub(super) fn order(&mut self, order: Order) {
        if order != Order::HangUp && self.order[0] == Some(Order::HangUp) {
            self.order[1] = Some(order);
        } else {
            self.order = [Some(order), None];
        }
    }
}
