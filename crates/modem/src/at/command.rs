//! One command of a line, parsed but not yet executed (V.250 §5.3, §5.4).

use punctual_model::Duration;

use super::dial::DialString;
use super::extended;
use super::extended::CompressionSelection;
use super::extended::Modulation;
use super::registers::Register;
use super::settings::{ErrorSelection, Settings, TerminalGone};

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

pub(super) const MODEL: &str = "Punctual soft modem";
pub(super) const REVISION: &str = env!("CARGO_PKG_VERSION");
pub(super) const CAPABILITIES: &str = "+GCAP: +MS,+ES,+DS";

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
            let command = extended::parse(std::str::from_utf8(&rest[..end]).ok()?, settings)?;
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
