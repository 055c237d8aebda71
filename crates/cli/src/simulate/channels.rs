//! The channels with their handlers and their link, beneath the reservations of their CPU.

use std::cell::Cell;

use punctual_analysis::channel::deadline_monotonic;
use punctual_analysis::{Grant, Refusal};
use punctual_model::channel::{Channel, LinearBounded, Sender};
use punctual_model::{Contract, Duration, Instant, Reservation};
use punctual_policy::link::ServiceOrder;
use punctual_sim::link::sink::Delays;
use punctual_sim::link::sources::{self, Backlog, Hog, HogPattern, Message};
use punctual_sim::link::{self, Setup};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use serde::Serialize;

use super::arrivals::{Draws, Purpose};
use super::options::{Args, ExecTimes, Pattern};

/// What became of one channel.
#[derive(Serialize)]
pub(super) struct ChannelOutcome {
    pub(super) name: String,
    pub(super) cpu: u16,
    /// 0 is the most urgent.
    pub(super) rank: usize,
    /// Messages that came from its source.
    pub(super) messages: u64,
    /// Those that took longer than the delay bound.
    pub(super) late: u64,
    /// Those for which there was no memory.
    pub(super) refused: u64,
    /// Those that had not left long after the last came.
    pub(super) not_sent: u64,
    /// From logical arrival to the end of the transmission.
    pub(super) max_delay_ns: Option<u64>,
    /// Null: admission proved none.
    pub(super) proven_delay_ns: Option<u64>,
    pub(super) delay_bound_ns: u64,
}

impl ChannelOutcome {
    /// Messages for which the promise was not kept.
    pub(super) fn broken(&self) -> u64 {
        self.late + self.refused + self.not_sent
    }
}

/// The most packets for which there is memory, of each channel.
const MOST_PACKETS: u64 = 1 << 20;

/// Before the first message best effort has begun.
const LEAD: Duration = Duration::from_millis(1);

/// Runs the channels of `contract` as long as its tasks, in the order of their ranks.
pub(super) fn run(
    args: &Args,
    contract: &Contract,
    sender: &Sender,
    answer: &Result<Grant, Box<Refusal>>,
) -> Vec<ChannelOutcome> {
    let cpu = contract.cpus - 1;
    let draws = Draws { seed: args.draws_from(), cpu };
    let order = deadline_monotonic(&contract.channels);
    let channels: Vec<Channel> = order.iter().map(|&at| contract.channels[at].clone()).collect();
    let here = |at: usize| answer.as_ref().map_or(0, |grant| grant.reservations[at].cpu) == cpu;
    let reservations = contract.reservations.iter().enumerate().filter(|(at, _)| here(*at));
    let above: Vec<Reservation> =
        reservations.map(|(_, named)| named.reservation).chain(args.stolen).collect();
    let longest = above.iter().map(|one| one.period()).max().unwrap_or_default();
    let first = Instant::ZERO + longest.max(LEAD);
    let last = first.saturating_add(args.until);

    let mut rng = draws.rng(Purpose::Messages);
    let came: Vec<Cell<u64>> = channels.iter().map(|_| Cell::new(0)).collect();
    let sources = channels.iter().zip(&came).map(|(channel, came)| {
        let messages = source(args.pattern(), channel.arrivals(), first, &mut rng);
        let messages = messages.take_while(move |message| message.at < last);
        messages.inspect(|_| came.set(came.get() + 1))
    });
    let sources = sources.collect();
    let hogs: Vec<Hog> =
        above.iter().map(|&one| hog(args.pattern(), one, first, &mut rng)).collect();
    let backlog = backlog(sender);
    let setup = Setup {
        sender,
        channels: &channels,
        order: ServiceOrder::Rank,
        room: room(sender, &channels),
        backlogs: backlog.as_slice(),
        hogs: &hogs,
    };
    // As long again for what an overload delays; a hog may take all of the CPU.
    let slack = channels.iter().map(|channel| {
        let early = channel.arrivals().jitter().unwrap_or_default();
        channel.delay_bound().saturating_add(early)
    });
    let end = last.saturating_add(args.until).saturating_add(slack.max().unwrap_or_default());
    let mut seen = Delays::new(&channels);
    // What happened on processor and link is not asked for.
    let _ = match args.exec_times() {
        ExecTimes::Worst => link::run(&setup, sources, link::Exact, end, &mut seen),
        ExecTimes::Drawn => {
            let costs = link::Drawn { least_percent: 0, rng: draws.rng(Purpose::SendCosts) };
            link::run(&setup, sources, costs, end, &mut seen)
        }
    };
    let outcome = |(rank, &at): (usize, &usize)| {
        let (seen, messages) = (seen.channels[rank], came[rank].get());
        let proven = match answer {
            Ok(grant) => Some(grant.channels[at].proven_delay),
            Err(refusal) => refusal.channels.get(at).and_then(|channel| channel.bound),
        };
        ChannelOutcome {
            name: channels[rank].name().to_owned(),
            cpu,
            rank,
            messages,
            late: seen.late,
            refused: seen.refused,
            not_sent: messages.saturating_sub(seen.sent + seen.refused),
            max_delay_ns: (seen.sent > 0).then(|| seen.longest.as_nanos()),
            proven_delay_ns: proven.map(Duration::as_nanos),
            delay_bound_ns: seen.delay_bound.as_nanos(),
        }
    };
    order.iter().enumerate().map(outcome).collect()
}

fn source(
    pattern: Pattern,
    traffic: LinearBounded,
    first: Instant,
    rng: &mut ChaCha8Rng,
) -> Box<dyn Iterator<Item = Message>> {
    match pattern {
        Pattern::Periodic => {
            let spacing = traffic.min_inter_arrival();
            Box::new(sources::periodic(first, spacing, traffic.max_message()))
        }
        Pattern::Bursty | Pattern::Adversarial => Box::new(sources::greedy(traffic, first)),
        Pattern::Sporadic => {
            let mut own = rng.clone();
            own.set_stream(rng.next_u64());
            Box::new(sources::drawn(traffic, first, own))
        }
    }
}

/// A reservation that always uses its whole budget as soon as the others let it: at any phase where arrivals are
/// sporadic, else from the beginning on.
fn hog(pattern: Pattern, one: Reservation, first: Instant, rng: &mut ChaCha8Rng) -> Hog {
    let (work, period) = (one.budget(), one.period());
    let before = match pattern {
        Pattern::Sporadic => Duration::from_nanos(rng.next_u64() % period.as_nanos()),
        Pattern::Periodic | Pattern::Bursty | Pattern::Adversarial => Duration::ZERO,
    };
    let late = Duration::ZERO;
    Hog { work, period, pattern: HogPattern::Periodic { first: first - before, late } }
}

/// The largest best-effort messages, one after the other.
fn backlog(sender: &Sender) -> Option<Backlog> {
    let bytes = sender.best_effort.most()?;
    let room = sender.packetisation.packets_of(bytes);
    Some(Backlog { bytes, first: Instant::ZERO, pause: Duration::ZERO, room })
}

/// Messages inside at once, the most of any channel that keeps its delay bound: admission gives
/// that much memory.
fn room(sender: &Sender, channels: &[Channel]) -> u32 {
    let messages = channels.iter().map(|channel| {
        let traffic = channel.arrivals();
        let held = traffic.jitter().unwrap_or(Duration::MAX).saturating_add(channel.delay_bound());
        (held / traffic.min_inter_arrival()).saturating_add(1)
    });
    let packets = |channel: &Channel| {
        u64::from(sender.packetisation.packets_of(channel.arrivals().max_message()))
    };
    let largest = channels.iter().map(packets).max().unwrap_or(1).max(1);
    let most = (MOST_PACKETS / largest).max(1);
    u32::try_from(messages.max().unwrap_or(1).min(most)).unwrap_or(u32::MAX)
}
