//! Streams through their upcall and channel, both as late as permitted: the delay holds, the
//! messages conform, and nothing overflows. Brute force in integers; it shares no formula with the
//! mapping.

use std::collections::VecDeque;

use crate::common::{draw, sender, stream};
use punctual_analysis::mapping::{Mapping, map};
use punctual_model::{Service, Stream, StreamSpec};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// How adverse the behaviour is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// The largest frames as early as declared, just after a release, and everything else as late
    /// as permitted.
    Worst,
    /// Anything that is permitted, with a preference for extremes.
    Random,
}

struct Frame {
    ready: u64,
    bytes: u32,
    pdus_left: u32,
    handed_over: u64,
}

/// A message: the instants of its handover, its logical arrival and its end of transmission, the
/// last frame that it completes, and its bytes.
struct Message {
    at: u64,
    logical: u64,
    left: u64,
    ends: Vec<usize>,
    bytes: u32,
}

struct Run<'a> {
    spec: &'a StreamSpec,
    packet: u32,
    mapping: &'a Mapping,
    manner: Manner,
}

impl Run<'_> {
    /// Draws frames that keep `b + ⌊δ/F⌋` in every closed `δ`: each is at least `F` after the one
    /// `b` before.
    fn frames(&self, rng: &mut ChaCha8Rng, count: usize) -> Vec<Frame> {
        let (every, burst) = (self.spec.frame_period.as_nanos(), self.spec.burst as usize);
        let mut frames: Vec<Frame> = Vec::new();
        // Tokens: the logical arrival may be at most (b − 1)·F ahead.
        let mut logical = 0;
        let mut at = 1;
        for _ in 0..count {
            let earliest = (logical + every).saturating_sub(burst as u64 * every).max(at);
            let pause = match (self.manner, draw(rng, 0, 3)) {
                (Manner::Worst, _) | (_, 0..=1) => 0,
                (_, 2) => draw(rng, 0, every),
                _ => draw(rng, 0, 3 * every * burst as u64),
            };
            at = earliest + pause;
            logical = logical.max(at) + every;
            let bytes = match (self.manner, draw(rng, 0, 1)) {
                (Manner::Worst, _) | (_, 0) => self.spec.frame_size,
                _ => draw(rng, 1, self.spec.frame_size.into()) as u32,
            };
            let pdus = bytes.div_ceil(self.packet);
            let lost = u64::from(pdus) * u64::from(self.spec.tolerated_loss_ppm) / 1_000_000;
            let pdus_left = pdus - lost as u32;
            frames.push(Frame { ready: at, bytes, pdus_left, handed_over: u64::MAX });
        }
        frames
    }

    /// Processes the frames turn by turn: PDUs that waited at some instant of a turn are taken, in
    /// order, at its end.
    fn work_off(&self, rng: &mut ChaCha8Rng, frames: &mut [Frame]) -> Vec<(u64, Vec<usize>, u32)> {
        let (period, batch) =
            (self.mapping.upcall.period().as_nanos(), self.mapping.upcall.batch().get());
        let mut messages = Vec::new();
        let (mut next, mut release) = (0, 0);
        while next < frames.len() {
            let (looks, ends) = match (self.manner, draw(rng, 0, 3)) {
                (Manner::Worst, _) | (_, 0) => (release, release + period),
                (_, 1) => (release + period, release + period),
                (_, 2) => (release, release + 1),
                _ => {
                    let ends = draw(rng, release + 1, release + period);
                    (draw(rng, release, ends), ends)
                }
            };
            let (mut left, mut done, mut bytes) = (batch, Vec::new(), 0);
            while left > 0 && next < frames.len() && frames[next].ready <= looks {
                let frame = &mut frames[next];
                let taken = frame.pdus_left.min(left);
                (left, frame.pdus_left) = (left - taken, frame.pdus_left - taken);
                bytes += taken * self.packet.min(self.spec.frame_size);
                if frame.pdus_left == 0 {
                    frame.handed_over = ends;
                    done.push(next);
                    next += 1;
                }
            }
            if left < batch {
                messages.push((ends, done, bytes));
            }
            release += period;
        }
        messages
    }

    /// Sends each message no later than its logical arrival and its bound, in order.
    fn send(&self, rng: &mut ChaCha8Rng, handed: Vec<(u64, Vec<usize>, u32)>) -> Vec<Message> {
        let spacing = self.mapping.channel.arrivals().min_inter_arrival().as_nanos();
        let bound = self.mapping.channel.delay_bound().as_nanos();
        let (mut next_logical, mut last_left) = (0, 0);
        let mut messages = Vec::new();
        for (at, ends, bytes) in handed {
            let logical = at.max(next_logical);
            next_logical = logical + spacing;
            let late = match (self.manner, draw(rng, 0, 2)) {
                (Manner::Worst, _) | (_, 0) => bound,
                _ => draw(rng, 0, bound),
            };
            last_left = (logical + late).max(last_left);
            messages.push(Message { at, logical, left: last_left, ends, bytes });
        }
        messages
    }

    /// Checks one run, and returns the longest delay.
    fn check(&self, frames: &[Frame], messages: &[Message], what: &str) -> u64 {
        let (arrivals, buffers) = (self.mapping.channel.arrivals(), self.mapping.buffers);
        let jitter = arrivals.jitter().expect("small").as_nanos();
        let mut longest = 0;
        for message in messages {
            assert!(message.bytes <= arrivals.max_message(), "{what}: a message too large");
            assert!(message.logical - message.at <= jitter, "{what}: not conforming");
            for &frame in &message.ends {
                longest = longest.max(message.left - frames[frame].ready);
            }
        }
        assert!(longest <= self.spec.delay.as_nanos(), "{what}: {longest} of {}", self.spec.delay);
        // The frames present at each arrival: those that came by then and are not gone before.
        let mut waiting: VecDeque<&Frame> = VecDeque::new();
        for frame in frames {
            waiting.push_back(frame);
            waiting.retain(|other| other.handed_over >= frame.ready);
            assert!(waiting.len() as u64 <= buffers.frames, "{what}: too many frames");
        }
        let mut sending: VecDeque<&Message> = VecDeque::new();
        for message in messages {
            sending.push_back(message);
            sending.retain(|other| other.left >= message.at);
            assert!(sending.len() as u64 <= buffers.messages, "{what}: too many messages");
        }
        let kept = buffers.frames * u64::from(self.spec.frame_size)
            + buffers.messages * u64::from(arrivals.max_message());
        assert_eq!(buffers.bytes, kept, "{what}");
        assert!(frames.iter().all(|frame| frame.bytes <= self.spec.frame_size));
        longest
    }

    fn play(&self, rng: &mut ChaCha8Rng, frames: usize, what: &str) -> u64 {
        let mut frames = self.frames(rng, frames);
        let handed = self.work_off(rng, &mut frames);
        let messages = self.send(rng, handed);
        self.check(&frames, &messages, what)
    }
}

#[test]
fn the_delay_holds_and_buffers_do_not_overflow() {
    let (mut played, mut tight, mut several, mut spaced) = (0, 0, 0, 0);
    for seed in 0..20_000 {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let (sender, spec, switch) =
            (sender(rng), stream(rng), Service::from_nanos(draw(rng, 0, 9)));
        let Ok(mapping) = map(&Stream::new(spec.clone()).expect("valid"), &sender, switch) else {
            continue;
        };
        let packet = sender.packetisation.packet_bytes();
        let run = Run { spec: &spec, packet, mapping: &mapping, manner: Manner::Random };
        run.play(rng, 60, &format!("seed {seed}, {spec:?}"));
        let worst = Run { manner: Manner::Worst, ..run };
        let longest = worst.play(rng, 60, &format!("seed {seed}, worst, {spec:?}"));
        played += 1;
        several += u32::from(mapping.turns_per_frame > 1);
        spaced +=
            u32::from(mapping.channel.arrivals().min_inter_arrival() > mapping.upcall.period());
        // A nanosecond after a release is the worst case, if no turn has room to spare.
        let full = mapping.turns_per_frame * mapping.upcall.batch().get() == mapping.pdus_sent;
        if full && mapping.upcall.period().as_nanos() > 1 {
            assert_eq!(longest, spec.delay.as_nanos() - 1, "seed {seed}: not attained, {spec:?}");
            tight += 1;
        }
    }
    let enough = played > 8_000 && tight > 3_000 && several > 1_000 && spaced > 1_000;
    assert!(enough, "{played} {tight} {several} {spaced}");
}
