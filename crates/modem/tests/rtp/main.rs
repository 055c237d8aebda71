//! RTP as it comes from a network: lost, late, twice, in any order, or from somebody hostile.

mod jitter;
mod sequence;
mod stream;
