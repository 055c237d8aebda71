//! Validates the routes of channels.

use alloc::format;
use alloc::string::String;

use toml::Spanned;

use super::super::raw::RawChannel;
use super::channels::forbid;
use super::fields::{Checked, choice, printable, problem, span_or};
use crate::channel::{Direction, Framing, HostPort, Policing, Route, Sensitivity, TooEarly};

/// The largest payload of a UDP datagram over IPv4 (udp(7)).
const LONGEST_DATAGRAM: u32 = 65_507;

/// The size of the header of each fragment (`channel::fragment`).
const FRAGMENT_HEADER: u32 = 32;

/// Returns true if the channel needs a link. An unknown direction is reported later.
pub(super) fn sends(raw: &RawChannel) -> bool {
    raw.direction.as_ref().is_none_or(|direction| direction.get_ref() == "send")
}

/// Returns the route of channel `name`. `packet` is the sender's packet size, if there is a sender.
pub(super) fn route(
    raw: &RawChannel,
    name: &str,
    max_message: u32,
    packet: Option<u32>,
) -> Checked<Route> {
    let named = raw.direction.as_ref();
    let direction = named.map(|named| choice("direction", named, &Direction::NAMES)).transpose()?;
    let direction = direction.unwrap_or_default();
    let span = |field: &Option<Spanned<String>>| field.as_ref().map(Spanned::span);
    let (key, field) = match direction {
        Direction::Send => {
            forbid([("listen", span(&raw.listen))], |key| {
                format!(
                    "channel \"{name}\" sends, so it has no {key}; write destination, or \
                     direction = \"receive\""
                )
            })?;
            ("destination", &raw.destination)
        }
        Direction::Receive => {
            let of_senders = [
                ("destination", span(&raw.destination)),
                ("too_early", span(&raw.too_early)),
                ("policing", span(&raw.policing)),
                ("sensitivity", span(&raw.sensitivity)),
            ];
            forbid(of_senders, |key| {
                format!(
                    "channel \"{name}\" receives, so it has no {key}; remove it, and write listen \
                     for where it receives"
                )
            })?;
            ("listen", &raw.listen)
        }
    };
    let address = field.as_ref().map(|given| host_port(key, given)).transpose()?;
    let framing = framing(raw, name, direction, max_message, packet)?;
    check_datagrams(raw, name, address.is_some(), framing, max_message, packet)?;
    let too_early = raw.too_early.as_ref();
    let too_early =
        too_early.map(|named| choice("too_early", named, &TooEarly::NAMES)).transpose()?;
    let too_early = too_early.unwrap_or_default();
    let policing = policing(raw, name)?;
    Ok(Route { channel: String::from(name), direction, address, framing, too_early, policing })
}

/// Returns the rule that decides which messages are early.
pub(super) fn policing(raw: &RawChannel, name: &str) -> Checked<Policing> {
    let named = raw.policing.as_ref();
    let policing = named.map(|named| choice("policing", named, &Policing::NAMES)).transpose()?;
    match (policing.unwrap_or_default(), &raw.sensitivity) {
        (Policing::Credits(_), Some(given)) => {
            choice("sensitivity", given, &Sensitivity::NAMES).map(Policing::Credits)
        }
        (Policing::Gcra, Some(given)) => problem(
            given.span(),
            format!(
                "channel \"{name}\" has a sensitivity, which is the length of a control interval, and \
                 no credits; write policing = \"credits\", or remove it"
            ),
        ),
        (policing, None) => Ok(policing),
    }
}

fn host_port(key: &str, given: &Spanned<String>) -> Checked<HostPort> {
    let text = given.get_ref();
    text.parse()
        .or_else(|why| problem(given.span(), format!("{key} \"{}\" {why}", printable(text))))
}

fn framing(
    raw: &RawChannel,
    name: &str,
    direction: Direction,
    max_message: u32,
    packet: Option<u32>,
) -> Checked<Framing> {
    let Some(named) = &raw.framing else {
        return packet.map_or_else(
            || {
                problem(
                    raw.name.span(),
                    format!(
                        "channel \"{name}\" does not say how its messages come, and there is no \
                         [sending] whose packet would tell; write framing = \"datagram\" or \
                         \"fragments\""
                    ),
                )
            },
            |packet| Ok(Framing::of(max_message, packet)),
        );
    };
    let framing = choice("framing", named, &Framing::NAMES)?;
    match (framing, direction, packet) {
        (Framing::Datagram, Direction::Send, Some(packet)) if max_message > packet => problem(
            named.span(),
            format!(
                "channel \"{name}\" may send messages of {max_message}B, which are more than a \
                 packet of {packet}B; choose fragments, or shorter messages, or a larger packet"
            ),
        ),
        _ => Ok(framing),
    }
}

/// Checks that the datagrams of a channel with an address, which can run, are not too large.
fn check_datagrams(
    raw: &RawChannel,
    name: &str,
    runs: bool,
    framing: Framing,
    max_message: u32,
    packet: Option<u32>,
) -> Checked<()> {
    let bytes = match framing {
        Framing::Datagram => max_message,
        Framing::Fragments => packet.map_or(0, |packet| packet.saturating_add(FRAGMENT_HEADER)),
    };
    if runs && bytes > LONGEST_DATAGRAM {
        return problem(
            span_or(&raw.framing, raw.name.span()),
            format!(
                "channel \"{name}\" would need datagrams of {bytes}B; a datagram has at most \
                 {LONGEST_DATAGRAM}B: choose fragments, or a smaller packet in [sending]"
            ),
        );
    }
    Ok(())
}
