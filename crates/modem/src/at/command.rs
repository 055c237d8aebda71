//! One command of a line, parsed but not yet executed (V.250 §5.3, §5.4), and the commands that
//! begin with `+`: identification (§6.1), `+MS` (§6.4), `+ES` (§6.5), `+DS` (§6.6), `+DR`, `+ER`,
//! `+MR`.
//!
//! `+MS` sets the modulation. Its second number says whether V.8 may choose a slower one; the
//! default is 1 if V.8 has a name for the modulation. Values that the modem does not support are
//! refused.

use punctual_model::Duration;

use super::dial::DialString;
use super::registers::Register;
use super::settings::{ErrorSelection, Settings, TerminalGone};
use crate::at::{CompressionSelection, Modulation};

const MODEL: &str = "Punctual soft modem";
const REVISION: &str = env!("CARGO_PKG_VERSION");
const CAPABILITIES: &str = "+GCAP: +MS,+ES,+DS";

/// A command of this modem, with a valid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Dial(DialString),
    Answer,
    HangUp,
    Online,
    Echo(bool),
    Verbose(bool),
    Quiet(bool),
    Detail(u8),
    Loudness(u8),
    Monitor(u8),
    Reset,
    Factory,
    FollowCarrier(bool),
    TerminalGone(TerminalGone),
    Show,
    Identify(&'static str),
    DialMethod,
    SetRegister(Register, u32),
    ShowRegister(Register),
    /// The modulation, and true if it is negotiated.
    Modulation(Modulation, bool),
    Errors(ErrorSelection),
    ReportErrors(bool),
    ReportModulation(bool),
    Compression(CompressionSelection),
    ReportCompression(bool),
    /// `+XX?`
    ShowParameter(Parameter),
    /// `+XX=?`, with its complete answer, which may be empty.
    Ranges(&'static str),
}

/// A parameter that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Parameter {
    Modulation,
    Errors,
    Compression,
    ReportCompression,
    ReportErrors,
    ReportModulation,
}

/// Parses the next command of `text`. Returns it with the rest of the text, or `None` if this modem
/// does not have it. `settings` give the length of a comma and the values of omitted numbers.
pub(super) fn next<'a>(text: &'a [u8], settings: &Settings) -> Option<(Command, &'a [u8])> {
    let (&first, rest) = text.split_first()?;
    match first.to_ascii_uppercase() {
        b'D' => {
            let comma = seconds(settings.registers.get(Register::Comma));
            Some((Command::Dial(DialString::parse(rest, comma).ok()?), &[]))
        }
        b'S' => register(rest),
        b'&' => {
            let (&name, rest) = rest.split_first()?;
            let (value, rest) = number(rest);
            Some((ampersand(name.to_ascii_uppercase(), value.unwrap_or(0))?, rest))
        }
        b'+' => {
            let end = rest.iter().position(|&byte| byte == b';').unwrap_or(rest.len());
            let command = extended(std::str::from_utf8(&rest[..end]).ok()?, settings)?;
            Some((command, rest.get(end + 1..).unwrap_or(&[])))
        }
        name => {
            let (value, rest) = number(rest);
            Some((basic(name, value.unwrap_or(0))?, rest))
        }
    }
}

fn basic(name: u8, value: u32) -> Option<Command> {
    Some(match (name, value) {
        (b'A', 0) => Command::Answer,
        (b'E', 0..=1) => Command::Echo(value == 1),
        (b'H', 0) => Command::HangUp,
        (b'I', 0) => Command::Identify(MODEL),
        (b'I', 3) => Command::Identify(REVISION),
        (b'I', 4) => Command::Identify(CAPABILITIES),
        (b'L', 0..=3) => Command::Loudness(value as u8),
        (b'M', 0..=2) => Command::Monitor(value as u8),
        (b'O', 0) => Command::Online,
        (b'P' | b'T', 0) => Command::DialMethod,
        (b'Q', 0..=1) => Command::Quiet(value == 1),
        (b'V', 0..=1) => Command::Verbose(value == 1),
        (b'X', 0..=4) => Command::Detail(value as u8),
        (b'Z', 0) => Command::Reset,
        _ => return None,
    })
}

fn ampersand(name: u8, value: u32) -> Option<Command> {
    Some(match (name, value) {
        (b'C', 0..=1) => Command::FollowCarrier(value == 1),
        (b'D', 0) => Command::TerminalGone(TerminalGone::Ignored),
        (b'D', 1) => Command::TerminalGone(TerminalGone::Commands),
        (b'D', 2) => Command::TerminalGone(TerminalGone::HangsUp),
        (b'F', 0) => Command::Factory,
        (b'V', 0) => Command::Show,
        _ => return None,
    })
}

/// Parses `Sn?` and `Sn=v` (V.250 §5.3.2).
fn register(text: &[u8]) -> Option<(Command, &[u8])> {
    let (which, rest) = number(text);
    let register = Register::numbered(which?)?;
    match rest.split_first()? {
        (b'?', rest) => Some((Command::ShowRegister(register), rest)),
        (b'=', rest) => {
            let (value, rest) = number(rest);
            Some((Command::SetRegister(register, value?), rest))
        }
        _ => None,
    }
}

/// Parses the decimal number at the front, if there is one. A number that does not fit becomes the
/// largest, which no command takes.
fn number(text: &[u8]) -> (Option<u32>, &[u8]) {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let value = text[..digits].iter().fold(0u32, |value, &digit| {
        value.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
    });
    ((digits > 0).then_some(value), &text[digits..])
}

fn seconds(s: u8) -> Duration {
    Duration::from_secs(u64::from(s))
}

/// Parses a command without its `+`; returns `None` if this modem does not have it.
fn extended(text: &str, settings: &Settings) -> Option<Command> {
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
