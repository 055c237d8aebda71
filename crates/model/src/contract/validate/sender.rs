//! Validates the sending host.

use alloc::format;
use alloc::string::ToString;
use core::ops::Range;

use toml::Spanned;

use super::super::BestEffortChannel;
use super::super::raw::{RawCosts, RawQuantity, RawSending};
use super::fields::{
    Checked, bit_rate, bytes, count, duration, message_bytes, optional, picos_per_byte, printable,
    problem, service, span_or,
};
use crate::ReservationError;
use crate::channel::{BestEffort, CostError, Link, Packetisation, SendCosts, SenderSpec};

pub(super) fn sender(raw: Spanned<RawSending>) -> Checked<SenderSpec> {
    let at = raw.span();
    let raw = raw.into_inner();
    let link = link(&raw, at)?;
    let packet = message_bytes("packet", &raw.packet)?;
    let per_block = optional("packets_per_block", &raw.packets_per_block, count)?.unwrap_or(1);
    let packetisation = Packetisation::new(packet, per_block).or_else(|error| {
        let at_block = matches!(error, CostError::ZeroBlock);
        let packet = raw.packet.span();
        let span = if at_block { span_or(&raw.packets_per_block, packet) } else { packet };
        problem(span, error.to_string())
    })?;
    let cpu = match &raw.cpu {
        None => None,
        Some(given) => given.get_ref().parse().map(Some).or_else(|error: ReservationError| {
            let text = printable(given.get_ref());
            problem(given.span(), format!("cpu = \"{text}\" {error}"))
        })?,
    };
    let allowance = optional("allowance", &raw.allowance, duration)?;
    let allowance = allowance.unwrap_or(SenderSpec::USUAL_ALLOWANCE);
    let best_effort = match &raw.best_effort {
        None => BestEffort::None,
        Some(given) => match message_bytes("best_effort", given)? {
            0 => {
                return problem(
                    given.span(),
                    "best_effort is empty; give its largest message, or leave it out if there is \
                     none",
                );
            }
            bytes => BestEffort::up_to(bytes),
        },
    };
    let memory = match &raw.memory {
        None => None,
        Some(given) => match bytes("memory", given)? {
            0 => {
                return problem(given.span(), "memory is zero; leave it out if it is not limited");
            }
            bytes => Some(bytes),
        },
    };
    let costs = raw.costs.as_ref().map(costs).transpose()?;
    Ok(SenderSpec { link, costs, packetisation, cpu, allowance, best_effort, memory })
}

fn link(raw: &RawSending, at: Range<usize>) -> Checked<Link> {
    let startup = optional("startup", &raw.startup, duration)?.unwrap_or_default();
    let (span, picos) = match (&raw.bandwidth, &raw.time_per_byte) {
        (Some(bandwidth), None) => {
            let bits = bit_rate("bandwidth", bandwidth)?.bits_per_second();
            // Rounded up, so that the link is never assumed faster than it is.
            (bandwidth.span(), 8_000_000_000_000u64.div_ceil(bits))
        }
        (None, Some(time)) => (time.span(), picos_per_byte("time_per_byte", time)?),
        (None, None) => {
            return problem(
                at,
                "[sending] does not say how fast the link is; write bandwidth = \"160mbit/s\" (or \
                 time_per_byte)",
            );
        }
        (Some(_), Some(time)) => {
            return problem(
                time.span(),
                "[sending] has both bandwidth and time_per_byte, which say the same; keep one",
            );
        }
    };
    if picos == 0 && startup.is_zero() {
        return problem(span, "a packet would take no time on the link; give startup as well");
    }
    Link::with_picos(startup, picos).or_else(|error| problem(span, error.to_string()))
}

fn costs(raw: &RawCosts) -> Checked<SendCosts> {
    Ok(SendCosts {
        switch: service("switch", &raw.switch)?,
        cache: service("cache", &raw.cache)?,
        first_packet: service("first_packet", &raw.first_packet)?,
        packet: service("packet", &raw.packet)?,
        link_scheduling: service("link_scheduling", &raw.link_scheduling)?,
    })
}

/// Returns `sender` with best-effort messages as large as those of any channel of class `ubr`, and
/// at least `least` bytes long.
pub(super) fn with_best_effort(
    sender: SenderSpec,
    least: Option<&Spanned<RawQuantity>>,
    declared: &[BestEffortChannel],
) -> Checked<SenderSpec> {
    let sizes = || {
        let of_channels = declared.iter().map(|channel| channel.traffic.spec().max_sdu);
        sender.best_effort.most().into_iter().chain(of_channels)
    };
    let Some(most) = sizes().max() else {
        return match least {
            None => Ok(sender),
            Some(given) => problem(
                given.span(),
                "best_effort_min is the smallest message of best effort, and there is none; give \
                 best_effort, or a channel of class ubr",
            ),
        };
    };
    let least = match least {
        None => 1,
        Some(given) => {
            let least = message_bytes("best_effort_min", given)?;
            // `least` must not exceed the largest message of any sender of best effort.
            let largest = sizes().min().unwrap_or(most);
            if !(1..=largest).contains(&least) {
                return problem(
                    given.span(),
                    format!(
                        "best_effort_min is {least} bytes; it must be from 1 to {largest}, the largest \
                         message of best_effort or of a channel of class ubr"
                    ),
                );
            }
            least
        }
    };
    Ok(SenderSpec { best_effort: BestEffort::Sized { least, most }, ..sender })
}
