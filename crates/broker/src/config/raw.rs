//! The configuration as it stands in the file, and the checks of single values.

use std::fmt::Display;

use punctual_model::channel::BitRate;
use punctual_model::text_file::{Checked, Problem};
use punctual_model::units::{Bytes, Part, Share};
use punctual_model::{Duration, Reservation, Service};
use serde::Deserialize;
use toml::Spanned;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawConfig {
    #[serde(default)]
    pub(super) host: RawHost,
    #[serde(default)]
    pub(super) broker: RawBroker,
    pub(super) channels: Option<RawChannels>,
    #[serde(default)]
    pub(super) default: RawQuota,
    #[serde(default)]
    pub(super) user: Vec<RawUser>,
    #[serde(default)]
    pub(super) group: Vec<RawGroup>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawChannels {
    pub(super) link: Spanned<BitRate>,
    pub(super) headers: Option<Spanned<i64>>,
    pub(super) packet: Option<Spanned<i64>>,
    pub(super) packets_per_block: Option<Spanned<i64>>,
    pub(super) best_effort: Option<Part>,
    pub(super) cpu: Option<Reservation>,
    pub(super) per_packet: Option<Spanned<Service>>,
    pub(super) per_packet_received: Option<Spanned<Service>>,
    pub(super) allowance: Option<Spanned<Duration>>,
    pub(super) room: Option<Spanned<i64>>,
    pub(super) transport: Option<Spanned<String>>,
    pub(super) interface: Option<Spanned<String>>,
    pub(super) early_discard: Option<Spanned<String>>,
    pub(super) awake: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawHost {
    pub(super) cpus: Option<Spanned<i64>>,
    pub(super) reservable: Option<Spanned<Share>>,
    pub(super) context_switch: Option<Spanned<Service>>,
    pub(super) upcalls: Option<Spanned<String>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBroker {
    pub(super) grace: Option<Spanned<Duration>>,
    pub(super) choose: Option<Spanned<Duration>>,
    pub(super) penalty: Option<Spanned<Duration>>,
    pub(super) run_limit: Option<Spanned<Duration>>,
    pub(super) sample: Option<Spanned<Duration>>,
    pub(super) orphan: Option<Spanned<Duration>>,
    pub(super) max_connections: Option<Spanned<i64>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct RawQuota {
    pub(super) share: Option<Share>,
    pub(super) link: Option<Share>,
    pub(super) queue_memory: Option<Bytes>,
    pub(super) max_grants: Option<Spanned<i64>>,
    pub(super) shortest_period: Option<Spanned<Duration>>,
    pub(super) least_reservation: Option<Share>,
    pub(super) allow: Option<Vec<Spanned<String>>>,
}

// `flatten` would lose the places of the values, so the keys of a quota are written out.

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawUser {
    pub(super) name: Option<Spanned<String>>,
    pub(super) uid: Option<Spanned<i64>>,
    share: Option<Share>,
    link: Option<Share>,
    queue_memory: Option<Bytes>,
    max_grants: Option<Spanned<i64>>,
    shortest_period: Option<Spanned<Duration>>,
    least_reservation: Option<Share>,
    allow: Option<Vec<Spanned<String>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawGroup {
    pub(super) name: Option<Spanned<String>>,
    pub(super) gid: Option<Spanned<i64>>,
    pub(super) together: Option<Share>,
    share: Option<Share>,
    link: Option<Share>,
    queue_memory: Option<Bytes>,
    max_grants: Option<Spanned<i64>>,
    shortest_period: Option<Spanned<Duration>>,
    least_reservation: Option<Share>,
    allow: Option<Vec<Spanned<String>>>,
}

/// Takes the keys of a quota out of a user's or a group's entry.
macro_rules! quota_of {
    ($raw:ident) => {
        RawQuota {
            share: $raw.share,
            link: $raw.link,
            queue_memory: $raw.queue_memory,
            max_grants: $raw.max_grants,
            shortest_period: $raw.shortest_period,
            least_reservation: $raw.least_reservation,
            allow: $raw.allow,
        }
    };
}

impl RawUser {
    pub(super) fn into_quota(self) -> RawQuota {
        quota_of!(self)
    }
}

impl RawGroup {
    pub(super) fn into_quota(self) -> RawQuota {
        quota_of!(self)
    }
}

/// Returns the problem of a value, with its place.
pub(super) fn problem<T>(at: &Spanned<T>, text: impl Display) -> Problem {
    Problem { offset: at.span().start, text: text.to_string() }
}

/// Returns a time within these bounds, or `base` if none is given.
pub(super) fn within(
    given: Option<Spanned<Duration>>,
    base: Duration,
    least: Duration,
    most: Duration,
) -> Checked<Duration> {
    let Some(given) = given else { return Ok(base) };
    let length = *given.get_ref();
    if (least..=most).contains(&length) {
        Ok(length)
    } else {
        Err(problem(&given, format!("{length} is not from {least} to {most}")))
    }
}

/// Returns a number within these bounds, or `base` if none is given.
pub(super) fn number(
    given: Option<Spanned<i64>>,
    base: u32,
    least: u32,
    most: u32,
) -> Checked<u32> {
    let Some(given) = given else { return Ok(base) };
    match u32::try_from(*given.get_ref()) {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(problem(&given, format!("{} is not from {least} to {most}", given.get_ref()))),
    }
}
