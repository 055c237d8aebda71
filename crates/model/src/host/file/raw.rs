//! The host profile as the file has it: unchecked strings and numbers, each with its place.

use alloc::string::String;
use alloc::vec::Vec;

use toml::Spanned;

use super::packets::packet_bytes;
use super::validate::{counted, spread, text};
use crate::host::{Percentile, Sampled, StepCharge, Under};
use crate::text_file::{Checked, choice};
use crate::units::{Bytes, MessageBytes};
use crate::{Duration, Service};

/// A text, with its place.
pub(super) type Text = Spanned<String>;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCalibration {
    pub(super) format: Spanned<i64>,
    pub(super) host: RawHost,
    pub(super) run: RawRun,
    pub(super) switching: Option<RawSwitching>,
    pub(super) sending: Option<RawSending>,
    pub(super) receiving: Option<RawReceiving>,
    #[serde(default)]
    pub(super) figure: Vec<Spanned<RawFigure>>,
    #[serde(default)]
    pub(super) cache_refill: Vec<Spanned<RawRefill>>,
    #[serde(default)]
    pub(super) message: Vec<Spanned<RawMessage>>,
    #[serde(default)]
    pub(super) arrival: Vec<Spanned<RawArrival>>,
    #[serde(default)]
    pub(super) absent: Vec<Spanned<RawAbsent>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHost {
    pub(super) cpu_model: Text,
    pub(super) kernel_release: Text,
    pub(super) cpus: Spanned<i64>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRun {
    pub(super) at_unix_s: Spanned<i64>,
    pub(super) duration: Duration,
    pub(super) version: Text,
    #[serde(default)]
    pub(super) quick: bool,
    pub(super) stolen: Option<Duration>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSwitching {
    pub(super) switch: Service,
    pub(super) by: Text,
    pub(super) cache_refill: Service,
    pub(super) working_set: Spanned<Bytes>,
    pub(super) percentile: Percentile,
}

/// Declares an entry with keys of its own and those that several kinds of entries have. It is a macro because a key
/// keeps its place, and an unknown one is refused, only in a struct that names all of them itself.
macro_rules! entry {
    ($name:ident, $own:tt, sampled) => {
        entry!($name, $own, {
            under: Text,
            samples: Spanned<i64>,
            min: Duration,
            p50: Duration,
            p99: Duration,
            max: Duration,
            discarded: Option<Spanned<i64>>,
            stolen: Option<Duration>,
        });

        impl $name {
            pub(super) fn sampled(&self) -> Checked<Sampled> {
                Ok(Sampled {
                    under: choice("class", &self.under, &Under::NAMES)?,
                    spread: spread(&self.samples, [self.min, self.p50, self.p99, self.max])?,
                    discarded: self.discarded.as_ref().map_or(Ok(0), |at| counted("discarded", at))?,
                    stolen: self.stolen.unwrap_or_default(),
                })
            }
        }
    };
    ($name:ident, $own:tt, charge) => {
        entry!($name, $own, {
            path: Option<Text>,
            largest_packet: Option<Spanned<MessageBytes>>,
            percentile: Option<Percentile>,
        });

        impl $name {
            pub(super) fn charge<C>(self, costs: C) -> Checked<StepCharge<C>> {
                let largest_packet = self.largest_packet;
                Ok(StepCharge {
                    costs,
                    path: self.path.map(|path| text("path", path)).transpose()?,
                    largest_packet: largest_packet
                        .map(|bytes| packet_bytes("largest_packet", &bytes))
                        .transpose()?,
                    percentile: self.percentile,
                })
            }
        }
    };
    ($name:ident, { $($own:ident: $own_type:ty,)* }, { $($key:ident: $type:ty,)* }) => {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(super) struct $name {
            $(pub(super) $own: $own_type,)*
            $($key: $type,)*
        }
    };
}

// The keys of `[sending.costs]` in a contract, and the conditions of their measurement.
entry!(RawSending, {
    switch: Service,
    cache: Service,
    first_packet: Service,
    packet: Service,
    link_scheduling: Service,
}, charge);

entry!(RawReceiving, {
    switch: Service,
    cache: Service,
    first_packet: Service,
    packet: Service,
}, charge);

entry!(RawFigure, { operation: Text, }, sampled);

entry!(RawRefill, { working_set: Spanned<Bytes>, }, sampled);

entry!(RawMessage, {
    packet: Spanned<MessageBytes>,
    packets_per_block: Spanned<i64>,
    packets: Spanned<i64>,
}, sampled);

entry!(RawArrival, { packet: Spanned<MessageBytes>, framing: Text, packets: Spanned<i64>, }, sampled);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAbsent {
    pub(super) what: Text,
    pub(super) why: Text,
}
