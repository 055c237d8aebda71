//! RTP as a network delivers it: lost, late, duplicated, reordered, or hostile.

mod jitter;
mod sequence;
mod stream;
