//! Validates channels in their two forms, and their routes.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::Range;

use toml::Spanned;

use super::super::raw::RawChannel;
use super::super::{BestEffortChannel, ReceivingChannel};
use super::fields;
use super::fields::{Checked, bytes, choice, count, optional, printable, problem, span_or, value};
use crate::Duration;
use crate::channel::{
    AtmContract, BitRate, Channel, ChannelError, Direction, Framing, HostPort, LinearBounded,
    Policing, Route, Sensitivity, ServiceClass, TooEarly, Traffic, TrafficError, TrafficSpec,
};

/// The largest payload of a UDP datagram over IPv4 (udp(7)).
const LONGEST_DATAGRAM: u32 = 65_507;

/// The size of the header of each fragment (`channel::fragment`).
const FRAGMENT_HEADER: u32 = 32;

/// All channels by promise and direction.
pub(super) struct Channels {
    pub(super) promised: Vec<Channel>,
    pub(super) best_effort: Vec<BestEffortChannel>,
    pub(super) receiving: Vec<ReceivingChannel>,
    pub(super) routes: Vec<Route>,
}

/// Validates the channels. `packet` is the sender's packet size, if there is a sender.
pub(super) fn channels(
    raw: Vec<Spanned<RawChannel>>,
    packet: Option<u32>,
    names: &mut BTreeSet<String>,
) -> Checked<Channels> {
    let (mut promised, mut best_effort) = (Vec::new(), Vec::new());
    let (mut receiving, mut routes) = (Vec::new(), Vec::new());
    for entry in raw {
        let raw = entry.into_inner();
        let name = fields::name(raw.name.clone(), names)?;
        let policing = policing(&raw, &name)?;
        let (traffic, max_message) = match &raw.class {
            None => {
                let bounded = bounded(&raw, &name, policing)?;
                (Traffic::Bounded(bounded), bounded.max_message())
            }
            Some(class) => {
                let class = choice("class", class, &ServiceClass::NAMES)?;
                let atm = atm(&raw, &name, class, policing)?;
                (Traffic::Atm(atm), atm.spec().max_sdu)
            }
        };
        let route = route(&raw, &name, max_message, packet)?;
        let receives = route.direction == Direction::Receive;
        routes.push(route);
        match traffic {
            Traffic::Atm(atm) if atm.spec().class == ServiceClass::Ubr => {
                let bound = raw.delay_bound.as_ref().map(Spanned::span);
                forbid([("delay_bound", bound)], |key| {
                    format!(
                        "channel \"{name}\" is of class ubr, which is promised nothing; \
                         remove {key} or choose cbr or rt-vbr"
                    )
                })?;
                if receives {
                    receiving.push(ReceivingChannel { name, traffic, delay_bound: None });
                } else {
                    best_effort.push(BestEffortChannel { name, traffic: atm });
                }
            }
            _ => {
                let channel = channel(&raw, name, &traffic)?;
                if receives {
                    let (name, bound) = (channel.name().into(), channel.delay_bound());
                    receiving.push(ReceivingChannel { name, traffic, delay_bound: Some(bound) });
                } else {
                    promised.push(channel);
                }
            }
        }
    }
    Ok(Channels { promised, best_effort, receiving, routes })
}

fn channel(raw: &RawChannel, name: String, traffic: &Traffic) -> Checked<Channel> {
    let given = needed(raw, &name, "delay_bound", "\"100ms\"", &raw.delay_bound)?;
    let bound = *given.get_ref();
    Channel::new(name, traffic, bound).or_else(|error| {
        let span = match error {
            ChannelError::ZeroDelayBound => given.span(),
            // The only error left after the traffic was checked is a burst beyond 32 bits.
            ChannelError::Traffic(_) => span_or(&raw.delay_variation_tolerance, raw.name.span()),
        };
        problem(span, error.to_string())
    })
}

/// Reads form 1: linear bounded arrivals.
fn bounded(raw: &RawChannel, name: &str, policing: Policing) -> Checked<LinearBounded> {
    let of_the_other_form = [
        ("peak_rate", raw.peak_rate.as_ref().map(Spanned::span)),
        ("sustained_rate", raw.sustained_rate.as_ref().map(Spanned::span)),
        ("max_sdu", raw.max_sdu.as_ref().map(Spanned::span)),
        ("delay_variation_tolerance", raw.delay_variation_tolerance.as_ref().map(Spanned::span)),
    ];
    forbid(of_the_other_form, |key| {
        format!(
            "channel \"{name}\" has {key} but no class; write class = \"cbr\" (or rt-vbr, ubr), or \
             declare messages by max_message and max_rate"
        )
    })?;
    let largest = needed(raw, name, "max_message", "\"32KiB\"", &raw.max_message)?;
    let max_message = largest.get_ref().0;
    let (span, spacing) = match (&raw.max_rate, &raw.min_inter_arrival) {
        (Some(rate), None) => (rate.span(), rate.get_ref().0),
        (None, Some(spacing)) => (spacing.span(), *spacing.get_ref()),
        (None, None) => {
            return problem(
                raw.name.span(),
                format!(
                    "channel \"{name}\" has no rate; write max_rate = \"10/s\" (or \
                     min_inter_arrival)"
                ),
            );
        }
        (Some(_), Some(spacing)) => {
            return problem(
                spacing.span(),
                format!(
                    "channel \"{name}\" has both max_rate and min_inter_arrival, which say the \
                     same; keep one"
                ),
            );
        }
    };
    // The default allows messages of one byte: many short packets cost more than a long one.
    let min_message = bytes(&raw.min_message).unwrap_or(1);
    let burst = match burst_of_credits(policing, name, ("max_burst", &raw.max_burst))? {
        Some(burst) => burst,
        None => optional("max_burst", &raw.max_burst, count)?.unwrap_or(1),
    };
    // An empty largest message is reported as such, not as being below the smallest.
    LinearBounded::new(min_message, max_message, spacing, burst).or_else(|error| {
        let span = match error {
            TrafficError::MinMessage { .. } => span_or(&raw.min_message, largest.span()),
            TrafficError::ZeroBurst => span_or(&raw.max_burst, largest.span()),
            TrafficError::Spacing(_) => span,
            _ => largest.span(),
        };
        problem(span, error.to_string())
    })
}

/// Reads form 2: an ATM traffic contract.
fn atm(
    raw: &RawChannel,
    name: &str,
    class: ServiceClass,
    policing: Policing,
) -> Checked<AtmContract> {
    let of_the_other_form = [
        ("max_message", raw.max_message.as_ref().map(Spanned::span)),
        ("min_message", raw.min_message.as_ref().map(Spanned::span)),
        ("max_rate", raw.max_rate.as_ref().map(Spanned::span)),
        ("min_inter_arrival", raw.min_inter_arrival.as_ref().map(Spanned::span)),
        ("max_burst", raw.max_burst.as_ref().map(Spanned::span)),
    ];
    forbid(of_the_other_form, |key| {
        format!(
            "channel \"{name}\" has {key} and a class; with a class, traffic is declared by \
             peak_rate, sustained_rate and max_sdu"
        )
    })?;
    let (peak_rate, sustained_rate) = rates(raw, name, class)?;
    let largest = needed(raw, name, "max_sdu", "\"8KiB\"", &raw.max_sdu)?;
    let max_sdu = largest.get_ref().0;
    let given = &raw.delay_variation_tolerance;
    let credits = burst_of_credits(policing, name, ("delay_variation_tolerance", given))?;
    let tolerance = match credits {
        // As linear bounded arrivals, this tolerance has exactly that burst.
        Some(burst) => {
            let spacing = sustained_rate.time_of_below(max_sdu);
            Some(spacing.checked_mul(u64::from(burst) - 1).unwrap_or(Duration::MAX))
        }
        None => value(given),
    };
    let spec = TrafficSpec {
        class,
        peak_rate,
        sustained_rate,
        max_sdu,
        delay_variation_tolerance: tolerance.unwrap_or(Duration::ZERO),
    };
    AtmContract::new(spec).or_else(|error| {
        let span = match error {
            TrafficError::SustainedAbovePeak { .. } | TrafficError::CbrWithPeak { .. } => {
                span_or(&raw.sustained_rate, largest.span())
            }
            _ => largest.span(),
        };
        problem(span, error.to_string())
    })
}

/// Reads the peak and the sustained rate. One of them is enough if the rate is constant or nothing
/// is promised.
fn rates(raw: &RawChannel, name: &str, class: ServiceClass) -> Checked<(BitRate, BitRate)> {
    let peak = value(&raw.peak_rate);
    let sustained = value(&raw.sustained_rate);
    let missing = match (peak, sustained, class) {
        (Some(peak), Some(sustained), _) => return Ok((peak, sustained)),
        (Some(rate), None, ServiceClass::Cbr | ServiceClass::Ubr)
        | (None, Some(rate), ServiceClass::Cbr | ServiceClass::Ubr) => return Ok((rate, rate)),
        (Some(_), None, ServiceClass::RtVbr) => "sustained_rate",
        _ => "peak_rate",
    };
    problem(
        raw.name.span(),
        format!("channel \"{name}\" has no {missing}; write {missing} = \"10mbit/s\""),
    )
}

/// Returns the burst that credits let pass. With credits, `key` must be absent.
fn burst_of_credits<T>(
    policing: Policing,
    name: &str,
    (key, given): (&str, &Option<Spanned<T>>),
) -> Checked<Option<u32>> {
    let Policing::Credits(sensitivity) = policing else { return Ok(None) };
    let burst = sensitivity.largest_burst();
    match given {
        None => Ok(Some(burst)),
        Some(given) => problem(
            given.span(),
            format!(
                "channel \"{name}\" is policed by credits for {} messages, of which {burst} may pass \
                 at once; remove {key}, or choose another sensitivity",
                sensitivity.pdus()
            ),
        ),
    }
}

/// Returns the field, or an error that says what to write.
fn needed<'a, T>(
    raw: &RawChannel,
    name: &str,
    key: &str,
    example: &str,
    field: &'a Option<Spanned<T>>,
) -> Checked<&'a Spanned<T>> {
    field.as_ref().map_or_else(
        || {
            problem(
                raw.name.span(),
                format!("channel \"{name}\" has no {key}; write {key} = {example}"),
            )
        },
        Ok,
    )
}

/// Reports the first of `keys`, in file order, that is present.
fn forbid<const N: usize>(
    keys: [(&str, Option<Range<usize>>); N],
    why: impl Fn(&str) -> String,
) -> Checked<()> {
    let given = keys.into_iter().filter_map(|(key, span)| Some((key, span?)));
    match given.min_by_key(|(_, span)| span.start) {
        None => Ok(()),
        Some((key, span)) => problem(span, why(key)),
    }
}

/// Returns true if the channel needs a link. An unknown direction is reported later.
pub(super) fn sends(raw: &RawChannel) -> bool {
    raw.direction.as_ref().is_none_or(|direction| direction.get_ref() == "send")
}

/// Returns the route of channel `name`. `packet` is the sender's packet size, if there is a sender.
fn route(raw: &RawChannel, name: &str, max_message: u32, packet: Option<u32>) -> Checked<Route> {
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
fn policing(raw: &RawChannel, name: &str) -> Checked<Policing> {
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
