//! A modem as a device: a terminal on one side, a line on the other.
//!
//! Combines commands ([`crate::at`]), modulation and supervision ([`crate::pump`]) and error
//! control ([`crate::lapm`]). Pure: a driver passes in the terminal's bytes, the samples and the
//! line's signals, each with its instant, and takes the output away.
//!
//! # Order of calls
//! In each period, call [`Station::terminal`] with the bytes from the terminal, pass in signals of
//! the line, call [`Station::exchange`] with the samples received, then [`Station::next_signal`]
//! until there is none, and [`Station::take_output`].

mod call;

use std::collections::VecDeque;

use punctual_model::{Duration, Instant};

use crate::at::{DialString, Interpreter, LineEvent, Order, Register};
use call::{Call, Progress};

pub use crate::lapm::LinkStats;

/// Bytes of the terminal that wait for the line.
const ROOM: usize = 4_096;

/// The time that received bytes wait for a terminal that does not read, after the line is gone.
const LAST_BYTES: Duration = Duration::from_secs(10);

/// A signal from the modem to the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Off hook, and dial that number.
    Dial(DialString),
    /// Off hook, for an incoming call.
    Answer,
    /// On hook.
    HangUp,
}

/// A signal from the line to the modem, beside samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineSignal {
    /// One ring of an incoming call.
    Ring,
    /// The number dialled has answered.
    Answered,
    /// The number dialled is busy.
    Busy,
    /// The number dialled does not answer.
    NoAnswer,
    /// There is no such number, or no line.
    NoDialtone,
}

/// The modem.
pub struct Station {
    at: Interpreter,
    to_send: VecDeque<u8>,
    signals: VecDeque<Signal>,
    /// A number to be dialled, and the time to do so.
    dialling: Option<(Instant, DialString)>,
    call: Option<Call>,
    off_hook: bool,
    /// The time until which a call that ended waits for its last bytes to be read.
    last_bytes: Option<Instant>,
    /// The counters of the last call's link.
    link: Option<LinkStats>,
}

impl Default for Station {
    fn default() -> Self {
        Self::new()
    }
}

impl Station {
    /// Creates a modem on hook, with its factory settings.
    pub fn new() -> Self {
        Self {
            at: Interpreter::new(),
            to_send: VecDeque::with_capacity(ROOM),
            signals: VecDeque::new(),
            dialling: None,
            call: None,
            off_hook: false,
            last_bytes: None,
            link: None,
        }
    }

    /// Takes bytes from the terminal and returns their number. The rest must be given again later:
    /// that is the flow control.
    #[must_use = "bytes beyond the number returned were not taken"]
    pub fn terminal(&mut self, now: Instant, bytes: &[u8]) -> usize {
        for (taken, &byte) in bytes.iter().enumerate() {
            if self.to_send.len() == ROOM {
                return taken;
            }
            self.to_send.extend(self.at.terminal(now, byte));
            self.obey(now);
        }
        bytes.len()
    }

    /// Handles that no program has the terminal open any more.
    pub fn terminal_gone(&mut self, now: Instant) {
        self.at.terminal_gone(now);
        self.obey(now);
        // Output for this client must not reach the next one.
        let mut nobody = [0; 256];
        while self.at.take_output(&mut nobody) > 0 {}
    }

    /// Moves bytes for the terminal to the front of `into` and returns their number.
    pub fn take_output(&mut self, into: &mut [u8]) -> usize {
        let count = self.at.take_output(into);
        if count > 0 || !self.at.is_online() {
            return count;
        }
        self.call.as_mut().map_or(0, |call| call.read(into))
    }

    /// Takes a signal from the line.
    pub fn line_signal(&mut self, now: Instant, signal: LineSignal) {
        let waiting = self.at.is_connecting() && self.call.is_none();
        match signal {
            LineSignal::Ring => self.at.line(now, LineEvent::Ring),
            LineSignal::Answered if waiting => self.begin(now, true),
            LineSignal::Busy if waiting => self.fail(now, LineEvent::Busy),
            LineSignal::NoAnswer if waiting => self.fail(now, LineEvent::NoAnswer),
            LineSignal::NoDialtone if waiting => self.fail(now, LineEvent::NoDialtone),
            _ => {}
        }
        self.obey(now);
    }

    /// Returns the next signal for the line.
    pub fn next_signal(&mut self) -> Option<Signal> {
        self.signals.pop_front()
    }

    /// Receives and sends the same number of samples, the first of them at `now`. On hook it
    /// ignores the received samples and sends silence.
    ///
    /// # Panics
    /// Panics if the two lengths differ.
    pub fn exchange(&mut self, now: Instant, received: &[i16], sent: &mut [i16]) {
        assert_eq!(received.len(), sent.len(), "as many samples are sent as received");
        self.at.handle_timeout(now);
        self.obey(now);
        if let Some((_, number)) = self.dialling.take_if(|(due, _)| *due <= now) {
            self.off_hook = true;
            self.signals.push_back(Signal::Dial(number));
        }
        sent.fill(0);
        let Some(call) = &mut self.call else { return };
        let progress = call.exchange(now, received, sent, &mut self.to_send);
        self.link = call.link_stats().or(self.link);
        match progress {
            Progress::Pending => {}
            Progress::Connected(connection) => {
                self.at.line(now, LineEvent::Connected(connection));
            }
            Progress::Over => self.call_over(now),
        }
        self.obey(now);
    }

    /// Returns true if the modem is off hook.
    pub fn is_off_hook(&self) -> bool {
        self.off_hook
    }

    /// Returns the command interpreter, for reading.
    pub fn commands(&self) -> &Interpreter {
        &self.at
    }

    /// Returns the counters of the link of the present call, or of the last.
    pub fn link_stats(&self) -> Option<LinkStats> {
        self.link
    }

    /// Returns the number of retrains in the present call.
    pub fn retrained(&self) -> u32 {
        self.call.as_ref().map_or(0, Call::retrained)
    }

    /// Ends the call. Bytes that have arrived go to the terminal before the result code.
    fn call_over(&mut self, now: Instant) {
        self.on_hook();
        let Some(call) = &mut self.call else { return };
        let until = *self.last_bytes.get_or_insert(now.saturating_add(LAST_BYTES));
        if call.has_unread() && self.at.is_online() && now < until {
            return;
        }
        self.drop_call();
        self.at.line(now, LineEvent::Lost);
    }

    fn obey(&mut self, now: Instant) {
        while let Some(order) = self.at.next_order() {
            match order {
                Order::Dial(number) => {
                    self.hang_up_at_once();
                    let blind = self.at.settings().registers.get(Register::BlindDial);
                    let due = now + Duration::from_secs(blind.into()) + number.pauses();
                    self.dialling = Some((due, number));
                }
                Order::Answer => {
                    self.hang_up_at_once();
                    self.off_hook = true;
                    self.signals.push_back(Signal::Answer);
                    self.begin(now, false);
                }
                Order::HangUp => match self.call.as_mut().filter(|call| call.is_through()) {
                    Some(call) => call.finish(now),
                    None => self.hang_up_at_once(),
                },
            }
        }
    }

    fn begin(&mut self, now: Instant, calling: bool) {
        self.to_send.clear();
        match Call::new(now, calling, self.at.settings()) {
            Ok(call) => self.call = Some(call),
            // Out of memory for a modem: the line is free again.
            Err(_) => self.fail(now, LineEvent::Lost),
        }
    }

    fn fail(&mut self, now: Instant, event: LineEvent) {
        self.on_hook();
        self.at.line(now, event);
    }

    fn hang_up_at_once(&mut self) {
        self.dialling = None;
        self.on_hook();
        self.drop_call();
    }

    fn on_hook(&mut self) {
        if std::mem::take(&mut self.off_hook) {
            self.signals.push_back(Signal::HangUp);
        }
    }

    fn drop_call(&mut self) {
        self.call = None;
        self.last_bytes = None;
        self.to_send.clear();
    }
}
