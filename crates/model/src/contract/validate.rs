//! From the raw contract to one that cannot be wrong.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use toml::Spanned;

use super::raw::{RawContract, RawReservation, RawSystem, RawTask, RawTime, RawUpcall};
use super::{Contract, ContractError, MAX_CPUS, MAX_ENTRIES, NamedReservation, Policy};
use crate::reservation::ReservationError;
use crate::task::TaskError;
use crate::upcall::UpcallError;
use crate::{Duration, Reservation, Service, Task, TaskSpec, Upcall, UpcallSpec, units};

/// The longest name, in characters.
const MAX_NAME: usize = 64;

/// A problem and the byte offset where it is; becomes a [`ContractError`] once, at the end.
struct Problem {
    offset: usize,
    text: String,
}

type Checked<T> = Result<T, Problem>;

fn problem<T>(span: Range<usize>, text: impl Into<String>) -> Checked<T> {
    Err(Problem { offset: span.start, text: text.into() })
}

pub(super) fn parse(file: &str, bytes: &[u8]) -> Result<Contract, ContractError> {
    let text = match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = &bytes[..error.valid_up_to()];
            // `valid` is UTF-8 by the definition of `valid_up_to`, so nothing is replaced here.
            let valid = String::from_utf8_lossy(valid);
            let problem = "this byte is not UTF-8; a contract is a TOML text file".to_owned();
            return Err(ContractError::at(file, &valid, valid.len(), problem));
        }
    };
    toml::from_str::<RawContract>(text)
        .map_err(|error| syntax_problem(&error))
        .and_then(validate)
        .map_err(|Problem { offset, text: problem }| ContractError::at(file, text, offset, problem))
}

/// What the TOML parser says, with a suggestion where a key is misspelt.
fn syntax_problem(error: &toml::de::Error) -> Problem {
    let mut text = error.message().trim().replace('\n', "; ");
    if text.starts_with("unknown field") {
        let mut quoted = text.split('`').skip(1).step_by(2);
        if let Some(unknown) = quoted.next() {
            let best = quoted
                .map(|known| (strsim::damerau_levenshtein(unknown, known), known))
                .min()
                .filter(|(distance, known)| *distance <= known.len().div_ceil(3));
            if let Some((_, known)) = best {
                text = format!("{text}; did you mean `{known}`?");
            }
        }
    }
    Problem { offset: error.span().map_or(0, |span| span.start), text }
}

fn validate(raw: RawContract) -> Checked<Contract> {
    let RawContract { system, task, upcall, reservation } = raw;
    let (policy, cpus) = validate_system(system)?;

    let mut places: Vec<usize> = task
        .iter()
        .map(|entry| entry.span().start)
        .chain(upcall.iter().map(|entry| entry.span().start))
        .chain(reservation.iter().map(|entry| entry.span().start))
        .collect();
    places.sort_unstable();
    if places.is_empty() {
        return problem(
            0..0,
            "the contract declares nothing; write at least one [[task]], [[upcall]] or \
             [[reservation]]",
        );
    }
    if let Some(&offset) = places.get(MAX_ENTRIES) {
        return problem(
            offset..offset,
            format!(
                "this is entry {} of {}; a contract may declare at most {MAX_ENTRIES}: split it",
                MAX_ENTRIES + 1,
                places.len()
            ),
        );
    }

    let mut names = BTreeSet::new();
    // Tasks and upcalls in file order, because `fp` gives file order a meaning.
    let mut in_order: Vec<(usize, Task)> = Vec::with_capacity(task.len() + upcall.len());
    for entry in task {
        let offset = entry.span().start;
        in_order.push((offset, validate_task(entry.into_inner(), &mut names)?));
    }
    let mut upcalls: Vec<Upcall> = Vec::with_capacity(upcall.len());
    for entry in upcall {
        let offset = entry.span().start;
        let upcall = validate_upcall(entry.into_inner(), &mut names)?;
        in_order.push((offset, Task::from(&upcall)));
        upcalls.push(upcall);
    }
    in_order.sort_by_key(|(offset, _)| *offset);
    let reservations = reservation
        .into_iter()
        .map(|entry| validate_reservation(entry.into_inner(), &mut names))
        .collect::<Checked<Vec<_>>>()?;

    let tasks = in_order.into_iter().map(|(_, task)| task).collect();
    Ok(Contract { upcalls, reservations, ..Contract::of_tasks(policy, cpus, tasks) })
}

fn validate_system(raw: RawSystem) -> Checked<(Policy, u16)> {
    let policy = match raw.policy {
        None => Policy::Rmdp,
        Some(named) => {
            match Policy::NAMES.iter().find(|(name, _)| *name == named.get_ref().as_str()) {
                Some(&(_, policy)) => policy,
                None => {
                    let name = printable(named.get_ref());
                    return problem(
                        named.span(),
                        format!("unknown policy \"{name}\"; choose rmdp, rm, fp or edf"),
                    );
                }
            }
        }
    };
    let cpus = match raw.cpus {
        None => 1,
        Some(count) => match u16::try_from(*count.get_ref()) {
            Ok(cpus @ 1..=MAX_CPUS) => cpus,
            _ => {
                let given = count.get_ref();
                return problem(
                    count.span(),
                    format!("cpus is {given}; it must be from 1 to {MAX_CPUS}"),
                );
            }
        },
    };
    Ok((policy, cpus))
}

fn validate_task(raw: RawTask, names: &mut BTreeSet<String>) -> Checked<Task> {
    let name_span = raw.name.span();
    let name = validate_name(raw.name, names)?;
    let (period_span, min_inter_arrival) = match (raw.period, raw.min_inter_arrival) {
        (Some(period), None) => (period.span(), duration("period", &period)?),
        (None, Some(arrival)) => (arrival.span(), duration("min_inter_arrival", &arrival)?),
        (None, None) => {
            return problem(
                name_span,
                format!(
                    "task \"{name}\" has no period; write period = \"40ms\" (or min_inter_arrival)"
                ),
            );
        }
        (Some(_), Some(arrival)) => {
            return problem(
                arrival.span(),
                format!(
                    "task \"{name}\" has both period and min_inter_arrival, which mean the same; \
                     keep one"
                ),
            );
        }
    };
    let relative_deadline =
        raw.relative_deadline.as_ref().map(|d| duration("relative_deadline", d)).transpose()?;
    let release_jitter =
        raw.release_jitter.as_ref().map(|j| duration("release_jitter", j)).transpose()?;
    let quantum = raw.quantum.as_ref().map(|q| service("quantum", q)).transpose()?;
    let spec = TaskSpec {
        min_inter_arrival,
        relative_deadline: relative_deadline.unwrap_or(min_inter_arrival),
        release_jitter: release_jitter.unwrap_or_default(),
        wcet: service("wcet", &raw.wcet)?,
        quantum: quantum.unwrap_or_default(),
        last_segment: Service::ZERO,
        name,
    };
    Task::new(spec).or_else(|error| {
        let span = match error {
            TaskError::ZeroPeriod => period_span,
            TaskError::ZeroWcet | TaskError::WcetAboveDeadline { .. } => raw.wcet.span(),
            TaskError::QuantumAboveWcet { .. } | TaskError::LastSegmentAboveQuantum { .. } => {
                span_or(&raw.quantum, name_span)
            }
            TaskError::JitterReachesDeadline { .. } => span_or(&raw.release_jitter, name_span),
        };
        problem(span, error.to_string())
    })
}

fn validate_upcall(raw: RawUpcall, names: &mut BTreeSet<String>) -> Checked<Upcall> {
    let name_span = raw.name.span();
    let name = validate_name(raw.name, names)?;
    let batch = count("batch", &raw.batch)?;
    let spec = UpcallSpec {
        period: duration("period", &raw.period)?,
        batch,
        quantum: raw.quantum.as_ref().map_or(Ok(batch), |quantum| count("quantum", quantum))?,
        time_per_pdu: service("time_per_pdu", &raw.time_per_pdu)?,
        name,
    };
    Upcall::new(spec).or_else(|error| {
        let span = match error {
            UpcallError::ZeroPeriod => raw.period.span(),
            UpcallError::ZeroBatch => raw.batch.span(),
            UpcallError::ZeroQuantum | UpcallError::QuantumAboveBatch { .. } => {
                span_or(&raw.quantum, name_span)
            }
            UpcallError::ZeroTimePerPdu => raw.time_per_pdu.span(),
            UpcallError::BatchAbovePeriod { .. } => raw.batch.span(),
        };
        problem(span, error.to_string())
    })
}

fn validate_reservation(
    raw: RawReservation,
    names: &mut BTreeSet<String>,
) -> Checked<NamedReservation> {
    let name = validate_name(raw.name, names)?;
    let budget = service("budget", &raw.budget)?;
    let period = duration("period", &raw.period)?;
    match Reservation::new(budget, period) {
        Ok(reservation) => Ok(NamedReservation { name, reservation }),
        Err(error) => {
            let at_period = matches!(error, ReservationError::ZeroPeriod);
            let span = if at_period { raw.period.span() } else { raw.budget.span() };
            problem(span, error.to_string())
        }
    }
}

fn validate_name(raw: Spanned<String>, names: &mut BTreeSet<String>) -> Checked<String> {
    let span = raw.span();
    let name = raw.into_inner();
    if name.is_empty() || name.chars().count() > MAX_NAME {
        return problem(span, format!("a name has from 1 to {MAX_NAME} characters"));
    }
    // Names are printed to terminals, so nothing in them may drive one.
    if name.chars().any(char::is_control) {
        return problem(span, "a name has no control characters");
    }
    if !names.insert(name.clone()) {
        return problem(span, format!("the name \"{name}\" is taken; each entry needs its own"));
    }
    Ok(name)
}

fn duration(key: &str, raw: &Spanned<RawTime>) -> Checked<Duration> {
    nanos(key, raw).map(Duration::from_nanos)
}

fn service(key: &str, raw: &Spanned<RawTime>) -> Checked<Service> {
    nanos(key, raw).map(Service::from_nanos)
}

fn nanos(key: &str, raw: &Spanned<RawTime>) -> Checked<u64> {
    match raw.get_ref() {
        RawTime::Text(text) => units::parse_nanos(text)
            .or_else(|why| problem(raw.span(), format!("{key} \"{}\" {why}", printable(text)))),
        RawTime::Bare(number) => problem(
            raw.span(),
            format!(
                "{key} {number} has no unit; write it in quotes with ns, us, ms or s: \
                 \"{number}ms\""
            ),
        ),
    }
}

fn count(key: &str, raw: &Spanned<i64>) -> Checked<u32> {
    u32::try_from(*raw.get_ref()).or_else(|_| {
        problem(
            raw.span(),
            format!("{key} is {}; it must be from 1 to {}", raw.get_ref(), u32::MAX),
        )
    })
}

fn span_or<T>(field: &Option<Spanned<T>>, otherwise: Range<usize>) -> Range<usize> {
    field.as_ref().map_or(otherwise, Spanned::span)
}

/// Text from the file as it may be printed: short, and nothing that drives a terminal.
fn printable(text: &str) -> String {
    let mut shown: String =
        text.chars().take(40).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    if text.chars().nth(40).is_some() {
        shown.push('…');
    }
    shown
}
