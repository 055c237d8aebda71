//! Validates tasks, upcalls and reservations.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use core::ops::Range;

use toml::Spanned;

use super::super::raw::{RawReservation, RawTask, RawUpcall};
use super::super::{NamedReservation, Policy};
use super::fields::{self, Checked, count, optional, problem, span_or, value};
use crate::reservation::ReservationError;
use crate::task::TaskError;
use crate::upcall::UpcallError;
use crate::{Duration, Overrun, Reservation, Service, Task, TaskSpec, Upcall, UpcallSpec};

pub(super) fn task(raw: RawTask, policy: Policy, names: &mut BTreeSet<String>) -> Checked<Task> {
    let name_span = raw.name.span();
    let name = fields::name(raw.name.clone(), names)?;
    let (period_span, min_inter_arrival) = spacing(&raw, &name, name_span.clone())?;
    let relative_deadline = value(&raw.relative_deadline);
    let release_jitter = value(&raw.release_jitter);
    let wcet = *raw.wcet.get_ref();
    let wcet_high = value(&raw.wcet_high);
    if let (Some(given), false) = (&raw.wcet_high, policy == Policy::EdfVd) {
        return problem(
            given.span(),
            format!(
                "wcet_high has a meaning under policy = \"edf-vd\" alone, and this is \"{}\"",
                policy.name()
            ),
        );
    }
    let (quantum, last_segment) = segments(&raw, &name, wcet)?;
    let spec = TaskSpec {
        min_inter_arrival,
        relative_deadline: relative_deadline.unwrap_or(min_inter_arrival),
        release_jitter: release_jitter.unwrap_or_default(),
        wcet,
        wcet_high,
        quantum,
        last_segment,
        name,
    };
    Task::new(spec).or_else(|error| {
        let span = match error {
            TaskError::ZeroPeriod => period_span,
            TaskError::ZeroWcet | TaskError::WcetAboveDeadline { .. } => raw.wcet.span(),
            TaskError::WcetHighOutOfRange { .. } => span_or(&raw.wcet_high, name_span),
            TaskError::QuantumAboveWcet { .. } => span_or(&raw.quantum, name_span),
            TaskError::LastSegmentAboveQuantum { .. } => span_or(&raw.last_segment, name_span),
            TaskError::JitterReachesDeadline { .. } => span_or(&raw.release_jitter, name_span),
        };
        problem(span, error.to_string())
    })
}

fn spacing(raw: &RawTask, name: &str, at: Range<usize>) -> Checked<(Range<usize>, Duration)> {
    match (&raw.period, &raw.min_inter_arrival) {
        (Some(period), None) => Ok((period.span(), *period.get_ref())),
        (None, Some(arrival)) => Ok((arrival.span(), *arrival.get_ref())),
        (None, None) => problem(
            at,
            format!(
                "task \"{name}\" has no period; write period = \"40ms\" (or min_inter_arrival)"
            ),
        ),
        (Some(_), Some(arrival)) => problem(
            arrival.span(),
            format!(
                "task \"{name}\" has both period and min_inter_arrival, which mean the same; keep \
                 one"
            ),
        ),
    }
}

/// Returns the quantum and the last segment.
fn segments(raw: &RawTask, name: &str, wcet: Service) -> Checked<(Service, Service)> {
    if raw.preemptible == Some(false) {
        let keys = [("quantum", &raw.quantum), ("last_segment", &raw.last_segment)];
        return match keys.into_iter().find_map(|(key, given)| Some((key, given.as_ref()?))) {
            None => Ok((wcet, wcet)),
            Some((key, given)) => problem(
                given.span(),
                format!(
                    "task \"{name}\" is not preemptible, so the whole job is one segment; remove \
                     {key} or preemptible = false"
                ),
            ),
        };
    }
    let last = value(&raw.last_segment);
    let quantum = match (value(&raw.quantum), last, &raw.last_segment) {
        (None, Some(last), Some(given)) if last > wcet => {
            return problem(
                given.span(),
                format!(
                    "the last segment {last} is longer than the whole job, whose wcet is {wcet}"
                ),
            );
        }
        (quantum, last, _) => quantum.or(last).unwrap_or_default(),
    };
    Ok((quantum, last.unwrap_or_default()))
}

pub(super) fn upcall(raw: RawUpcall, names: &mut BTreeSet<String>) -> Checked<Upcall> {
    let name_span = raw.name.span();
    let name = fields::name(raw.name, names)?;
    let batch = count("batch", &raw.batch)?;
    let overrun = raw.overrun.as_ref().map_or(Ok(Overrun::default()), overrun)?;
    let spec = UpcallSpec {
        period: *raw.period.get_ref(),
        batch,
        quantum: optional("quantum", &raw.quantum, count)?.unwrap_or(batch),
        time_per_pdu: *raw.time_per_pdu.get_ref(),
        name,
    };
    Upcall::new(spec).map(|upcall| upcall.with_overrun(overrun)).or_else(|error| {
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

fn overrun(given: &Spanned<String>) -> Checked<Overrun> {
    if let Some(overrun) = Overrun::from_name(given.get_ref()) {
        return Ok(overrun);
    }
    let names = Overrun::NAMES.map(|(name, _)| format!("\"{name}\"")).join(", ");
    problem(
        given.span(),
        format!("there is no overrun policy \"{}\"; the policies are {names}", given.get_ref()),
    )
}

pub(super) fn reservation(
    raw: RawReservation,
    names: &mut BTreeSet<String>,
) -> Checked<NamedReservation> {
    let name = fields::name(raw.name, names)?;
    let budget = *raw.budget.get_ref();
    let period = *raw.period.get_ref();
    match Reservation::new(budget, period) {
        Ok(reservation) => Ok(NamedReservation { name, reservation }),
        Err(error) => {
            let at_period = matches!(error, ReservationError::ZeroPeriod);
            let span = if at_period { raw.period.span() } else { raw.budget.span() };
            problem(span, error.to_string())
        }
    }
}
