//! Runs the streams: their frames, the jobs of their upcalls, and the messages that these hand over
//! to their channels.

use punctual_analysis::Grant;
use punctual_analysis::mapping::Mapping;
use punctual_model::channel::{Channel, LinearBounded};
use punctual_model::{Contract, Duration, Instant, Task};
use punctual_sim::arrivals::Arrivals;
use punctual_sim::egress::traffic::Message;
use punctual_sim::streams::{Streams as Coupled, Terms, Turns};
use serde::Serialize;

use super::arrivals::{self, Draws, Purpose, source};
use super::options::{Options, Pattern};

/// The outcome of one stream.
#[derive(Clone, Debug, Serialize)]
pub struct StreamOutcome {
    /// The name in the contract.
    pub name: String,
    /// The number of frames that became ready.
    pub frames: u64,
    /// The number of frames that took longer than the stream's delay.
    pub late: u64,
    /// The number of frames that had not left long after the last one became ready.
    pub not_sent: u64,
    /// The longest delay from the time when a frame is ready to the end of its last packet.
    pub max_delay_ns: Option<u64>,
    /// The proven delay; null if admission proved none.
    pub proven_delay_ns: Option<u64>,
    /// The delay that the contract allows.
    pub delay_ns: u64,
    /// Whether more frames come than the contract declares.
    #[serde(skip)]
    pub floods: bool,
}

impl StreamOutcome {
    /// Returns the number of frames for which the promise was broken.
    pub fn broken(&self) -> u64 {
        if self.floods { 0 } else { self.late + self.not_sent }
    }
}

/// The streams of a contract, between their upcalls and their channels.
pub(super) struct Streams<'a> {
    mappings: &'a [Mapping],
    delays: Vec<Duration>,
    /// The time at which the first frames become ready, or shortly before it.
    first: Instant,
    coupled: Coupled,
}

impl<'a> Streams<'a> {
    /// Makes the streams of the expanded `contract` from their `mappings`. The last frames become
    /// ready early enough to be processed while tasks are still released.
    pub(super) fn of(options: &Options, contract: &Contract, mappings: &'a [Mapping]) -> Self {
        let tasks = &contract.tasks;
        let blocker = arrivals::longest_quantum(tasks);
        let first = Instant::ZERO + arrivals::critical(options, tasks, blocker);
        let mut rng = Draws { seed: options.draws_from(), cpu: 0 }.rng(Purpose::Frames);
        let streams = contract.streams.iter().zip(mappings).map(|(stream, mapping)| {
            let (spec, batch) = (stream.spec(), mapping.upcall.batch().get());
            let frames = LinearBounded::new(1, spec.frame_size, spec.frame_period, spec.burst)
                .expect("mapped, so its frames are bounded");
            let frames = options.flooded(stream.name(), frames);
            // An adversarial frame becomes ready just after a job has looked for frames.
            let after = Duration::from_nanos(u64::from(options.pattern() == Pattern::Adversarial));
            let frames = source(options.pattern(), frames, first + after, &mut rng);
            let last = Instant::ZERO + options.until.saturating_sub(spec.delay);
            let frames = frames.take_while(move |frame| frame.at < last);
            let terms = Terms {
                batch,
                pdu_bytes: mapping.channel.arrivals().max_message() / batch,
                tolerated_loss_ppm: spec.tolerated_loss_ppm,
                delay: spec.delay,
            };
            (terms, Box::new(frames) as Box<dyn Iterator<Item = Message>>)
        });
        let delays = contract.streams.iter().map(|stream| stream.spec().delay).collect();
        Self { mappings, delays, first, coupled: Coupled::new(streams) }
    }

    pub(super) fn coupled(&self) -> &Coupled {
        &self.coupled
    }

    /// Returns the stream that each of `tasks` processes, if there is one.
    pub(super) fn of_tasks(&self, tasks: &[Task]) -> Vec<Option<usize>> {
        let at = |task: &Task| self.mappings.iter().position(|it| it.upcall.name() == task.name());
        tasks.iter().map(at).collect()
    }

    /// Returns the stream that each of `channels` sends, if there is one.
    pub(super) fn of_channels(&self, channels: &[Channel]) -> Vec<Option<usize>> {
        let at = |channel: &Channel| {
            self.mappings.iter().position(|it| it.channel.name() == channel.name())
        };
        channels.iter().map(at).collect()
    }

    /// Returns the arrivals of `tasks`, linked to the frames of their streams.
    pub(super) fn turns<A: Arrivals>(&self, tasks: &[Task], arrivals: A) -> Turns<A> {
        let streams = self.of_tasks(tasks);
        let period = |(task, stream): (&Task, &Option<usize>)| {
            stream.is_some().then(|| task.min_inter_arrival())
        };
        Turns::new(arrivals, tasks.iter().zip(&streams).map(period), self.first)
    }

    /// Returns the outcome of each stream.
    pub(super) fn outcomes(self, options: &Options, grant: Option<&Grant>) -> Vec<StreamOutcome> {
        let seen = self.coupled.seen();
        let outcome = |((mapping, delay), seen): ((&Mapping, Duration), _)| {
            let punctual_sim::streams::FrameDelays { ready, sent, late, longest } = seen;
            let channel = grant.and_then(|grant| {
                grant.channels.iter().find(|channel| channel.name == mapping.channel.name())
            });
            let proven = channel.map(|channel| mapping.processing_delay + channel.proven_delay);
            StreamOutcome {
                name: mapping.stream.clone(),
                frames: ready,
                late,
                not_sent: ready - sent,
                max_delay_ns: (sent > 0).then(|| longest.as_nanos()),
                proven_delay_ns: proven.map(Duration::as_nanos),
                delay_ns: delay.as_nanos(),
                floods: options.flood.iter().any(|flood| flood.name == mapping.stream),
            }
        };
        self.mappings.iter().zip(self.delays).zip(seen).map(outcome).collect()
    }
}
