//! The mapping from an application's data to a host's promises: a stream becomes an upcall that
//! processes its frames and a channel that sends them.
//!
//! # Source
//! Real-time upcalls, §2, names the step (QoS mapping) and its results: a batch, a period, the
//! attributes of a connection, memory. The arithmetic is in a report that is not available, so this
//! one is ours.
//!
//! # The arithmetic
//! A stream has `F`, the time between frames, `b`, the frames that may come at once, and `D`, the
//! delay. A PDU is a packet of the sender, or a whole frame if that is smaller: `S` bytes.
//!
//! ```text
//! N  = ⌈frame / S⌉                    PDUs a frame
//! N′ = N − ⌊N · loss⌋                 that must be sent; loss is counted in whole PDUs
//! B  = ⌈N′ / K⌉                       the batch, if a frame is processed in K turns
//! r  = max(⌈D/4⌉, 2 · one message)    left to the channel at least
//! T  = min(⌊F/K⌋, ⌊(D − r)/(bK + 1)⌋) the period
//! I  = F if bK = 1, else T            the spacing of messages, B·S bytes at most
//! d  = D − 2T − (bK − 1)·I            the channel's delay bound
//! ```
//!
//! *One message* is the time of a message while nothing else runs or is sent. The channel gets at
//! least a quarter of the delay, because it shares processor and link with others, and at least
//! twice the time of its message, because another message may be under way. That is a choice; the
//! proof below holds for any.
//!
//! `K` is chosen for the least processor time of upcall and channel together: longer batches save
//! switches and blocks, shorter ones start sooner and allow a longer period. Among equal ones, the
//! channel with more time wins. Classes differ in the permitted `K`: any for continuous media and
//! high-bandwidth messages; 1 for bulk data, which gains nothing from a piece's early start, and
//! for low-bandwidth transactions, because their messages are small.
//!
//! The quantum is the work that fits in the cost of a switch, at least one PDU. A more urgent
//! upcall waits little longer for that than for the switch itself, and longer quanta need fewer
//! yield points.
//!
//! # Why the delay holds
//! Assumed:
//! - **A1** In any closed `δ` at most `b + ⌊δ/F⌋` frames become ready, each as a whole and with at
//!   most `N′` PDUs to be sent. (A smaller frame has no more: `n − ⌊n·loss⌋` never falls with `n`.)
//! - **A2** The upcall is admitted and runs when the first frame comes. Its turns are released
//!   every `T`, each is complete by the next. A turn takes up to `B` PDUs in order, ends early only
//!   when no PDU waits, and hands over its PDUs as one message when it ends, at `c`.
//! - **A3** The channel is admitted: message `i` has left by `ℓ_i + d`, with
//!   `ℓ_i = max(ℓ_{i−1} + I, c_i)`.
//!
//! **Claim.** If `T ≤ I ≤ F/K`, a frame ready at `a` has left by `a + 2T + (bK − 1)·I + d`.
//!
//! *Proof.* A *run* is a sequence of turns that take PDUs, all but the last one `B`. In the turn
//! before a run there was an instant at which no PDU waited, so the first turn's release `r_s` is
//! less than `T` after its first frame, `p`, became ready. Let message `i` be the last of frame
//! `f`, and `ℓ_i = c_j + (i − j)·I`. With `s` the first message of `j`'s run,
//! `c_j ≤ r_s + T + (j − s)·T`, so `ℓ_i ≤ a_p + 2T + (i − s)·I`. In each run the turns up to the
//! end of its `k`-th frame are at most `⌈k·N′/B⌉ ≤ k·K`, so with `m = f − p + 1` there are at most
//! `m·K` messages from `s` to `i`. If `m ≤ b`, that is the claim. Otherwise
//! `a_f − a_p ≥ (m − b)·F ≥ (m − b)·K·I`, and the claim follows again. ∎
//!
//! **Conforming.** If `I = T`, by induction `ℓ_i ≤ r_i + T < c_i + T`. If `bK = 1`, the proof gives
//! `ℓ_i ≤ a_g + 2T` for each frame `g` in message `i`, and `c_i > a_g`. So `ℓ_i − c_i < E` with
//! `E = T` or `2T`, and in a closed `δ` there are at most `1 + ⌈E/I⌉ + ⌊δ/I⌋` messages: `B_max` is
//! `1 + ⌈E/I⌉`.
//!
//! **Buffers.** Frames wait for their turns at most `2T + (bK − 1)·I`. Among the messages in the
//! channel at `t`, the oldest has `ℓ ≥ t − d` and the newest `ℓ < t + E`, so there are at most
//! `⌊(d + (B_max − 1)·I)/I⌋ + 1`. Both are [`chain_buffers`].
//!
//! # Costs
//! The upcall looks for work every `T`, even if frames are rarer, and is admitted as if it always
//! found some. A channel with `I = T < F/K` declares more than it sends.

mod choice;
mod expand;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use punctual_model::channel::{
    Channel, ChannelError, LinearBounded, Sender, Traffic, TrafficError,
};
use punctual_model::units::percent;
use punctual_model::{Duration, Service, Stream, StreamSpec, Upcall, UpcallError, UpcallSpec};
use thiserror::Error;

use self::choice::Plan;
use crate::channel::buffers::{Component, chain_buffers};

pub use choice::MAX_PDUS;
pub use expand::{ExpandError, expand};

/// The upcall, channel and buffers of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The stream's name.
    pub stream: String,
    /// `N`: the PDUs of the largest frame.
    pub pdus_per_frame: u32,
    /// `N′`: the PDUs that must be sent.
    pub pdus_sent: u32,
    /// `K`: the upcall's turns for the largest frame.
    pub turns_per_frame: u32,
    /// The upcall, named like the stream: `T`, `B` and the quantum.
    pub upcall: Upcall,
    /// The channel, named by [`Stream::channel_name_of`]: `B·S`, `I`, `B_max` and `d`.
    pub channel: Channel,
    /// The longest time from the moment when a frame is ready to the logical arrival of its last
    /// message. Together with the channel's delay bound it is the stream's delay.
    pub processing_delay: Duration,
    /// The buffers for frames and messages meanwhile.
    pub buffers: StreamBuffers,
    /// The derivation of each number, one line each, for display.
    pub arithmetic: Vec<String>,
}

/// The buffers of a stream. They are counted separately: a frame is kept until all of it was handed
/// over, a message from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamBuffers {
    /// Frames that wait for the upcall or are being processed.
    pub frames: u64,
    /// Messages in the channel.
    pub messages: u64,
    /// The size of all frames and messages, in bytes.
    pub bytes: u64,
}

/// The reason why a stream has no mapping.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MappingError {
    /// A frame has more PDUs than the search supports.
    #[error(
        "a frame is {pdus} packets and may be at most {MAX_PDUS}; packets of at least {packet}B \
         would do"
    )]
    TooManyPdus {
        /// The packets of a frame.
        pdus: u32,
        /// The smallest packet size that would be enough.
        packet: u32,
    },
    /// A CPU alone cannot keep up.
    #[error(
        "a frame needs {need} of processor time, switches included, but the next may come after \
         {frame_period}"
    )]
    FramesTooFast {
        /// The least processor time of a frame. It is also the counter-offer, as a frame period.
        need: Service,
        /// The requested frame period.
        frame_period: Duration,
    },
    /// The delay is too short for both processing and sending.
    #[error(
        "the delay of {delay} is too short for processing and sending; it would have to be {least}"
    )]
    DelayTooShort {
        /// The requested delay.
        delay: Duration,
        /// The least delay with which there is a mapping. It may still be refused beside the other
        /// entries.
        least: Duration,
    },
    /// A turn's PDUs exceed the largest message.
    #[error("a turn makes messages of more than {}B, the most there may be", u32::MAX)]
    MessageTooLarge,
    /// The buffers exceed 64 bits.
    #[error("the buffers have more bytes than 64 bits can count")]
    BuffersTooLarge,
    /// The chosen numbers are not an upcall. This indicates a bug here, because the choice keeps
    /// its rules.
    #[error(transparent)]
    Upcall(#[from] UpcallError),
    /// The chosen numbers are not a channel. This indicates a bug here, because the choice keeps
    /// its rules.
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

impl From<TrafficError> for MappingError {
    fn from(error: TrafficError) -> Self {
        Self::Channel(error.into())
    }
}

/// Maps `stream` to an upcall and a channel on `sender`. A switch between two upcalls costs
/// `switch`.
pub fn map(stream: &Stream, sender: &Sender, switch: Service) -> Result<Mapping, MappingError> {
    let spec = stream.spec();
    let plan = choice::choose(spec, sender, switch)?;
    let upcall = Upcall::new(UpcallSpec {
        name: spec.name.clone(),
        period: plan.period,
        batch: plan.batch,
        quantum: plan.quantum,
        time_per_pdu: spec.time_per_pdu,
    })?;
    let messages = LinearBounded::new(1, plan.message_bytes, plan.spacing, plan.max_burst)?;
    let channel = Channel::new(
        Stream::channel_name_of(&spec.name),
        &Traffic::from(messages),
        plan.delay_bound,
    )?;
    let buffers = buffers(spec, &plan, messages).ok_or(MappingError::BuffersTooLarge)?;
    Ok(Mapping {
        stream: spec.name.clone(),
        pdus_per_frame: plan.pdus,
        pdus_sent: plan.sent,
        turns_per_frame: plan.turns,
        upcall,
        channel,
        processing_delay: plan.processing_delay,
        buffers,
        arithmetic: arithmetic(spec, sender, switch, &plan, buffers),
    })
}

fn buffers(spec: &StreamSpec, plan: &Plan, messages: LinearBounded) -> Option<StreamBuffers> {
    let within = |most_delay| [Component { least_delay: Duration::ZERO, most_delay }];
    let frames = LinearBounded::fixed(spec.frame_size, spec.frame_period, spec.burst).ok()?;
    let frames = *chain_buffers(frames, &within(plan.processing_delay))?.first()?;
    let messages = *chain_buffers(messages, &within(plan.delay_bound))?.first()?;
    let of_frames = frames.checked_mul(u64::from(spec.frame_size))?;
    let of_messages = messages.checked_mul(u64::from(plan.message_bytes))?;
    Some(StreamBuffers { frames, messages, bytes: of_frames.checked_add(of_messages)? })
}

fn arithmetic(
    spec: &StreamSpec,
    sender: &Sender,
    switch: Service,
    plan: &Plan,
    buffers: StreamBuffers,
) -> Vec<String> {
    let StreamSpec { frame_size, frame_period, burst, delay, time_per_pdu, .. } = spec;
    let Plan { pdus, sent, turns, batch, period, spacing, .. } = plan;
    let packet = choice::pdu_bytes(spec, sender);
    let mut lines = Vec::new();
    lines.push(format!("N = ⌈{frame_size}B / {packet}B⌉ = {pdus} PDUs a frame"));
    if spec.tolerated_loss_ppm > 0 {
        let (ppm, lost) = (spec.tolerated_loss_ppm, pdus - sent);
        lines.push(format!("N' = {pdus} − ⌊{pdus} · {ppm}/1000000⌋ = {pdus} − {lost} = {sent}"));
    }
    lines.push(format!("K = {turns}: B = ⌈{sent} / {turns}⌉ = {batch} PDUs a turn"));
    lines.push(format!(
        "T = min(⌊{frame_period} / {turns}⌋, ⌊({delay} − {}) / ({burst}·{turns} + 1)⌋) = {period}",
        plan.left_to_channel
    ));
    lines.push(format!(
        "a turn needs {batch}·{time_per_pdu} + 2·{switch} = {}, {} of the CPU",
        plan.turn_need,
        percent(u64::try_from(plan.upcall_ppm).unwrap_or(u64::MAX))
    ));
    lines.push(format!(
        "PDUs between yield points = {}, {}",
        plan.quantum,
        *time_per_pdu * u64::from(plan.quantum)
    ));
    lines.push(format!(
        "messages of at most {batch}·{packet}B = {}B every {spacing}, up to {} at once",
        plan.message_bytes, plan.max_burst
    ));
    let processing = plan.processing_delay;
    lines.push(format!("processing ≤ 2·{period} + ({burst}·{turns} − 1)·{spacing} = {processing}"));
    lines.push(format!("d = {delay} − {processing} = {}", plan.delay_bound));
    let StreamBuffers { frames, messages, bytes } = buffers;
    lines.push(format!(
        "buffers: {frames} frames of {frame_size}B and {messages} messages of {}B = {bytes}B",
        plan.message_bytes
    ));
    lines
}
