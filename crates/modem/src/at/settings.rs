//! The settings that commands make, apart from the S registers.

use super::extended::CompressionSelection;
use super::extended::Modulation;
use super::registers::Registers;

/// The error control of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorControl {
    /// Characters with start and stop bits: errors on the line reach the terminal.
    None,
    /// V.42's LAPM.
    Lapm,
}

/// The action if the far end does not correct errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// Continue without error control.
    Allowed,
    /// Hang up.
    Refused,
}

/// The way the calling end begins (`+ES`, first number; V.250 §6.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginatorRequest {
    /// 1: no error control.
    Buffered,
    /// 2: LAPM at once, without detection.
    LapmDirect,
    /// 3: detect first.
    LapmDetected,
}

/// `+ES`: error control, for outgoing and for answered calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorSelection {
    /// The way an outgoing call begins.
    pub request: OriginatorRequest,
    /// The action of an outgoing call without error control.
    pub originator: Fallback,
    /// The action of an answered call: `None` never corrects errors.
    pub answerer: Option<Fallback>,
}

impl ErrorSelection {
    /// Converts the three numbers of `+ES`; returns `None` for values that this modem does not
    /// support.
    pub(super) fn from_numbers(request: u32, originator: u32, answerer: u32) -> Option<Self> {
        Some(Self {
            request: match request {
                1 => OriginatorRequest::Buffered,
                2 => OriginatorRequest::LapmDirect,
                3 => OriginatorRequest::LapmDetected,
                _ => return None,
            },
            originator: match originator {
                0 => Fallback::Allowed,
                3 => Fallback::Refused,
                _ => return None,
            },
            answerer: match answerer {
                1 => None,
                2 => Some(Fallback::Allowed),
                5 => Some(Fallback::Refused),
                _ => return None,
            },
        })
    }

    /// Returns the three numbers of `+ES`.
    pub fn numbers(self) -> [u8; 3] {
        [
            match self.request {
                OriginatorRequest::Buffered => 1,
                OriginatorRequest::LapmDirect => 2,
                OriginatorRequest::LapmDetected => 3,
            },
            if self.originator == Fallback::Allowed { 0 } else { 3 },
            match self.answerer {
                None => 1,
                Some(Fallback::Allowed) => 2,
                Some(Fallback::Refused) => 5,
            },
        ]
    }
}

impl Default for ErrorSelection {
    /// Returns `+ES=3,0,2`: correct errors if the far end can.
    fn default() -> Self {
        Self {
            request: OriginatorRequest::LapmDetected,
            originator: Fallback::Allowed,
            answerer: Some(Fallback::Allowed),
        }
    }
}

/// The action when the terminal's DTR (circuit 108) drops (`&D`, V.250 §6.2.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalGone {
    /// 0: none.
    Ignored,
    /// 1: back to commands; the call stays.
    Commands,
    /// 2: hang up.
    HangsUp,
}

/// All settings that commands make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// E: echo the terminal's bytes.
    pub echo: bool,
    /// V: result codes in words.
    pub verbose: bool,
    /// Q: no result codes.
    pub quiet: bool,
    /// X, 0 to 4: the detail of result codes.
    pub x: u8,
    /// L, 0 to 3, and M, 0 to 2: stored and shown. There is no speaker, so they have no effect.
    pub loudness: u8,
    /// See [`Settings::loudness`].
    pub monitor: u8,
    /// &C: true if circuit 109 follows the carrier; otherwise it is always on.
    pub follow_carrier: bool,
    /// &D.
    pub terminal_gone: TerminalGone,
    /// +MS: the modulation; the fastest one if it is negotiated.
    pub modulation: Modulation,
    /// +MS, second number: true if V.8 chooses among this modulation and slower ones.
    pub automode: bool,
    /// +ES.
    pub errors: ErrorSelection,
    /// +DS.
    pub compression: CompressionSelection,
    /// +DR: report before CONNECT whether data is compressed.
    pub report_compression: bool,
    /// +ER: report before CONNECT whether errors are corrected.
    pub report_errors: bool,
    /// +MR: report before CONNECT which modulation and rates are in use.
    pub report_modulation: bool,
    /// S.
    pub registers: Registers,
}

impl Default for Settings {
    /// Returns the factory settings.
    fn default() -> Self {
        Self {
            echo: true,
            verbose: true,
            quiet: false,
            x: 4,
            loudness: 0,
            monitor: 0,
            follow_carrier: true,
            terminal_gone: TerminalGone::HangsUp,
            modulation: Modulation::default(),
            automode: true,
            errors: ErrorSelection::default(),
            compression: CompressionSelection::default(),
            report_compression: false,
            report_errors: false,
            report_modulation: false,
            registers: Registers::default(),
        }
    }
}

impl Settings {
    /// Returns the text that `AT&V` shows.
    pub(super) fn show(&self) -> String {
        use core::fmt::Write;
        let flag = u8::from;
        let gone = self.terminal_gone as u8;
        let [request, originator, answerer] = self.errors.numbers();
        let mut text = format!(
            "E{} L{} M{} Q{} V{} X{} &C{} &D{gone}\n+MS={},{} +ES={request},{originator},{answerer} \
             +DS={},{} +DR={} +ER={} +MR={}\n",
            flag(self.echo),
            self.loudness,
            self.monitor,
            flag(self.quiet),
            flag(self.verbose),
            self.x,
            flag(self.follow_carrier),
            self.modulation.name(),
            flag(self.automode),
            self.compression.direction(),
            flag(self.compression.required),
            flag(self.report_compression),
            flag(self.report_errors),
            flag(self.report_modulation),
        );
        for (number, value) in self.registers.all() {
            write!(text, "S{number:02}:{value:03} ").expect("a String takes everything");
        }
        text.truncate(text.trim_end().len());
        text
    }
}
