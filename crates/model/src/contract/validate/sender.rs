//! Validates the sending host, and the streams from which admission derives its traffic.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use core::ops::Range;

use toml::Spanned;

use super::super::BestEffortChannel;
use super::super::raw::{RawSending, RawStream};
use super::fields;
use super::fields::{Checked, choice, count, optional, problem, span_or, value};
use crate::channel::{BestEffort, CostError, Link, Packetisation, SenderSpec};
use crate::stream::StreamError;
use crate::units::{MessageBytes, Part};
use crate::{Stream, StreamClass, StreamSpec};

pub(super) fn sender(raw: Spanned<RawSending>) -> Checked<SenderSpec> {
    let at = raw.span();
    let raw = raw.into_inner();
    let link = link(&raw, at)?;
    let packet = raw.packet.get_ref().0;
    let per_block = optional("packets_per_block", &raw.packets_per_block, count)?.unwrap_or(1);
    let packetisation = Packetisation::new(packet, per_block).or_else(|error| {
        let at_block = matches!(error, CostError::ZeroBlock);
        let packet = raw.packet.span();
        let span = if at_block { span_or(&raw.packets_per_block, packet) } else { packet };
        problem(span, error.to_string())
    })?;
    let best_effort = match &raw.best_effort {
        None => BestEffort::None,
        Some(given) => match given.get_ref().0 {
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
        Some(given) => match given.get_ref().0 {
            0 => {
                return problem(given.span(), "memory is zero; leave it out if it is not limited");
            }
            bytes => Some(bytes),
        },
    };
    Ok(SenderSpec {
        link,
        costs: raw.costs,
        packetisation,
        cpu: value(&raw.cpu),
        allowance: value(&raw.allowance).unwrap_or(SenderSpec::USUAL_ALLOWANCE),
        best_effort,
        memory,
    })
}

fn link(raw: &RawSending, at: Range<usize>) -> Checked<Link> {
    let startup = value(&raw.startup).unwrap_or_default();
    let (span, picos) = match (&raw.bandwidth, &raw.time_per_byte) {
        (Some(bandwidth), None) => {
            let bits = bandwidth.get_ref().bits_per_second();
            // Rounded up, so that the link is never assumed faster than it is.
            (bandwidth.span(), 8_000_000_000_000u64.div_ceil(bits))
        }
        (None, Some(time)) => (time.span(), time.get_ref().0),
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

/// Returns `sender` with best-effort messages as large as those of any channel of class `ubr`, and
/// at least `least` bytes long.
pub(super) fn with_best_effort(
    sender: SenderSpec,
    least: Option<&Spanned<MessageBytes>>,
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
            let least = given.get_ref().0;
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

pub(super) fn stream(raw: RawStream, names: &mut BTreeSet<String>) -> Checked<Stream> {
    let name_span = raw.name.span();
    let name = fields::name(raw.name, names)?;
    // Taken here, so that no later entry can take the channel's name and admission finds it free.
    let channel = Stream::channel_name_of(&name);
    if !names.insert(channel.clone()) {
        return problem(
            name_span,
            format!("stream \"{name}\" needs the name \"{channel}\" for its channel; it is taken"),
        );
    }
    let (period_span, frame_period) = match (&raw.frame_rate, &raw.frame_period) {
        (Some(rate), None) => (rate.span(), rate.get_ref().0),
        (None, Some(period)) => (period.span(), *period.get_ref()),
        (None, None) => {
            return problem(
                name_span,
                format!(
                    "stream \"{name}\" has no rate; write frame_rate = \"25/s\" (or frame_period)"
                ),
            );
        }
        (Some(_), Some(period)) => {
            return problem(
                period.span(),
                format!(
                    "stream \"{name}\" has both frame_rate and frame_period, which say the same; \
                     keep one"
                ),
            );
        }
    };
    let loss = value(&raw.tolerated_loss);
    let spec = StreamSpec {
        class: choice("class", &raw.class, &StreamClass::NAMES)?,
        frame_period,
        frame_size: raw.frame_size.get_ref().0,
        burst: optional("burst", &raw.burst, count)?.unwrap_or(1),
        delay: *raw.delay.get_ref(),
        tolerated_loss_ppm: loss.map_or(0, |Part(ppm)| ppm),
        time_per_pdu: *raw.time_per_pdu.get_ref(),
        name,
    };
    Stream::new(spec).or_else(|error| {
        let span = match error {
            StreamError::FramePeriod(_) => period_span,
            StreamError::EmptyFrame => raw.frame_size.span(),
            StreamError::ZeroBurst => span_or(&raw.burst, name_span),
            StreamError::Delay(_) => raw.delay.span(),
            StreamError::AllLost(_) => span_or(&raw.tolerated_loss, name_span),
            StreamError::TimePerPdu(_) => raw.time_per_pdu.span(),
        };
        problem(span, error.to_string())
    })
}
