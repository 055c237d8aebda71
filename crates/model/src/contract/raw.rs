//! The contract as it stands in the file: any strings and numbers, each with its place.

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
    pub(super) period: Option<Spanned<RawTime>>,
    pub(super) min_inter_arrival: Option<Spanned<RawTime>>,
    pub(super) relative_deadline: Option<Spanned<RawTime>>,
    pub(super) release_jitter: Option<Spanned<RawTime>>,
    pub(super) wcet: Spanned<RawTime>,
    pub(super) quantum: Option<Spanned<RawTime>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawUpcall {
    pub(super) name: Spanned<String>,
    pub(super) period: Spanned<RawTime>,
    pub(super) batch: Spanned<i64>,
    pub(super) quantum: Option<Spanned<i64>>,
    pub(super) time_per_pdu: Spanned<RawTime>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReservation {
    pub(super) name: Spanned<String>,
    pub(super) budget: Spanned<RawTime>,
    pub(super) period: Spanned<RawTime>,
}

/// A time: a string with a unit, or a bare number that somebody forgot the unit of. Bare numbers
/// are let through here so that validation can say more than "expected a string".
pub(super) enum RawTime {
    Text(String),
    Bare(String),
}

impl<'de> Deserialize<'de> for RawTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimeVisitor;

        impl Visitor<'_> for TimeVisitor {
            type Value = RawTime;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time with its unit in quotes, such as \"40ms\"")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawTime, E> {
                Ok(RawTime::Text(text.into()))
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<RawTime, E> {
                Ok(RawTime::Bare(format!("{number}")))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<RawTime, E> {
                Ok(RawTime::Bare(format!("{number}")))
            }
        }

        deserializer.deserialize_any(TimeVisitor)
    }
}
