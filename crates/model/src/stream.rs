//! Streams: the data of an application in its own terms, before CPUs and packets (the upcall
//! paper's QoS specification, real-time upcalls, §2).

use alloc::string::String;

use thiserror::Error;

use crate::time::{Duration, Service};
use crate::units::MAX_NANOS;

/// The kind of an application (real-time upcalls, §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamClass {
    /// Frames at a rate, each due at the receiver within the delay.
    ContinuousMedia,
    /// Data at the given rate, in pieces; no piece is urgent.
    BulkData,
    /// Rare, small messages, each due within the delay.
    LowBandwidthTransactions,
    /// Frequent messages, which may come in bursts, each due within the delay.
    HighBandwidthMessages,
}

impl StreamClass {
    /// All classes with their names in a contract.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("continuous-media", Self::ContinuousMedia),
        ("bulk-data", Self::BulkData),
        ("low-bandwidth-transactions", Self::LowBandwidthTransactions),
        ("high-bandwidth-messages", Self::HighBandwidthMessages),
    ];
}

/// A stream as it was declared, unchecked. [`Stream::new`] validates it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// The stream's name.
    pub name: String,
    /// The kind of application.
    pub class: StreamClass,
    /// The least time between two frames (messages, pieces).
    pub frame_period: Duration,
    /// The largest frame in bytes.
    pub frame_size: u32,
    /// The most frames that come at once; 1 if there are no bursts.
    pub burst: u32,
    /// The longest time from a frame's readiness at the sender until its last byte has left.
    pub delay: Duration,
    /// The part of each frame that may be lost, in parts per million.
    pub tolerated_loss_ppm: u32,
    /// The processor time that the application itself needs for each PDU.
    pub time_per_pdu: Service,
}

/// A valid stream.
///
/// Guaranteed: period, delay and time per PDU are positive (each at most a day), frames have at
/// least one byte, a burst has at least one frame, and less than the whole may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream(StreamSpec);

/// The rule that a [`StreamSpec`] breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The period is zero, or longer than a day.
    #[error("frames every {0}; the time between two must be between 1ns and a day")]
    FramePeriod(Duration),
    /// The frame has no bytes.
    #[error("the frame is empty; it must have at least 1 byte")]
    EmptyFrame,
    /// The burst is zero frames.
    #[error("the burst is zero frames; it must be at least 1")]
    ZeroBurst,
    /// The delay is zero, or longer than a day.
    #[error("the delay is {0}; it must be between 1ns and a day")]
    Delay(Duration),
    /// All may be lost, so the stream would need nothing.
    #[error("{0} ppm may be lost; less than all of it, 1,000,000 ppm, may")]
    AllLost(u32),
    /// The time per PDU is zero, or longer than a day.
    #[error("the time per PDU is {0}; it must be between 1ns and a day")]
    TimePerPdu(Service),
}

impl Stream {
    /// Validates `spec`.
    pub fn new(spec: StreamSpec) -> Result<Self, StreamError> {
        let sensible = |nanos: u64| (1..=MAX_NANOS).contains(&nanos);
        if !sensible(spec.frame_period.as_nanos()) {
            return Err(StreamError::FramePeriod(spec.frame_period));
        }
        if spec.frame_size == 0 {
            return Err(StreamError::EmptyFrame);
        }
        if spec.burst == 0 {
            return Err(StreamError::ZeroBurst);
        }
        if !sensible(spec.delay.as_nanos()) {
            return Err(StreamError::Delay(spec.delay));
        }
        if spec.tolerated_loss_ppm >= 1_000_000 {
            return Err(StreamError::AllLost(spec.tolerated_loss_ppm));
        }
        if !sensible(spec.time_per_pdu.as_nanos()) {
            return Err(StreamError::TimePerPdu(spec.time_per_pdu));
        }
        Ok(Self(spec))
    }

    /// Returns the stream's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the name of the channel that admission derives from the stream called `stream`.
    pub fn channel_name_of(stream: &str) -> String {
        alloc::format!("{stream}.channel")
    }

    /// Returns the numbers, for a caller that reads or varies them.
    pub fn spec(&self) -> &StreamSpec {
        &self.0
    }
}
