//! Turns the raw host profile into a valid one.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use toml::Spanned;

use super::raw::{
    RawAbsent, RawCalibration, RawFigure, RawHost, RawRefill, RawRun, RawSwitching, Text,
};
use super::{FORMAT, MAX_ENTRIES, packets};
use crate::host::{
    Absent, CacheRefill, Calibration, Figure, HostIdentity, Operation, Run, Spread, SwitchCharge,
};
use crate::text_file::{self, Checked, choice};
use crate::units::Bytes;
use crate::{Duration, FileError};

/// The longest text that is not a quantity, in characters.
const MAX_TEXT: usize = 512;

pub(super) fn problem<T, R>(at: &Spanned<R>, text: impl Into<String>) -> Checked<T> {
    text_file::problem(at.span(), text)
}

pub(super) fn parse(file: &str, bytes: &[u8]) -> Result<Calibration, FileError> {
    text_file::parse(file, "host profile", bytes, calibration)
}

fn calibration(raw: RawCalibration) -> Checked<Calibration> {
    if *raw.format.get_ref() != FORMAT {
        let given = raw.format.get_ref();
        return problem(
            &raw.format,
            format!(
                "this profile has format {given}, and this program reads format {FORMAT}; measure \
                 again: punctual calibrate"
            ),
        );
    }
    check_count(&raw.figure)?;
    check_count(&raw.cache_refill)?;
    check_count(&raw.message)?;
    check_count(&raw.arrival)?;
    check_count(&raw.absent)?;
    let mut seen = BTreeSet::new();
    let figures = raw.figure.into_iter().map(|entry| figure(entry, &mut seen));
    let figures = figures.collect::<Checked<Vec<_>>>()?;
    let mut last = 0;
    let (mut sent, mut came) = (None, None);
    let messages = raw.message.into_iter().map(|entry| packets::message(entry, &mut sent));
    let arrivals = raw.arrival.into_iter().map(|entry| packets::arrival(entry, &mut came));
    let refills = raw.cache_refill.into_iter().map(|entry| refill(entry, &mut last));
    Ok(Calibration {
        host: host(raw.host)?,
        run: run(raw.run)?,
        switching: raw.switching.map(switching).transpose()?,
        sending: raw.sending.map(packets::sending).transpose()?,
        receiving: raw.receiving.map(packets::receiving).transpose()?,
        figures,
        cache_refill: refills.collect::<Checked<Vec<_>>>()?,
        messages: messages.collect::<Checked<Vec<_>>>()?,
        arrivals: arrivals.collect::<Checked<Vec<_>>>()?,
        absent: raw.absent.into_iter().map(absent).collect::<Checked<Vec<_>>>()?,
    })
}

fn check_count<T>(entries: &[Spanned<T>]) -> Checked<()> {
    match entries.get(MAX_ENTRIES) {
        Some(beyond) => problem(
            beyond,
            format!("there are {} entries of this kind; at most {MAX_ENTRIES}", entries.len()),
        ),
        None => Ok(()),
    }
}

fn host(raw: RawHost) -> Checked<HostIdentity> {
    Ok(HostIdentity {
        cpu_model: text("cpu_model", raw.cpu_model)?,
        kernel_release: text("kernel_release", raw.kernel_release)?,
        cpus: match u16::try_from(*raw.cpus.get_ref()) {
            Ok(cpus @ 1..) => cpus,
            _ => {
                let given = raw.cpus.get_ref();
                return problem(
                    &raw.cpus,
                    format!("cpus is {given}; it must be from 1 to {}", u16::MAX),
                );
            }
        },
    })
}

fn run(raw: RawRun) -> Checked<Run> {
    let at = &raw.at_unix_s;
    let at_unix_s = match u64::try_from(*at.get_ref()) {
        Ok(seconds) if seconds <= Run::LATEST => seconds,
        _ => {
            return problem(
                at,
                format!(
                    "at_unix_s is {}; it is seconds since 1970, from 0 to {}",
                    at.get_ref(),
                    Run::LATEST
                ),
            );
        }
    };
    Ok(Run {
        at_unix_s,
        duration: raw.duration,
        version: text("version", raw.version)?,
        quick: raw.quick,
        stolen: raw.stolen,
    })
}

fn switching(raw: RawSwitching) -> Checked<SwitchCharge> {
    Ok(SwitchCharge {
        switch: raw.switch,
        by: choice("operation", &raw.by, &Operation::NAMES)?,
        cache_refill: raw.cache_refill,
        working_set: working_set(&raw.working_set)?,
        percentile: raw.percentile,
    })
}

fn figure(raw: Spanned<RawFigure>, seen: &mut BTreeSet<Operation>) -> Checked<Figure> {
    let raw = raw.into_inner();
    let operation = choice("operation", &raw.operation, &Operation::NAMES)?;
    if !seen.insert(operation) {
        return problem(&raw.operation, format!("{operation} is there twice; keep one"));
    }
    Ok(Figure { operation, sampled: raw.sampled()? })
}

/// Validates one refill. `last` is the working set of the previous entry.
fn refill(raw: Spanned<RawRefill>, last: &mut u64) -> Checked<CacheRefill> {
    let raw = raw.into_inner();
    let bytes = working_set(&raw.working_set)?;
    if bytes <= *last {
        return problem(
            &raw.working_set,
            "the working sets are not in ascending order; sort the entries",
        );
    }
    *last = bytes;
    Ok(CacheRefill { working_set: bytes, sampled: raw.sampled()? })
}

fn absent(raw: Spanned<RawAbsent>) -> Checked<Absent> {
    let raw = raw.into_inner();
    Ok(Absent { what: text("what", raw.what)?, why: text("why", raw.why)? })
}

pub(super) fn spread(samples: &Spanned<i64>, times: [Duration; 4]) -> Checked<Spread> {
    Spread::new(counted("samples", samples)?, times)
        .or_else(|error| problem(samples, error.to_string()))
}

fn working_set(raw: &Spanned<Bytes>) -> Checked<u64> {
    match raw.get_ref().0 {
        0 => problem(raw, "working_set is zero; it must be at least 1B"),
        bytes => Ok(bytes),
    }
}

/// Checks a text. Texts are printed to terminals, so they must not contain control characters.
pub(super) fn text(key: &str, raw: Text) -> Checked<String> {
    let length = raw.get_ref().chars().count();
    if length == 0 || length > MAX_TEXT {
        return problem(&raw, format!("{key} has from 1 to {MAX_TEXT} characters"));
    }
    if raw.get_ref().chars().any(char::is_control) {
        return problem(&raw, format!("{key} has no control characters"));
    }
    Ok(raw.into_inner())
}

pub(super) fn counted(key: &str, raw: &Spanned<i64>) -> Checked<u32> {
    u32::try_from(*raw.get_ref()).or_else(|_| {
        problem(raw, format!("{key} is {}; it must be from 0 to {}", raw.get_ref(), u32::MAX))
    })
}
