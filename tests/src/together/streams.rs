//! Runs streams among everything else, in one virtual host: frames become ready, their upcalls run
//! among the tasks, and the packets that they hand over are sent above all tasks.

use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant};
use punctual_sim::egress::traffic::{Delays, Message, drawn, greedy};
use punctual_sim::egress::{Costs, Drawn, Exact};
use punctual_sim::streams::{FrameDelays, Sending, Streams, Terms, Working};
use punctual_trace::Summary;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::draw;
use super::run::System;

/// The result for one system with streams.
pub struct KeptStreams {
    /// The number of frames sent.
    pub frames: u64,
    /// For each stream, the largest share of its proven frame bound that was used.
    pub streams: Vec<f64>,
}

/// Draws the system of `seed`, and if it is admitted simulates it four times. Returns `None` if it
/// is not.
///
/// # Errors
/// Returns the broken promise, with the seed that replays it.
pub fn streams_hold(seed: u64) -> Result<Option<KeptStreams>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let Some(system) = System::admitted(draw::system_with_streams(&mut rng)) else {
        return Ok(None);
    };
    let mut kept = KeptStreams { frames: 0, streams: vec![0.0; system.mappings.len()] };
    for round in 0..4 {
        let seen = match round % 2 {
            0 => system.run(Exact, &mut rng),
            _ => {
                let draws = ChaCha8Rng::seed_from_u64(rng.random());
                system.run(Drawn { least_percent: rng.random_range(0..=100), rng: draws }, &mut rng)
            }
        };
        let seen = seen.and_then(|seen| system.keeps(seen, &mut kept));
        seen.map_err(|what| {
            format!("seed {seed}: {what}: {:#?} on {:?}", system.contract, system.host)
        })?;
    }
    Ok(Some(kept))
}

/// The observations of a run.
struct Seen {
    jobs: Summary,
    messages: Delays,
    frames: Vec<FrameDelays>,
}

impl System {
    /// Draws frames that come all at once or at random, from within one upcall period after `first`
    /// on.
    fn streams(&self, (first, last): (Instant, Instant), rng: &mut ChaCha8Rng) -> Streams {
        let at_once = rng.random::<bool>();
        let streams = self.contract.streams.iter().zip(&self.mappings).map(|(stream, mapping)| {
            let spec = stream.spec();
            let frames = LinearBounded::new(1, spec.frame_size, spec.frame_period, spec.burst)
                .expect("mapped");
            let after = match rng.random_range(0..3) {
                0 => 1,
                _ => rng.random_range(0..mapping.upcall.period().as_nanos()),
            };
            let first = first + Duration::from_nanos(after);
            let draws = ChaCha8Rng::seed_from_u64(rng.random());
            let frames: Box<dyn Iterator<Item = Message>> = match at_once {
                true => Box::new(greedy(frames, first).take_while(move |frame| frame.at < last)),
                false => Box::new(drawn(frames, first, draws).take_while(move |f| f.at < last)),
            };
            let batch = mapping.upcall.batch().get();
            let terms = Terms {
                batch,
                pdu_bytes: mapping.channel.arrivals().max_message() / batch,
                tolerated_loss_ppm: spec.tolerated_loss_ppm,
                delay: spec.delay,
            };
            (terms, frames)
        });
        Streams::new(streams)
    }

    fn run(&self, costs: impl Costs, rng: &mut ChaCha8Rng) -> Result<Seen, String> {
        let critical = self.origin();
        let longest = self.contract.streams.iter().map(|stream| stream.spec().delay).max();
        let longest = longest.unwrap_or_default();
        let after = self.for_four_jobs().max(longest * 4);
        let until = critical + after;
        let streams = self.streams((critical, until - longest), rng);
        let of_task: Vec<_> =
            self.contract.tasks.iter().map(|task| self.stream_of(task.name())).collect();
        let of_channel: Vec<_> =
            self.channels.iter().map(|channel| self.stream_of(channel.name())).collect();
        let (jobs, mut messages) =
            (Summary::new(&self.contract.tasks), Delays::new(&self.channels));
        let sink = Sending { streams: &streams, of_channel: &of_channel, sink: &mut messages };
        let mut turns = Working { streams: &streams, of_task: &of_task, sink: jobs };
        let left = self.sending(until, (costs, sink), &streams, rng, |mut thread, _, rng| {
            let late = self.run_tasks(&mut thread, (critical, after), rng, &mut turns);
            (late, thread.finish(until + Duration::from_secs(60)))
        });
        match left {
            (0, 0) => Ok(Seen { jobs: turns.sink, messages, frames: streams.seen() }),
            left => Err(format!("jobs and messages are left: {left:?}")),
        }
    }

    /// Compares the observations with the promises.
    fn keeps(&self, seen: Seen, kept: &mut KeptStreams) -> Result<(), String> {
        let Seen { jobs, messages, frames } = seen;
        for (task, seen) in self.grant.tasks.iter().zip(jobs.tasks()) {
            let longest = seen.response_time.max().unwrap_or_default();
            if seen.late > 0 || longest > task.response_time_bound {
                return Err(format!("task {} took {longest}", task.name));
            }
        }
        for (&at, seen) in self.ranked.iter().zip(&messages.channels) {
            let channel = &self.grant.channels[at];
            let broken = (seen.late, seen.refused, seen.not_conforming) != (0, 0, 0);
            if broken || seen.longest > channel.proven_delay {
                return Err(format!("channel {}: {seen:?}", channel.name));
            }
        }
        for ((mapping, seen), worst) in self.mappings.iter().zip(&frames).zip(&mut kept.streams) {
            let mut channels = self.grant.channels.iter();
            let channel = channels.find(|channel| channel.name == mapping.channel.name());
            let channel = channel.ok_or("a stream without its channel")?;
            let proven = mapping.processing_delay + channel.proven_delay;
            if seen.late > 0 || seen.longest > proven || seen.ready != seen.sent {
                return Err(format!("stream {}: {seen:?}, proven {proven}", mapping.stream));
            }
            if seen.ready == 0 {
                return Err(format!("stream {}: no frame", mapping.stream));
            }
            kept.frames += seen.sent;
            *worst = worst.max(seen.longest.as_nanos() as f64 / proven.as_nanos() as f64);
        }
        Ok(())
    }
}
