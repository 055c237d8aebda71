//! A telephone line over UDP: RTP (RFC 3550) with G.711 audio (RFC 3551), 20 ms a packet.
//!
//! - [`packet`]: headers, parsed and written.
//! - [`g711`]: 8-bit samples, µ-law and A-law.
//! - [`sequence`]: decides which packets belong to the stream (RFC 3550 A.1).
//! - [`jitter`]: plays packets at the pace of the local clock, whenever they come.
//! - [`Receiver`], [`Sender`]: all of these together, one for each direction.
//!
//! [`crate::trunk`] builds calls on it. Pure: `now` in, samples out. Nothing here opens a socket,
//! and only the packets that [`Sender`] fills are allocated after creation.

pub mod g711;
pub mod jitter;
pub mod packet;
pub mod sequence;

use punctual_model::{Duration, Instant};

use jitter::{JitterBuffer, JitterStats};
use packet::{Packet, PacketError};
use sequence::{Sequence, Verdict};

pub use g711::Law;

/// Samples in a packet: 20 ms (RFC 3551 §4.2).
pub const SAMPLES_PER_PACKET: usize = 160;

/// The silence of a source after which another may replace it.
const SOURCE_MEMORY: Duration = Duration::from_secs(2);

/// The sending end of a line over RTP.
#[derive(Clone, Debug)]
pub struct Sender {
    law: Law,
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
    first: bool,
    payload: [u8; SAMPLES_PER_PACKET],
    filled: usize,
}

impl Sender {
    /// Creates a sender whose source, first sequence number and first timestamp come from `random`,
    /// as RFC 3550 §5.1 requires.
    pub fn new(law: Law, random: [u32; 3]) -> Self {
        let [ssrc, sequence, timestamp] = random;
        Self {
            law,
            ssrc,
            sequence: sequence as u16,
            timestamp,
            first: true,
            payload: [0; SAMPLES_PER_PACKET],
            filled: 0,
        }
    }

    /// Takes a sample; when it completes a packet, writes that to `into` and returns true.
    pub fn sample(&mut self, sample: i16, into: &mut Vec<u8>) -> bool {
        self.payload[self.filled] = self.law.encode(sample);
        self.filled += 1;
        if self.filled < SAMPLES_PER_PACKET {
            return false;
        }
        into.clear();
        Packet {
            marker: self.first,
            payload_type: self.law.payload_type(),
            sequence: self.sequence,
            timestamp: self.timestamp,
            ssrc: self.ssrc,
            payload: &self.payload,
        }
        .write(into);
        self.first = false;
        self.filled = 0;
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(SAMPLES_PER_PACKET as u32);
        true
    }
}

/// The reason why a packet was not played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The bytes are no RTP packet.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// The payload is not G.711.
    #[error("payload type {0} is neither 0 (µ-law) nor 8 (A-law): the far end must send G.711")]
    PayloadType(u8),
    /// The packet comes from another source than the current one.
    #[error("a packet of source {found:08x} while {expected:08x} is received")]
    Source {
        /// The source of the packet.
        found: u32,
        /// The current source.
        expected: u32,
    },
    /// The packet is the first of a source, or far from any expected one.
    #[error("sequence number {0} is not believed before the next one follows it")]
    NotBelieved(u16),
}

/// The packet counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverStats {
    /// Packets given to the jitter buffer.
    pub accepted: u64,
    /// Packets refused, for any reason.
    pub refused: u64,
    /// Packets of the present stream missing so far, minus duplicates (RFC 3550 A.3).
    pub lost: i64,
    /// Interarrival jitter, in samples (RFC 3550 A.8).
    pub jitter: u32,
    /// The counters of the jitter buffer.
    pub played: JitterStats,
}

/// The receiving end of a line over RTP.
#[derive(Clone, Debug)]
pub struct Receiver {
    source: Option<(u32, Instant)>,
    sequence: Sequence,
    buffer: JitterBuffer,
    accepted: u64,
    refused: u64,
    /// Transit time of the last packet modulo 2³², and the jitter in sixteenths of a sample.
    transit: Option<u32>,
    jitter: u32,
}

impl Receiver {
    /// Creates a receiver that plays samples `delay` samples after the first packet came.
    pub fn new(delay: u32) -> Self {
        Self {
            source: None,
            sequence: Sequence::default(),
            buffer: JitterBuffer::new(delay),
            accepted: 0,
            refused: 0,
            transit: None,
            jitter: 0,
        }
    }

    /// Takes a packet that came at `now`.
    pub fn packet(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Refused> {
        let outcome = self.judge(now, bytes);
        match outcome {
            Ok(()) => self.accepted += 1,
            Err(_) => self.refused += 1,
        }
        outcome
    }

    fn judge(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Refused> {
        let packet = Packet::parse(bytes)?;
        let law = Law::of_payload_type(packet.payload_type)
            .ok_or(Refused::PayloadType(packet.payload_type))?;
        match self.source {
            Some((ssrc, _)) if ssrc == packet.ssrc => {}
            Some((ssrc, last)) if now.saturating_since(last) < SOURCE_MEMORY => {
                return Err(Refused::Source { found: packet.ssrc, expected: ssrc });
            }
            _ => {
                self.sequence = Sequence::default();
                self.buffer.restart();
                self.transit = None;
            }
        }
        match self.sequence.packet(packet.sequence) {
            Verdict::Probation | Verdict::Jump => {
                // A source occupies the line only once it is validated.
                if self.sequence.is_valid() || self.source.is_none_or(|(s, _)| s != packet.ssrc) {
                    self.source = Some((packet.ssrc, now));
                }
                return Err(Refused::NotBelieved(packet.sequence));
            }
            Verdict::Begins { .. } => self.buffer.restart(),
            Verdict::Next { .. } | Verdict::Earlier { .. } => {}
        }
        self.source = Some((packet.ssrc, now));
        self.measure(now, packet.timestamp);
        self.buffer.put(packet.timestamp, packet.payload.iter().map(|&byte| law.decode(byte)));
        Ok(())
    }

    /// Fills `into` with the next samples.
    pub fn play(&mut self, into: &mut [i16]) {
        self.buffer.play(into);
    }

    /// Returns the time at which the source's last packet came: a line without packets for long is
    /// dead.
    pub fn last_received(&self) -> Option<Instant> {
        self.source.map(|(_, last)| last)
    }

    /// Returns the current source (SSRC), validated or on trial.
    pub fn source(&self) -> Option<u32> {
        self.source.map(|(source, _)| source)
    }

    /// Returns the packet counters.
    pub fn stats(&self) -> ReceiverStats {
        ReceiverStats {
            accepted: self.accepted,
            refused: self.refused,
            lost: self.sequence.lost(),
            jitter: self.jitter / 16,
            played: self.buffer.stats(),
        }
    }

    /// Updates the jitter (A.8): the difference of transit times, smoothed by a sixteenth.
    fn measure(&mut self, now: Instant, timestamp: u32) {
        let arrival = u128::from(now.as_nanos()) * u128::from(crate::SAMPLE_RATE) / 1_000_000_000;
        let transit = (arrival as u32).wrapping_sub(timestamp);
        if let Some(last) = self.transit.replace(transit) {
            // A hostile timestamp moves it by a minute at most.
            let difference = (transit.wrapping_sub(last) as i32).unsigned_abs().min(480_000);
            self.jitter = self.jitter + difference - ((self.jitter + 8) >> 4);
        }
    }
}
