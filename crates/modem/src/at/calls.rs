//! The beginning and end of calls, and their result codes.

use punctual_model::{Duration, Instant};

use super::escape::Escape;
use super::interpreter::{Interpreter, Phase};
use super::{Compressed, Connection, ErrorControl, Order, Register, ResultCode};

/// The time after a dial or answer command in which a byte does not abort it (V.250 §5.6.1): the
/// byte may be the line feed that a terminal sends after each carriage return.
pub const ABORT_GRACE: Duration = Duration::from_millis(125);

/// A ring that follows the previous one by more than this starts the count of another call.
pub const RING_MEMORY: Duration = Duration::from_secs(8);

impl Interpreter {
    pub(super) fn ring(&mut self, now: Instant) {
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
    pub(super) fn report(&mut self, text: &str) {
        if !self.settings.quiet {
            self.output.information(text, &self.settings);
        }
    }

    pub(super) fn hold(&mut self, call: Connection) {
        self.phase = Phase::Commands { held: Some(call) };
        self.output.result(ResultCode::Ok, &self.settings);
    }

    pub(super) fn give_up(&mut self) {
        self.order(Order::HangUp);
        self.end(ResultCode::NoCarrier);
    }

    pub(super) fn end(&mut self, code: ResultCode) {
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
