//! The host profile as the file has it: unchecked strings and numbers, each with its place.

use alloc::string::String;
use alloc::vec::Vec;

use toml::Spanned;

use super::packets::packet_bytes;
use super::validate::{counted, duration, percentile, spread, text};
use crate::Duration;
use crate::host::{Sampled, StepCharge, Under};
use crate::text_file::{Checked, choice};

/// A string that holds a quantity with its unit, or a text.
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
    pub(super) duration: Text,
    pub(super) version: Text,
    #[serde(default)]
    pub(super) quick: bool,
    pub(super) stolen: Option<Text>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSwitching {
    pub(super) switch: Text,
    pub(super) by: Text,
    pub(super) cache_refill: Text,
    pub(super) working_set: Text,
    pub(super) percentile: Text,
}

/// Declares an entry with keys of its own and those that several kinds of entries have. It is a macro because a key
/// keeps its place, and an unknown one is refused, only in a struct that names all of them itself.
macro_rules! entry {
    ($name:ident, $own:tt, sampled) => {
        entry!($name, $own, {
            under: Text,
            samples: Spanned<i64>,
            min: Text,
            p50: Text,
            p99: Text,
            max: Text,
            discarded: Option<Spanned<i64>>,
            stolen: Option<Text>,
        });

        impl $name {
            pub(super) fn sampled(&self) -> Checked<Sampled> {
                let stolen = self.stolen.as_ref();
                Ok(Sampled {
                    under: choice("class", &self.under, &Under::NAMES)?,
                    spread: spread(&self.samples, [&self.min, &self.p50, &self.p99, &self.max])?,
                    discarded: self.discarded.as_ref().map_or(Ok(0), |at| counted("discarded", at))?,
                    stolen: stolen.map_or(Ok(Duration::ZERO), |at| duration("stolen", at))?,
                })
            }
        }
    };
    ($name:ident, $own:tt, charge) => {
        entry!($name, $own, {
            path: Option<Text>,
            largest_packet: Option<Text>,
            percentile: Option<Text>,
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
                    percentile: self.percentile.as_ref().map(percentile).transpose()?,
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
    switch: Text,
    cache: Text,
    first_packet: Text,
    packet: Text,
    link_scheduling: Text,
}, charge);

entry!(RawReceiving, {
    switch: Text,
    cache: Text,
    first_packet: Text,
    packet: Text,
}, charge);

entry!(RawFigure, { operation: Text, }, sampled);

entry!(RawRefill, { working_set: Text, }, sampled);

entry!(RawMessage, {
    packet: Text,
    packets_per_block: Spanned<i64>,
    packets: Spanned<i64>,
}, sampled);

entry!(RawArrival, { packet: Text, framing: Text, packets: Spanned<i64>, }, sampled);

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAbsent {
    pub(super) what: Text,
    pub(super) why: Text,
}
