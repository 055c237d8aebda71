//! Validates what runs on CPUs: tasks, upcalls, reservations, and the programs to start.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use toml::Spanned;

use super::super::raw::{RawCommand, RawReservation, RawTask, RawUpcall};
use super::super::{MAX_CPUS, NamedReservation, Policy};
use super::fields;
use super::fields::{Checked, choice, count, optional, printable, problem, span_or, value};
use crate::channel::{Channel, Direction, Framing, Route};
use crate::command::{Backend, CommandError, Holding};
use crate::reservation::ReservationError;
use crate::task::TaskError;
use crate::units::Bytes;
use crate::upcall::UpcallError;
use crate::{
    Command, CommandSpec, Duration, Enforcement, Overrun, Reservation, Service, Task, TaskSpec,
    Upcall, UpcallSpec,
};

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

/// The channels with a delay bound, and the routes of all channels.
type Channels<'a> = (&'a [Channel], &'a [Route]);

/// Validates the commands. Each reservation and each channel belongs to at most one of them.
pub(super) fn commands(
    raw: Vec<Spanned<RawCommand>>,
    reservations: &[NamedReservation],
    channels: Channels<'_>,
    names: &mut BTreeSet<String>,
) -> Checked<Vec<Command>> {
    let mut holders: BTreeSet<usize> = BTreeSet::new();
    let mut senders: BTreeSet<usize> = BTreeSet::new();
    let mut commands = Vec::with_capacity(raw.len());
    for raw in raw {
        let raw = raw.into_inner();
        let (named, named_channel) = (raw.reservation.clone(), raw.channel.clone());
        let command = command(raw, reservations, channels, names)?;
        if let (Some(held), Some(named)) = (command.held(), named)
            && !holders.insert(held.reservation)
        {
            let name = printable(named.get_ref());
            return problem(
                named.span(),
                format!(
                    "the reservation \"{name}\" is held by another command already; give each its \
                     own, or start both from one script"
                ),
            );
        }
        if let (Some(channel), Some(named)) = (command.channel(), named_channel)
            && !senders.insert(channel)
        {
            let name = printable(named.get_ref());
            return problem(
                named.span(),
                format!("another command sends through \"{name}\" already; give each its own"),
            );
        }
        commands.push(command);
    }
    Ok(commands)
}

fn command(
    raw: RawCommand,
    reservations: &[NamedReservation],
    channels: Channels<'_>,
    names: &mut BTreeSet<String>,
) -> Checked<Command> {
    let name_span = raw.name.span();
    let name = fields::name(raw.name.clone(), names)?;
    let held = held(&raw, reservations)?;
    let spec = CommandSpec {
        name,
        run: raw.run.get_ref().clone(),
        directory: raw.directory.as_ref().map(|directory| directory.get_ref().clone()),
        environment: raw.environment.iter().flat_map(|all| all.get_ref().clone()).collect(),
        held,
        channel: raw.channel.as_ref().map(|named| channel(named, channels)).transpose()?,
    };
    Command::new(spec).or_else(|error| {
        let span = match error {
            CommandError::NoProgram | CommandError::ZeroByte { what: "an argument" } => {
                raw.run.span()
            }
            CommandError::ZeroByte { what: "the directory" } => span_or(&raw.directory, name_span),
            CommandError::ZeroByte { .. } | CommandError::BadVariable { .. } => {
                span_or(&raw.environment, name_span)
            }
        };
        problem(span, error.to_string())
    })
}

/// Returns the position of a channel that can carry a program's datagrams unchanged.
fn channel(named: &Spanned<String>, (promised, routes): Channels<'_>) -> Checked<usize> {
    let name = printable(named.get_ref());
    let Some(route) = routes.iter().find(|route| route.channel == *named.get_ref()) else {
        return problem(
            named.span(),
            format!("there is no channel \"{name}\"; declare it with [[channel]]"),
        );
    };
    let why = match promised.iter().position(|known| known.name() == *named.get_ref()) {
        _ if route.direction == Direction::Receive => {
            "receives; only what a program sends goes through a channel without its doing"
        }
        None => {
            "is promised nothing, as a program's datagrams are without it; give it a delay_bound"
        }
        Some(_) if route.address.is_none() => "leads nowhere; give it a destination",
        Some(_) if route.framing == Framing::Fragments => {
            "sends fragments, and a program's datagrams go as they are; give it framing = \"datagram\", \
             and messages that fit"
        }
        Some(position) => return Ok(position),
    };
    problem(named.span(), format!("the channel \"{name}\" {why}"))
}

fn held(raw: &RawCommand, reservations: &[NamedReservation]) -> Checked<Option<Holding>> {
    let Some(named) = &raw.reservation else {
        let keys = [("enforcement", &raw.enforcement), ("backend", &raw.backend)];
        let given = keys.into_iter().find_map(|(key, given)| Some((key, given.as_ref()?.span())));
        let given = given.or_else(|| Some(("cpu", raw.cpu.as_ref()?.span())));
        let given = given.or_else(|| Some(("adapt", raw.adapt.as_ref()?.span())));
        let given = given.or_else(|| Some(("memory", raw.memory.as_ref()?.span())));
        return match given {
            None => Ok(None),
            Some((key, span)) => problem(
                span,
                format!("{key} is about a reservation, and this command has none; name one"),
            ),
        };
    };
    let position = reservations.iter().position(|known| known.name == *named.get_ref());
    let Some(reservation) = position else {
        let name = printable(named.get_ref());
        return problem(
            named.span(),
            format!("there is no reservation \"{name}\"; declare it with [[reservation]]"),
        );
    };
    let enforcement = match &raw.enforcement {
        None => Enforcement::Soft,
        Some(given) => choice("enforcement", given, &Enforcement::NAMES)?,
    };
    let mut backend = match &raw.backend {
        None => None,
        Some(given) => Some(choice("backend", given, &Backend::NAMES)?),
    };
    let cpu = match &raw.cpu {
        None => None,
        Some(given) => match u16::try_from(*given.get_ref()) {
            Ok(cpu) if cpu < MAX_CPUS => Some(cpu),
            _ => {
                let text =
                    format!("cpu is {}; it must be from 0 to {}", given.get_ref(), MAX_CPUS - 1);
                return problem(given.span(), text);
            }
        },
    };
    if let (Some(Backend::Kernel), Some(given)) = (backend, &raw.backend) {
        if enforcement == Enforcement::Soft {
            return problem(
                span_or(&raw.enforcement, given.span()),
                "SCHED_DEADLINE gives nothing outside its budget, so backend = \"kernel\" holds nothing \
                 softly; add enforcement = \"hard\", or leave the backend out",
            );
        }
        if let Some(cpu) = &raw.cpu {
            return problem(
                cpu.span(),
                "SCHED_DEADLINE takes no program that is bound to one CPU; leave the cpu out, or the \
                 backend",
            );
        }
    }
    let adapt = match &raw.adapt {
        None => None,
        Some(given) => {
            let range = *given.get_ref();
            let of = reservations[reservation].reservation;
            if *backend.get_or_insert(Backend::Server) != Backend::Server {
                return problem(
                    given.span(),
                    "only a server follows its program's use; leave the backend out",
                );
            }
            if !(range.least()..=range.most()).contains(&of.budget())
                || range.most().at_full_speed() > of.period()
            {
                let text = format!(
                    "the range is {range}; it must contain the budget of the reservation and end \
                     within its period, {of}"
                );
                return problem(given.span(), text);
            }
            Some(range)
        }
    };
    let memory = match &raw.memory {
        None => None,
        Some(given) if *given.get_ref() == Bytes(0) => {
            return problem(given.span(), "memory is 0; it must be more, or left out");
        }
        Some(given) if backend == Some(Backend::Kernel) => {
            return problem(
                given.span(),
                "the kernel holds the first thread alone, and memory is promised to a whole program; \
                 leave the backend out",
            );
        }
        Some(given) => Some(*given.get_ref()),
    };
    Ok(Some(Holding { reservation, enforcement, backend, cpu, adapt, memory }))
}
