//! The choice of the batch, which determines all other numbers.

use core::cmp::Reverse;

use punctual_model::channel::{LinkScheduling, Sender};
use punctual_model::{Duration, Service, StreamClass, StreamSpec};

use super::MappingError;

/// The most PDUs of a frame. The search tries each batch size once, at most twice the root of this.
pub const MAX_PDUS: u32 = 1 << 16;

/// The numbers of a mapping, with the symbols of the module's arithmetic.
pub(super) struct Plan {
    /// `N`.
    pub(super) pdus: u32,
    /// `N′`.
    pub(super) sent: u32,
    /// `K`.
    pub(super) turns: u32,
    /// `B`.
    pub(super) batch: u32,
    /// `T`.
    pub(super) period: Duration,
    pub(super) quantum: u32,
    /// The processor time of a turn with its two switches.
    pub(super) turn_need: Service,
    /// `turn_need` as a share of the period, in parts per million, rounded up.
    pub(super) upcall_ppm: u128,
    /// `B·S`.
    pub(super) message_bytes: u32,
    /// `I`.
    pub(super) spacing: Duration,
    /// `B_max`.
    pub(super) max_burst: u32,
    /// `r`.
    pub(super) left_to_channel: Duration,
    /// `2T + (bK − 1)·I`.
    pub(super) processing_delay: Duration,
    /// `d`.
    pub(super) delay_bound: Duration,
}

/// One `K` with its `B`, and the needs of a turn and its message, in nanoseconds.
#[derive(Clone, Copy)]
struct Candidate {
    turns: u32,
    batch: u32,
    message_bytes: u32,
    turn_need: u128,
    /// `bK`.
    burst_turns: u128,
    /// The processor time to send a message.
    sending_need: u128,
    /// The time of a message while nothing else runs or is sent.
    one_message: u128,
}

pub(super) fn choose(
    spec: &StreamSpec,
    sender: &Sender,
    switch: Service,
) -> Result<Plan, MappingError> {
    let pdus = sender.packetisation.packets_of(spec.frame_size);
    if pdus > MAX_PDUS {
        return Err(MappingError::TooManyPdus { pdus, packet: spec.frame_size.div_ceil(MAX_PDUS) });
    }
    let lost = u64::from(pdus) * u64::from(spec.tolerated_loss_ppm) / 1_000_000;
    // Less than all, because the part that may be lost is below 1.
    let sent = pdus - lost as u32;
    let frame_period = u128::from(spec.frame_period.as_nanos());
    let mut chosen = None;
    let (mut least_need, mut least_delay) = (None, None);
    for turns in numbers_of_turns(spec.class, sent) {
        let Some(candidate) = Candidate::new(spec, sender, switch, turns, sent.div_ceil(turns))
        else {
            continue;
        };
        // At most 2¹⁶ turns of less than 2⁶⁷ ns.
        let need = u128::from(turns) * candidate.turn_need;
        least_need = Some(least_need.map_or(need, |least: u128| least.min(need)));
        if need > frame_period {
            continue;
        }
        let least = candidate.least_delay();
        least_delay = Some(least_delay.map_or(least, |so_far: u128| so_far.min(least)));
        let Some(plan) = candidate.plan(spec, switch, pdus, sent) else { continue };
        let key = (candidate.processor_share(&plan), Reverse(plan.delay_bound));
        if chosen.as_ref().is_none_or(|(best, _)| key < *best) {
            chosen = Some((key, plan));
        }
    }
    match (chosen, least_delay, least_need) {
        (Some((_, plan)), ..) => Ok(plan),
        (None, Some(least), _) => {
            Err(MappingError::DelayTooShort { delay: spec.delay, least: duration(least) })
        }
        (None, None, Some(need)) => Err(MappingError::FramesTooFast {
            need: Service::from_nanos(duration(need).as_nanos()),
            frame_period: spec.frame_period,
        }),
        (None, None, None) => Err(MappingError::MessageTooLarge),
    }
}

/// Returns `S`: a packet, or a whole frame if that is smaller.
pub(super) fn pdu_bytes(spec: &StreamSpec, sender: &Sender) -> u32 {
    sender.packetisation.packet_bytes().min(spec.frame_size)
}

/// Returns each `K` that a class allows and that is the least for its batch size.
fn numbers_of_turns(class: StreamClass, sent: u32) -> impl Iterator<Item = u32> {
    let only_one = match class {
        StreamClass::ContinuousMedia | StreamClass::HighBandwidthMessages => false,
        StreamClass::BulkData | StreamClass::LowBandwidthTransactions => true,
    };
    core::iter::successors(Some(1), move |&turns: &u32| {
        let smaller = sent.div_ceil(turns) - 1;
        (!only_one && smaller > 0).then(|| sent.div_ceil(smaller))
    })
}

impl Candidate {
    fn new(
        spec: &StreamSpec,
        sender: &Sender,
        switch: Service,
        turns: u32,
        batch: u32,
    ) -> Option<Self> {
        let packets = u128::from(batch);
        let wide = |service: Service| u128::from(service.as_nanos());
        let (costs, cut) = (sender.costs, sender.packetisation);
        let change = wide(costs.change_of_handler());
        let blocks = packets.div_ceil(u128::from(cut.packets_per_block()));
        let per_packet = match sender.link_scheduling {
            LinkScheduling::InInterrupt => wide(costs.link_scheduling),
            // Each packet needs a change to the link thread.
            LinkScheduling::InThread => wide(costs.link_scheduling) + change,
        };
        let making = wide(costs.first_packet) + (packets - 1) * wide(costs.packet);
        let sending_need = making + blocks * change + packets * per_packet;
        let pdu_bytes = pdu_bytes(spec, sender);
        let link = u128::from(sender.link.transmission_time(pdu_bytes).as_nanos());
        Some(Self {
            turns,
            batch,
            message_bytes: batch.checked_mul(pdu_bytes)?,
            turn_need: packets * wide(spec.time_per_pdu) + 2 * wide(switch),
            burst_turns: u128::from(spec.burst) * u128::from(turns),
            sending_need,
            one_message: sending_need + packets * link,
        })
    }

    /// Returns the least delay with which [`Self::plan`] has an answer, if the frames are not too
    /// fast.
    fn least_delay(&self) -> u128 {
        // T ≥ turn_need is D − ⌈D/4⌉ ≥ w and D − 2·one_message ≥ w, with w at most 2⁴⁹ · 2⁶⁷.
        let turns = (self.burst_turns + 1) * self.turn_need;
        (turns * 4).div_ceil(3).max(turns + 2 * self.one_message)
    }

    fn plan(&self, spec: &StreamSpec, switch: Service, pdus: u32, sent: u32) -> Option<Plan> {
        let delay = u128::from(spec.delay.as_nanos());
        let frame_period = u128::from(spec.frame_period.as_nanos());
        let left_to_channel = delay.div_ceil(4).max(2 * self.one_message);
        let shared = delay.checked_sub(left_to_channel)? / (self.burst_turns + 1);
        let period = shared.min(frame_period / u128::from(self.turns));
        if period < self.turn_need {
            return None;
        }
        let spacing = if self.burst_turns == 1 { frame_period } else { period };
        // The longest time after its handover for which a message may be early: E of the module's
        // proof.
        let early = if spacing == period { period } else { 2 * period };
        let processing = 2 * period + (self.burst_turns - 1) * spacing;
        let quantum = switch.as_nanos() / spec.time_per_pdu.as_nanos();
        Some(Plan {
            pdus,
            sent,
            turns: self.turns,
            batch: self.batch,
            period: duration(period),
            // Not above the batch, so it fits.
            quantum: quantum.clamp(1, u64::from(self.batch)) as u32,
            turn_need: Service::from_nanos(duration(self.turn_need).as_nanos()),
            upcall_ppm: share(self.turn_need, period, 1_000_000),
            message_bytes: self.message_bytes,
            spacing: duration(spacing),
            // 2 or 3, because the period is at most the frame period.
            max_burst: 1 + early.div_ceil(spacing) as u32,
            left_to_channel: duration(left_to_channel),
            processing_delay: duration(processing),
            delay_bound: duration(delay - processing),
        })
    }

    /// Returns the processor time of upcall and channel together, in parts per billion.
    fn processor_share(&self, plan: &Plan) -> u128 {
        let of = |need, every: Duration| share(need, every.as_nanos().into(), 1_000_000_000);
        of(self.turn_need, plan.period) + of(self.sending_need, plan.spacing)
    }
}

/// Returns `need` as a share of `every` in `parts`, rounded up. Needs are below 2⁸³ ns and parts
/// below 2³⁰.
fn share(need: u128, every: u128, parts: u128) -> u128 {
    (need * parts).div_ceil(every)
}

/// Converts nanoseconds, saturating at the longest duration.
fn duration(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
