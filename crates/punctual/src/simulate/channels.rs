//! Runs the channels on their egress scheduler and its link, below the reservations of their CPU.

use std::cell::Cell;

use punctual_analysis::channel::deadline_monotonic;
use punctual_analysis::channel::egress::Egress;
use punctual_analysis::{Grant, Refusal};
use punctual_model::channel::{BestEffort, Channel, LinearBounded, Policing, Route};
use punctual_model::{Contract, Duration, Instant};
use punctual_sim::egress::traffic::{Backlog, Delays, Message};
use punctual_sim::egress::{Costs, Drawn, Exact, Held, Server, Setup, traffic};
use punctual_sim::processor::Processor;
use punctual_sim::streams::Sending as OfStreams;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use super::arrivals::{Draws, Purpose, source};
use super::options::{ExecTimes, Options, Pattern};
use super::streams::Streams;

/// The egress scheduler of a contract, and the largest best-effort messages.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) egress: Egress,
    pub(super) best_effort: BestEffort,
}

/// The outcome of one channel.
#[derive(Clone, Debug, Serialize)]
pub struct ChannelOutcome {
    /// The name in the contract.
    pub name: String,
    /// The CPU on which its messages are sent.
    pub cpu: u16,
    /// The rank of the channel; 0 is the most urgent.
    pub rank: usize,
    /// The number of messages from its source.
    pub messages: u64,
    /// The number of messages that took longer than the delay bound.
    pub late: u64,
    /// The number of messages for which there was no memory.
    pub refused: u64,
    /// The number of messages that came too early and were held back.
    pub not_conforming: u64,
    /// The number of messages that came too early and were discarded.
    pub too_early: u64,
    /// The number of messages that had not left long after the last one came.
    pub not_sent: u64,
    /// The longest delay from logical arrival to the end of the transmission; null if nothing was
    /// sent.
    pub max_delay_ns: Option<u64>,
    /// The proven delay; null if admission proved none.
    pub proven_delay_ns: Option<u64>,
    /// The delay bound in the contract.
    pub delay_bound_ns: u64,
    /// Whether its sender exceeds its declared traffic.
    #[serde(skip)]
    pub floods: bool,
}

impl ChannelOutcome {
    /// Returns the number of messages for which the promise was broken. If the sender exceeds its
    /// traffic, only messages that were accepted count.
    pub fn broken(&self) -> u64 {
        let lost = self.refused + self.too_early + self.not_sent;
        self.late + if self.floods { 0 } else { lost }
    }
}

/// The most packets of a channel for which there is memory.
const MOST_PACKETS: u64 = 1 << 20;

/// The channels of a contract by rank, with the observations of a run.
pub(super) struct Channels {
    /// The position of each channel in the contract.
    order: Vec<usize>,
    channels: Vec<Channel>,
    held: Vec<Held>,
    /// The actual traffic of each channel.
    comes: Vec<LinearBounded>,
    /// The stream that each channel sends, if there is one.
    streams: Vec<Option<usize>>,
    egress: Egress,
    backlogs: Vec<Backlog>,
    cpu: u16,
    until: Duration,
    /// The number of messages from each source.
    came: Vec<Cell<u64>>,
    seen: Delays,
}

/// The thread that sends, on the processor time that higher layers leave.
pub(super) type Thread<'a, P> = Server<
    'a,
    P,
    Box<dyn Iterator<Item = Message> + 'a>,
    Box<dyn Costs>,
    OfStreams<'a, &'a mut Delays>,
>;

impl Channels {
    /// Makes the channels of `contract`, some of which send `streams`, without observations.
    pub(super) fn of(
        options: &Options,
        contract: &Contract,
        sender: &Sending,
        streams: &Streams<'_>,
    ) -> Self {
        let order = deadline_monotonic(&contract.channels);
        let ranked = order.iter().map(|&at| contract.channels[at].clone());
        let channels: Vec<Channel> = ranked.collect();
        let held = |channel: &Channel| {
            let route = contract.routes.iter().find(|route| route.channel == channel.name());
            let held =
                |route: &Route| Held { too_early: route.too_early, policing: route.policing };
            route.map(held).unwrap_or_default()
        };
        let comes = |channel: &Channel| options.flooded(channel.name(), channel.arrivals());
        Self {
            held: channels.iter().map(held).collect(),
            comes: channels.iter().map(comes).collect(),
            order,
            egress: sender.egress,
            backlogs: backlog(sender.best_effort).into_iter().collect(),
            cpu: contract.cpus - 1,
            until: options.until,
            came: channels.iter().map(|_| Cell::new(0)).collect(),
            seen: Delays::new(&channels),
            streams: streams.of_channels(&channels),
            channels,
        }
    }

    /// Returns the thread that sends their messages. These come from `first` on for as long as
    /// tasks are released, and from the upcalls of `streams`.
    pub(super) fn thread<'a, P: Processor>(
        &'a mut self,
        options: &Options,
        first: Instant,
        processor: P,
        streams: &'a Streams<'_>,
    ) -> Thread<'a, P> {
        let streams = streams.coupled();
        let Self {
            channels, held, comes, egress, backlogs, came, seen, streams: of_channel, ..
        } = self;
        let draws = Draws { seed: options.draws_from(), cpu: self.cpu };
        let mut rng = draws.rng(Purpose::Messages);
        let last = Instant::ZERO.saturating_add(options.until);
        let sources = comes.iter().zip(&*held).zip(&*came).zip(&*of_channel);
        let sources = sources.map(|(((comes, held), came), stream)| {
            let messages: Box<dyn Iterator<Item = Message>> = match *stream {
                Some(stream) => Box::new(streams.handed_over(stream)),
                None => {
                    let messages = held_source(options.pattern(), *comes, *held, first, &mut rng);
                    Box::new(messages.take_while(move |message| message.at < last))
                }
            };
            let counted = messages.inspect(|_| came.set(came.get() + 1));
            Box::new(counted) as Box<dyn Iterator<Item = Message>>
        });
        let sources = sources.collect();
        let pace = egress.pace().unwrap_or(Duration::ZERO);
        let setup = Setup {
            link: egress.link(),
            cut: egress.cut(),
            per_packet: egress.per_packet(),
            pace,
            // A wake-up that is later than the pace is not made up for.
            wakes_within: egress.allowance().min(pace),
            channels,
            held,
            room: room(egress, channels),
            backlogs,
        };
        let costs: Box<dyn Costs> = match options.exec_times() {
            ExecTimes::Worst => Box::new(Exact),
            ExecTimes::Drawn => {
                Box::new(Drawn { least_percent: 0, rng: draws.rng(Purpose::SendCosts) })
            }
        };
        let seen = OfStreams { streams, of_channel, sink: seen };
        Server::new(setup, processor, sources, costs, seen)
    }

    /// Returns the time by which all messages have left, unless they never do. It allows another
    /// length of the run for the delays of an overload.
    pub(super) fn end(&self) -> Instant {
        let slack = self.channels.iter().map(|channel| {
            let early = channel.arrivals().jitter().unwrap_or_default();
            channel.delay_bound().saturating_add(early)
        });
        let twice = Instant::ZERO.saturating_add(self.until).saturating_add(self.until);
        twice.saturating_add(slack.max().unwrap_or_default())
    }

    /// Returns the outcome of each channel, the most urgent first.
    pub(super) fn outcomes(self, answer: &Result<Grant, Box<Refusal>>) -> Vec<ChannelOutcome> {
        let outcome = |(rank, &at): (usize, &usize)| {
            let (seen, messages) = (self.seen.channels[rank], self.came[rank].get());
            let proven = match answer {
                Ok(grant) => Some(grant.channels[at].proven_delay),
                Err(refusal) => refusal.channels.get(at).and_then(|channel| channel.bound),
            };
            ChannelOutcome {
                name: self.channels[rank].name().to_owned(),
                cpu: self.cpu,
                rank,
                messages,
                late: seen.late,
                refused: seen.refused,
                not_conforming: seen.not_conforming,
                too_early: seen.too_early,
                not_sent: messages.saturating_sub(seen.sent + seen.refused + seen.too_early),
                max_delay_ns: (seen.sent > 0).then(|| seen.longest.as_nanos()),
                proven_delay_ns: proven.map(Duration::as_nanos),
                delay_bound_ns: seen.delay_bound.as_nanos(),
                floods: self.comes[rank] != self.channels[rank].arrivals(),
            }
        };
        self.order.iter().enumerate().map(outcome).collect()
    }
}

/// Returns the messages of `traffic` in this pattern, for a channel that is policed as `held` says.
fn held_source(
    pattern: Pattern,
    traffic: LinearBounded,
    held: Held,
    first: Instant,
    rng: &mut ChaCha8Rng,
) -> Box<dyn Iterator<Item = Message>> {
    let Policing::Credits(sensitivity) = held.policing else {
        return source(pattern, traffic, first, rng);
    };
    match pattern {
        Pattern::Bursty | Pattern::Adversarial => {
            Box::new(traffic::credited(traffic, sensitivity, first))
        }
        Pattern::Periodic | Pattern::Sporadic => {
            // A burst can pass only at the border of two intervals.
            let (least, most) = (traffic.min_message(), traffic.max_message());
            let apart = LinearBounded::new(least, most, traffic.min_inter_arrival(), 1);
            source(pattern, apart.unwrap_or(traffic), first, rng)
        }
    }
}

/// Returns a backlog of the largest best-effort messages, one after the other.
fn backlog(best_effort: BestEffort) -> Option<Backlog> {
    let bytes = best_effort.most()?;
    Some(Backlog { bytes, first: Instant::ZERO, pause: Duration::ZERO })
}

/// Returns the most messages inside at once, over all channels that keep their delay bounds.
/// Admission provides memory for that many.
fn room(egress: &Egress, channels: &[Channel]) -> u32 {
    let messages = channels.iter().map(|channel| {
        let traffic = channel.arrivals();
        let held = traffic.jitter().unwrap_or(Duration::MAX).saturating_add(channel.delay_bound());
        (held / traffic.min_inter_arrival()).saturating_add(1)
    });
    let packets =
        |channel: &Channel| u64::from(egress.cut().packets_of(channel.arrivals().max_message()));
    let largest = channels.iter().map(packets).max().unwrap_or(1).max(1);
    let most = (MOST_PACKETS / largest).max(1);
    u32::try_from(messages.max().unwrap_or(1).min(most)).unwrap_or(u32::MAX)
}
