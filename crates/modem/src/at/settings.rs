//! The settings that commands make, apart from the S registers.

use super::registers::Registers;
use crate::modem::Role;

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

/// The compression that this end wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressionSelection {
    /// The directions that it offers.
    pub offers: Compressed,
    /// True if it hangs up when the far end does not support all of them.
    pub required: bool,
}

impl CompressionSelection {
    /// Converts the numbers of `+DS`; returns `None` for values that this modem does not support.
    pub(super) fn from_numbers(direction: u32, required: bool) -> Option<Self> {
        let offers = Compressed { sent: direction & 1 != 0, received: direction & 2 != 0 };
        (direction <= 3).then_some(Self { offers, required })
    }

    /// Returns the first number of `+DS`: 0 none, 1 sent data, 2 received data, 3 both.
    pub fn direction(self) -> u8 {
        u8::from(self.offers.sent) | u8::from(self.offers.received) << 1
    }
}

impl Default for CompressionSelection {
    /// Returns `+DS=3,0`: both ways, if the far end can.
    fn default() -> Self {
        Self { offers: Compressed { sent: true, received: true }, required: false }
    }
}

/// A modulation: the coding of bits as sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Modulation {
    /// ITU-T V.21: 300 bit/s both ways.
    V21,
    /// ITU-T V.23: 75 bit/s from the caller, 1200 bit/s to it.
    V23,
    /// Bell 103: 300 bit/s both ways.
    Bell103,
    /// ITU-T V.22bis: 2400 bit/s both ways.
    #[default]
    V22bis,
}

impl Modulation {
    /// All modulations.
    pub const ALL: [Self; 4] = [Self::V21, Self::V23, Self::Bell103, Self::V22bis];

    /// Returns the name in `AT+MS` (V.250 §6.4.1).
    pub fn name(self) -> &'static str {
        match self {
            Self::V21 => "V21",
            Self::V23 => "V23C",
            Self::Bell103 => "B103",
            Self::V22bis => "V22B",
        }
    }

    /// Returns the modulation with that name, in any case.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|modulation| modulation.name().eq_ignore_ascii_case(name))
    }

    /// Returns true if V.8 has a name for the modulation.
    pub fn is_negotiable(self) -> bool {
        self != Self::Bell103
    }

    /// Returns the modulations that an end which prefers this one offers: this and those slower
    /// than it, the fastest first.
    pub fn offers(self) -> impl Iterator<Item = Self> {
        let fastest_first = [Self::V22bis, Self::V23, Self::V21];
        fastest_first.into_iter().skip_while(move |&modulation| modulation != self)
    }

    /// Returns the bit/s that the calling and the answering end send.
    pub fn rates(self) -> (u32, u32) {
        match self {
            Self::V21 | Self::Bell103 => (300, 300),
            Self::V23 => (75, 1200),
            Self::V22bis => (2400, 2400),
        }
    }

    /// Returns the bit/s that the end with that role sends and receives.
    pub fn rates_of(self, role: Role) -> (u32, u32) {
        let (by_caller, by_answerer) = self.rates();
        match role {
            Role::Calling => (by_caller, by_answerer),
            Role::Answering => (by_answerer, by_caller),
        }
    }
}

/// The directions that are compressed, seen from one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compressed {
    /// The data that this end sends.
    pub sent: bool,
    /// The data that this end receives.
    pub received: bool,
}
