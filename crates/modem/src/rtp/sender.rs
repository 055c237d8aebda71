//! Samples in, packets out.

use super::SAMPLES_PER_PACKET;
use super::g711::Law;
use super::packet::Packet;

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
