//! The interpreter: its inputs, its outputs and its timers.

use punctual_model::Instant;

use super::calls::ABORT_GRACE;
use super::escape::Escape;
use super::line_buffer::{LineBuffer, Progress};
use super::result::Output;
use super::{Connection, LineEvent, Order, Register, ResultCode, Settings, TerminalGone};

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
    pub(super) buffer: LineBuffer,
    pub(super) output: Output,
    pub(super) order: [Option<Order>; 2],
    pub(super) last_ring: Option<Instant>,
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
}
