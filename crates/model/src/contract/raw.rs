//! The contract as the file has it: unchecked strings and numbers, each with its place.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use toml::Spanned;

use crate::channel::{BitRate, SendCosts};
use crate::reservation::BudgetRange;
use crate::units::{Bytes, Frequency, MessageBytes, Part, PicosPerByte};
use crate::{Duration, Reservation, Service};

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
    pub(super) period: Option<Spanned<Duration>>,
    pub(super) min_inter_arrival: Option<Spanned<Duration>>,
    pub(super) relative_deadline: Option<Spanned<Duration>>,
    pub(super) release_jitter: Option<Spanned<Duration>>,
    pub(super) wcet: Spanned<Service>,
    pub(super) wcet_high: Option<Spanned<Service>>,
    pub(super) quantum: Option<Spanned<Service>>,
    pub(super) last_segment: Option<Spanned<Service>>,
    pub(super) preemptible: Option<bool>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawUpcall {
    pub(super) name: Spanned<String>,
    pub(super) period: Spanned<Duration>,
    pub(super) batch: Spanned<i64>,
    pub(super) quantum: Option<Spanned<i64>>,
    pub(super) time_per_pdu: Spanned<Service>,
    pub(super) overrun: Option<Spanned<String>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReservation {
    pub(super) name: Spanned<String>,
    pub(super) budget: Spanned<Service>,
    pub(super) period: Spanned<Duration>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSending {
    pub(super) bandwidth: Option<Spanned<BitRate>>,
    pub(super) time_per_byte: Option<Spanned<PicosPerByte>>,
    pub(super) startup: Option<Spanned<Duration>>,
    pub(super) packet: Spanned<MessageBytes>,
    pub(super) packets_per_block: Option<Spanned<i64>>,
    pub(super) cpu: Option<Spanned<Reservation>>,
    pub(super) allowance: Option<Spanned<Duration>>,
    pub(super) best_effort: Option<Spanned<MessageBytes>>,
    pub(super) best_effort_min: Option<Spanned<MessageBytes>>,
    pub(super) memory: Option<Spanned<Bytes>>,
    pub(super) costs: Option<SendCosts>,
}

/// Both forms of a channel in one, so that a key of the other form is told from a misspelt one.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawChannel {
    pub(super) name: Spanned<String>,
    pub(super) max_message: Option<Spanned<MessageBytes>>,
    pub(super) min_message: Option<Spanned<MessageBytes>>,
    pub(super) max_rate: Option<Spanned<Frequency>>,
    pub(super) min_inter_arrival: Option<Spanned<Duration>>,
    pub(super) max_burst: Option<Spanned<i64>>,
    pub(super) class: Option<Spanned<String>>,
    pub(super) peak_rate: Option<Spanned<BitRate>>,
    pub(super) sustained_rate: Option<Spanned<BitRate>>,
    pub(super) max_sdu: Option<Spanned<MessageBytes>>,
    pub(super) delay_variation_tolerance: Option<Spanned<Duration>>,
    pub(super) delay_bound: Option<Spanned<Duration>>,
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
    pub(super) frame_rate: Option<Spanned<Frequency>>,
    pub(super) frame_period: Option<Spanned<Duration>>,
    pub(super) frame_size: Spanned<MessageBytes>,
    pub(super) burst: Option<Spanned<i64>>,
    pub(super) delay: Spanned<Duration>,
    pub(super) tolerated_loss: Option<Spanned<Part>>,
    pub(super) time_per_pdu: Spanned<Service>,
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
    pub(super) adapt: Option<Spanned<BudgetRange>>,
    pub(super) memory: Option<Spanned<Bytes>>,
    pub(super) channel: Option<Spanned<String>>,
    pub(super) directory: Option<Spanned<String>>,
    /// Sorted by name, so that the same file always means the same.
    pub(super) environment: Option<Spanned<BTreeMap<String, String>>>,
}
