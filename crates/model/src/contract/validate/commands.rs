//! Validates commands.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use toml::Spanned;

use super::super::raw::RawCommand;
use super::super::{MAX_CPUS, NamedReservation};
use super::fields::{self, Checked, choice, printable, problem, span_or};
use crate::channel::{Channel, Direction, Framing, Route};
use crate::command::{Backend, CommandError, Holding};
use crate::{Command, CommandSpec, Enforcement};

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
    let backend = match &raw.backend {
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
    Ok(Some(Holding { reservation, enforcement, backend, cpu }))
}
