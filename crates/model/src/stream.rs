//! Streams: what an application knows of its data, before anybody thinks of CPUs and packets (the
//! upcall paper's QoS specification, real-time upcalls, §2).

use alloc::string::String;

use thiserror::Error;

use crate::time::{Duration, Service};
use crate::units::MAX_NANOS;

/// The kind of an application (real-time upcalls, §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamClass {
    /// Frames at a rate, each due at the receiver within the delay.
    ContinuousMedia,
    /// As much as the rate says, in pieces; no piece is urgent.
    BulkData,
    /// Rare, small messages, each due within the delay.
    LowBandwidthTransactions,
    /// Frequent messages, which may come in bursts, each due within the delay.
    HighBandwidthMessages,
}

impl StreamClass {
    /// All classes with the names they have in a contract.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("continuous-media", Self::ContinuousMedia),
        ("bulk-data", Self::BulkData),
        ("low-bandwidth-transactions", Self::LowBandwidthTransactions),
        ("high-bandwidth-messages", Self::HighBandwidthMessages),
    ];
}

/// A stream as somebody wrote it down. [`Stream::new`] makes it valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamSpec {
    /// What people call it.
    pub name: String,
    /// The kind of application.
    pub class: StreamClass,
    /// The least time between two frames (messages, pieces).
    pub frame_period: Duration,
    /// The largest frame in bytes.
    pub frame_size: u32,
    /// Frames that may come at once; 1 where they never do.
    pub burst: u32,
    /// From the moment when a frame is ready at the sender to the moment when its last byte has left.
    pub delay: Duration,
    /// The part of each frame that may be lost, in parts per million.
    pub tolerated_loss_ppm: u32,
    /// The processor time the application itself needs for each PDU.
    pub time_per_pdu: Service,
}

/// A valid stream.
///
/// Guaranteed: a positive period, delay and time per PDU (each at most a day), frames of at least
/// one byte, a burst of at least one, and less than all may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream(StreamSpec);

/// Which rule a [`StreamSpec`] breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// Zero, or above a day.
    #[error("frames every {0}; the time between two must be between 1ns and a day")]
    FramePeriod(Duration),
    /// Nothing to send.
    #[error("the frame is empty; it must have at least 1 byte")]
    EmptyFrame,
    /// No burst, not even of one.
    #[error("the burst is zero frames; it must be at least 1")]
    ZeroBurst,
    /// Zero, or above a day.
    #[error("the delay is {0}; it must be between 1ns and a day")]
    Delay(Duration),
    /// A stream that may be lost as a whole needs nothing.
    #[error("{0} ppm may be lost; less than all of it, 1,000,000 ppm, may")]
    AllLost(u32),
    /// Zero, or above a day.
    #[error("the time per PDU is {0}; it must be between 1ns and a day")]
    TimePerPdu(Service),
}

impl Stream {
    /// Checks `spec`.
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

    /// What people call it.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The name of the channel that admission derives from the stream called `stream`.
    pub fn channel_name_of(stream: &str) -> String {
        alloc::format!("{stream}.channel")
    }

    /// The numbers back, to read and to vary them.
    pub fn spec(&self) -> &StreamSpec {
        &self.0
    }
}
