//! A modem as a person has it on the desk: a terminal on one side, a line on the other.
//!
//! Commands ([`crate::at`]), modulation and supervision ([`crate::pump`]), error control
//! ([`crate::lapm`]), put together. Pure: a driver brings the terminal's bytes, the samples and
//! the signals of the line with the instant of each, and carries away what comes out.
//!
//! # Order of calls
//! Each period: [`Station::terminal`] with what the terminal sent, signals of the line,
//! [`Station::exchange`] with the samples heard, then [`Station::next_signal`] until there is none
//! and [`Station::take_output`].

mod call;

use std::collections::VecDeque;

use punctual_model::{Duration, Instant};

use crate::at::{DialString, Interpreter, LineEvent, Order, Register};
use call::{Call, Progress};

pub use crate::lapm::LinkStats;

/// Bytes of the terminal that wait for the line.
const ROOM: usize = 4_096;

/// After the line went, what had arrived waits so long for a terminal that does not read.
const LAST_BYTES: Duration = Duration::from_secs(10);

/// What the modem does to the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Off hook, and that number dialled.
    Dial(DialString),
    /// Off hook, for the call that comes in.
    Answer,
    /// On hook.
    HangUp,
}

/// What the line tells the modem, beside samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// One ring of a call that comes in.
    Ring,
    /// The number dialled has answered.
    Answered,
    /// The number dialled is engaged.
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
    /// A number to be dialled, when its time has come.
    dialling: Option<(Instant, DialString)>,
    call: Option<Call>,
    off_hook: bool,
    /// A call that ended while bytes of it were still to be read: until when.
    last_bytes: Option<Instant>,
    /// The last call's link, for its books.
    link: Option<LinkStats>,
}

impl Default for Station {
    fn default() -> Self {
        Self::new()
    }
}

impl Station {
    /// A modem on hook, with its factory settings.
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

    /// Takes bytes of the terminal; returns how many. The rest is to be given again later: that is
    /// the flow control.
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

    /// Nobody has the terminal open any more.
    pub fn terminal_gone(&mut self, now: Instant) {
        self.at.terminal_gone(now);
        self.obey(now);
        // What nobody will read must not be read by the next.
        let mut nobody = [0; 256];
        while self.at.take_output(&mut nobody) > 0 {}
    }

    /// Moves bytes for the terminal to the front of `into`; returns how many.
    pub fn take_output(&mut self, into: &mut [u8]) -> usize {
        let count = self.at.take_output(into);
        if count > 0 || !self.at.is_online() {
            return count;
        }
        self.call.as_mut().map_or(0, |call| call.read(into))
    }

    /// Takes what the line tells.
    pub fn told(&mut self, now: Instant, told: Told) {
        let waiting = self.at.is_connecting() && self.call.is_none();
        match told {
            Told::Ring => self.at.line(now, LineEvent::Ring),
            Told::Answered if waiting => self.begin(now, true),
            Told::Busy if waiting => self.fail(now, LineEvent::Busy),
            Told::NoAnswer if waiting => self.fail(now, LineEvent::NoAnswer),
            Told::NoDialtone if waiting => self.fail(now, LineEvent::NoDialtone),
            _ => {}
        }
        self.obey(now);
    }

    /// The next signal for the line.
    pub fn next_signal(&mut self) -> Option<Signal> {
        self.signals.pop_front()
    }

    /// Hears as many samples as it says, the first of them at `now`. On hook it hears nothing and
    /// says nothing.
    ///
    /// # Panics
    /// If the two lengths differ.
    pub fn exchange(&mut self, now: Instant, heard: &[i16], said: &mut [i16]) {
        assert_eq!(heard.len(), said.len(), "as many samples are said as are heard");
        self.at.handle_timeout(now);
        self.obey(now);
        if let Some((_, number)) = self.dialling.take_if(|(due, _)| *due <= now) {
            self.off_hook = true;
            self.signals.push_back(Signal::Dial(number));
        }
        said.fill(0);
        let Some(call) = &mut self.call else { return };
        let progress = call.exchange(now, heard, said, &mut self.to_send);
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

    /// Whether the modem is off hook.
    pub fn is_off_hook(&self) -> bool {
        self.off_hook
    }

    /// The command interpreter, to be looked at.
    pub fn commands(&self) -> &Interpreter {
        &self.at
    }

    /// What the link of the present call, or of the last, did.
    pub fn link_stats(&self) -> Option<LinkStats> {
        self.link
    }

    /// How often the modem was trained again in the present call.
    pub fn retrained(&self) -> u32 {
        self.call.as_ref().map_or(0, Call::retrained)
    }

    /// The call is over. What had arrived goes to the terminal before the result code does.
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
