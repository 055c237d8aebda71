//! Commands that begin with `+` (V.250 §5.4): identification (§6.1), `+MS` (§6.4), `+ES` (§6.5),
//! `+DS` (§6.6), `+DR`, `+ER`, `+MR`.
//!
//! `+MS` sets the modulation. Its second number says whether V.8 may choose a slower one; the
//! default is 1 if V.8 has a name for the modulation. Values that the modem does not support are
//! refused.

use super::command::{CAPABILITIES, Command, MODEL, Parameter, REVISION};
use super::compression::CompressionSelection;
use super::modulation::Modulation;
use super::settings::{ErrorSelection, Settings};

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
