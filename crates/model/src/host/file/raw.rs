//! The host profile as the file has it: unchecked strings and numbers, each with its place.

use alloc::string::String;
use alloc::vec::Vec;

use toml::Spanned;

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

/// The keys of `[sending.costs]` in a contract, and the conditions of their measurement.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSending {
    pub(super) switch: Text,
    pub(super) cache: Text,
    pub(super) first_packet: Text,
    pub(super) packet: Text,
    pub(super) link_scheduling: Text,
    pub(super) path: Option<Text>,
    pub(super) largest_packet: Option<Text>,
    pub(super) percentile: Option<Text>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReceiving {
    pub(super) switch: Text,
    pub(super) cache: Text,
    pub(super) first_packet: Text,
    pub(super) packet: Text,
    pub(super) path: Option<Text>,
    pub(super) largest_packet: Option<Text>,
    pub(super) percentile: Option<Text>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFigure {
    pub(super) operation: Text,
    pub(super) under: Text,
    pub(super) samples: Spanned<i64>,
    pub(super) min: Text,
    pub(super) p50: Text,
    pub(super) p99: Text,
    pub(super) max: Text,
    pub(super) discarded: Option<Spanned<i64>>,
    pub(super) stolen: Option<Text>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRefill {
    pub(super) working_set: Text,
    pub(super) under: Text,
    pub(super) samples: Spanned<i64>,
    pub(super) min: Text,
    pub(super) p50: Text,
    pub(super) p99: Text,
    pub(super) max: Text,
    pub(super) discarded: Option<Spanned<i64>>,
    pub(super) stolen: Option<Text>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawMessage {
    pub(super) packet: Text,
    pub(super) packets_per_block: Spanned<i64>,
    pub(super) packets: Spanned<i64>,
    pub(super) under: Text,
    pub(super) samples: Spanned<i64>,
    pub(super) min: Text,
    pub(super) p50: Text,
    pub(super) p99: Text,
    pub(super) max: Text,
    pub(super) discarded: Option<Spanned<i64>>,
    pub(super) stolen: Option<Text>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArrival {
    pub(super) packet: Text,
    pub(super) framing: Text,
    pub(super) packets: Spanned<i64>,
    pub(super) under: Text,
    pub(super) samples: Spanned<i64>,
    pub(super) min: Text,
    pub(super) p50: Text,
    pub(super) p99: Text,
    pub(super) max: Text,
    pub(super) discarded: Option<Spanned<i64>>,
    pub(super) stolen: Option<Text>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAbsent {
    pub(super) what: Text,
    pub(super) why: Text,
}
