//! Validates streams.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};

use super::super::raw::RawStream;
use super::fields::{self, Checked, choice, count, optional, problem, span_or, value};
use crate::stream::StreamError;
use crate::units::Part;
use crate::{Stream, StreamClass, StreamSpec};

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
