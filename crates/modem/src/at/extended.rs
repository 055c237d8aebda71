//! Commands that begin with `+` (V.250 §5.4): identification (§6.1), `+MS` (§6.4), `+ES` (§6.5),
//! `+DS` (§6.6), `+DR`, `+ER`, `+MR`.
//!
//! `+MS` sets the modulation. Its second number says whether V.8 may choose a slower one; the
//! default is 1 if V.8 has a name for the modulation. Values that the modem does not support are
//! refused.

use super::command::{CAPABILITIES, Command, MODEL, Parameter, REVISION};
use super::settings::{ErrorSelection, Settings};
use crate::modem::Role;

/// Parses a command without its `+`; returns `None` if this modem does not have it.
pub(super) fn parse(text: &str, settings: &Settings) -> Option<Command> {
    let end = text.find(['=', '?']).unwrap_or(text.len());
    let (name, operation) = text.split_at(end);
    let name = name.to_ascii_uppercase();
    match (name.as_str(), operation) {
        ("GMI", "") => Some(Command::Identify("Punctual")),
        ("GMM", "") => Some(Command::Identify(MODEL)),
        ("GMR", "") => Some(Command::Identify(REVISION)),
        ("GCAP", "") => Some(Command::Identify(CAPABILITIES)),
        ("GMI" | "GMM" | "GMR" | "GCAP", "=?") => Some(Command::Ranges("")),
        _ => parameter(&name, operation, settings),
    }
}

fn parameter(name: &str, operation: &str, settings: &Settings) -> Option<Command> {
    let (parameter, ranges) = match name {
        "MS" => (Parameter::Modulation, "+MS: (V21,V23C,B103,V22B),(0,1)"),
        "ES" => (Parameter::Errors, "+ES: (1-3),(0,3),(1,2,5)"),
        "DS" => (Parameter::Compression, "+DS: (0-3),(0,1)"),
        "DR" => (Parameter::ReportCompression, "+DR: (0,1)"),
        "ER" => (Parameter::ReportErrors, "+ER: (0,1)"),
        "MR" => (Parameter::ReportModulation, "+MR: (0,1)"),
        _ => return None,
    };
    match operation {
        "?" => return Some(Command::ShowParameter(parameter)),
        "=?" => return Some(Command::Ranges(ranges)),
        _ => {}
    }
    let mut values = operation.strip_prefix('=')?.split(',').map(str::trim);
    let command = match parameter {
        Parameter::Modulation => {
            let modulation = Modulation::named(values.next()?)?;
            let automode = match values.next() {
                None | Some("") => modulation.is_negotiable(),
                Some(value) => flag(value)?,
            };
            if automode && !modulation.is_negotiable() {
                return None;
            }
            Command::Modulation(modulation, automode)
        }
        Parameter::Errors => {
            // An omitted number keeps its value (V.250 §5.4.3).
            let mut numbers = settings.errors.numbers().map(u32::from);
            for number in &mut numbers {
                match values.next() {
                    None | Some("") => {}
                    Some(value) => *number = decimal(value)?,
                }
            }
            let [request, originator, answerer] = numbers;
            Command::Errors(ErrorSelection::from_numbers(request, originator, answerer)?)
        }
        Parameter::Compression => {
            let direction = decimal(values.next()?)?;
            let required = match values.next() {
                None | Some("") => settings.compression.required,
                Some(value) => flag(value)?,
            };
            Command::Compression(CompressionSelection::from_numbers(direction, required)?)
        }
        Parameter::ReportCompression => Command::ReportCompression(flag(values.next()?)?),
        Parameter::ReportErrors => Command::ReportErrors(flag(values.next()?)?),
        Parameter::ReportModulation => Command::ReportModulation(flag(values.next()?)?),
    };
    // A surplus value is refused, because it would have no effect.
    values.next().is_none().then_some(command)
}

/// Parses a decimal number without a sign.
fn decimal(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

fn flag(text: &str) -> Option<bool> {
    match decimal(text)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
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
