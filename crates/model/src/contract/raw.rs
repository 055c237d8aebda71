//! The contract as the file has it: unchecked strings and numbers, each with its place.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use toml::Spanned;

#[derive(serde::Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawContract {
    #[serde(default)]
    pub(super) system: RawSystem,
    #[serde(default)]
    pub(super) task: Vec<Spanned<RawTask>>,
    #[serde(default)]
    pub(super) upcall: Vec<Spanned<RawUpcall>>,
    #[serde(default)]
    pub(super) reservation: Vec<Spanned<RawReservation>>,
    pub(super) sending: Option<Spanned<RawSending>>,
    #[serde(default)]
    pub(super) channel: Vec<Spanned<RawChannel>>,
    #[serde(default)]
    pub(super) stream: Vec<Spanned<RawStream>>,
    #[serde(default)]
    pub(super) command: Vec<Spanned<RawCommand>>,
}

#[derive(serde::Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSystem {
    pub(super) policy: Option<Spanned<String>>,
    pub(super) cpus: Option<Spanned<i64>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTask {
    pub(super) name: Spanned<String>,
    pub(super) period: Option<Spanned<RawQuantity>>,
    pub(super) min_inter_arrival: Option<Spanned<RawQuantity>>,
    pub(super) relative_deadline: Option<Spanned<RawQuantity>>,
    pub(super) release_jitter: Option<Spanned<RawQuantity>>,
    pub(super) wcet: Spanned<RawQuantity>,
    pub(super) wcet_high: Option<Spanned<RawQuantity>>,
    pub(super) quantum: Option<Spanned<RawQuantity>>,
    pub(super) last_segment: Option<Spanned<RawQuantity>>,
    pub(super) preemptible: Option<bool>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawUpcall {
    pub(super) name: Spanned<String>,
    pub(super) period: Spanned<RawQuantity>,
    pub(super) batch: Spanned<i64>,
    pub(super) quantum: Option<Spanned<i64>>,
    pub(super) time_per_pdu: Spanned<RawQuantity>,
    pub(super) overrun: Option<Spanned<String>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReservation {
    pub(super) name: Spanned<String>,
    pub(super) budget: Spanned<RawQuantity>,
    pub(super) period: Spanned<RawQuantity>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSending {
    pub(super) bandwidth: Option<Spanned<RawQuantity>>,
    pub(super) time_per_byte: Option<Spanned<RawQuantity>>,
    pub(super) startup: Option<Spanned<RawQuantity>>,
    pub(super) packet: Spanned<RawQuantity>,
    pub(super) packets_per_block: Option<Spanned<i64>>,
    pub(super) cpu: Option<Spanned<String>>,
    pub(super) allowance: Option<Spanned<RawQuantity>>,
    pub(super) best_effort: Option<Spanned<RawQuantity>>,
    pub(super) best_effort_min: Option<Spanned<RawQuantity>>,
    pub(super) memory: Option<Spanned<RawQuantity>>,
    pub(super) costs: Option<RawCosts>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCosts {
    pub(super) switch: Spanned<RawQuantity>,
    pub(super) cache: Spanned<RawQuantity>,
    pub(super) first_packet: Spanned<RawQuantity>,
    pub(super) packet: Spanned<RawQuantity>,
    pub(super) link_scheduling: Spanned<RawQuantity>,
}

/// Both forms of a channel in one, so that a key of the other form is told from a misspelt one.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawChannel {
    pub(super) name: Spanned<String>,
    pub(super) max_message: Option<Spanned<RawQuantity>>,
    pub(super) min_message: Option<Spanned<RawQuantity>>,
    pub(super) max_rate: Option<Spanned<RawQuantity>>,
    pub(super) min_inter_arrival: Option<Spanned<RawQuantity>>,
    pub(super) max_burst: Option<Spanned<i64>>,
    pub(super) class: Option<Spanned<String>>,
    pub(super) peak_rate: Option<Spanned<RawQuantity>>,
    pub(super) sustained_rate: Option<Spanned<RawQuantity>>,
    pub(super) max_sdu: Option<Spanned<RawQuantity>>,
    pub(super) delay_variation_tolerance: Option<Spanned<RawQuantity>>,
    pub(super) delay_bound: Option<Spanned<RawQuantity>>,
    pub(super) direction: Option<Spanned<String>>,
    pub(super) destination: Option<Spanned<String>>,
    pub(super) listen: Option<Spanned<String>>,
    pub(super) framing: Option<Spanned<String>>,
    pub(super) too_early: Option<Spanned<String>>,
    pub(super) policing: Option<Spanned<String>>,
    pub(super) sensitivity: Option<Spanned<String>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawStream {
    pub(super) name: Spanned<String>,
    pub(super) class: Spanned<String>,
    pub(super) frame_rate: Option<Spanned<RawQuantity>>,
    pub(super) frame_period: Option<Spanned<RawQuantity>>,
    pub(super) frame_size: Spanned<RawQuantity>,
    pub(super) burst: Option<Spanned<i64>>,
    pub(super) delay: Spanned<RawQuantity>,
    pub(super) tolerated_loss: Option<Spanned<RawQuantity>>,
    pub(super) time_per_pdu: Spanned<RawQuantity>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCommand {
    pub(super) name: Spanned<String>,
    pub(super) run: Spanned<Vec<String>>,
    pub(super) reservation: Option<Spanned<String>>,
    pub(super) enforcement: Option<Spanned<String>>,
    pub(super) backend: Option<Spanned<String>>,
    pub(super) cpu: Option<Spanned<i64>>,
    pub(super) channel: Option<Spanned<String>>,
    pub(super) directory: Option<Spanned<String>>,
    /// Sorted by name, so that the same file always means the same.
    pub(super) environment: Option<Spanned<BTreeMap<String, String>>>,
}

/// A quantity: a string with a unit, or a bare number that lacks its unit. Bare numbers are
/// accepted here so that validation can say more than "expected a string".
pub(super) enum RawQuantity {
    Text(String),
    Bare(String),
}

impl<'de> Deserialize<'de> for RawQuantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct QuantityVisitor;

        impl Visitor<'_> for QuantityVisitor {
            type Value = RawQuantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number with its unit in quotes, such as \"40ms\" or \"4KiB\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawQuantity, E> {
                Ok(RawQuantity::Text(text.into()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<RawQuantity, E> {
                Ok(RawQuantity::Bare(format!("{number}")))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<RawQuantity, E> {
                Ok(RawQuantity::Bare(format!("{number}")))
            }
        }

        deserializer.deserialize_any(QuantityVisitor)
    }
}
