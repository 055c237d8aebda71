//! Runs the channels that receive: their messages take the time that admission charges, below all
//! sending.

use punctual_model::channel::{Framing, LinearBounded};
use punctual_model::{Contract, Duration, HostProfile, Instant, Service};
use punctual_policy::ingress::{Terms, UNEVENNESS};
use punctual_sim::processor::{Incoming, Processor, Received, Taking};
use serde::Serialize;

use super::arrivals::{Draws, Purpose, source};
use super::options::Options;
use crate::{Failure, Remedy};

/// The outcome of one channel that receives.
#[derive(Clone, Debug, Serialize)]
pub struct ReceivingOutcome {
    /// The name in the contract.
    pub name: String,
    /// The CPU on which its messages are received.
    pub cpu: u16,
    /// The number of messages that came.
    pub messages: u64,
    /// The number of messages that the thread received.
    pub taken: u64,
    /// The number of messages that the thread discarded because they exceeded the contract.
    pub non_conforming: u64,
    /// The number of messages for which the socket had no room.
    pub dropped: u64,
    /// The longest time from the arrival of a message until it was received.
    pub max_wait_ns: Option<u64>,
    /// Whether its sender exceeds its declared traffic.
    #[serde(skip)]
    pub floods: bool,
}

impl ReceivingOutcome {
    /// Returns the number of messages that were not received.
    pub fn not_taken(&self) -> u64 {
        self.messages - self.taken
    }

    /// Returns the number of messages for which the promise was broken; 0 if the sender exceeds its
    /// traffic.
    pub fn broken(&self) -> u64 {
        if self.floods { 0 } else { self.not_taken() }
    }
}

struct Channel {
    name: String,
    terms: Terms,
    /// The actual traffic.
    comes: LinearBounded,
    framing: Framing,
    seen: Taking,
}

/// The channels of a contract that receive, with senders that were promised a delay.
#[derive(Default)]
pub(super) struct Receiving {
    per_packet: Service,
    /// The bytes of a packet.
    packet: u32,
    channels: Vec<Channel>,
}

/// The thread that receives, on the processor time that higher layers leave.
pub(super) type Thread<P> = Received<P, Box<dyn Iterator<Item = Incoming>>>;

impl Receiving {
    /// Makes the receiving channels of `contract`, without observations. Those of class `ubr` are
    /// left out: an ordinary thread receives them, which takes nothing from what runs here.
    pub(super) fn of(
        options: &Options,
        contract: &Contract,
        host: &HostProfile,
    ) -> Result<Self, Failure> {
        let sender = contract.sender.and_then(|spec| spec.sender(host.send_costs));
        let packet = contract.packet_bytes();
        let channels = contract.receiving.iter().filter_map(|channel| {
            let (arrivals, reads) = (channel.arrivals()?, contract.read_limit(channel)?);
            let framing = contract.framing(&channel.name);
            let datagrams = framing.datagrams_of(arrivals.max_message(), packet);
            let terms = Terms {
                arrivals,
                delay_bound: channel.delay_bound,
                unevenness: UNEVENNESS,
                datagrams,
                reads,
            };
            let comes = options.flooded(&channel.name, arrivals);
            Some(Channel {
                name: channel.name.clone(),
                terms,
                comes,
                framing,
                seen: Taking::default(),
            })
        });
        let channels: Vec<Channel> = channels.collect();
        let measured = host.receive_costs.map(|costs| costs.per_packet());
        let per_packet = measured.or(sender.map(|sender| sender.costs.per_packet()));
        if per_packet.is_none() && !channels.is_empty() {
            return Err(Failure::bad_input("the costs of receiving are not known; measure them")
                .with(Remedy::Calibrate(None)));
        }
        let per_packet = per_packet.unwrap_or_default();
        Ok(Self { per_packet, packet, channels })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Returns the thread that receives their messages, which come from `first` on for as long as
    /// tasks are released.
    pub(super) fn thread<P: Processor>(
        &self,
        options: &Options,
        draws: Draws,
        first: Instant,
        processor: P,
    ) -> Thread<P> {
        let mut rng = draws.rng(Purpose::Received);
        let last = Instant::ZERO.saturating_add(options.until);
        let channel = |channel: &Channel| {
            let (framing, packet) = (channel.framing, self.packet);
            let messages = source(options.pattern(), channel.comes, first, &mut rng);
            let messages = messages.take_while(move |message| message.at < last);
            let incoming = messages.map(move |message| Incoming {
                at: message.at,
                datagrams: framing.datagrams_of(message.bytes, packet),
            });
            (channel.terms, Box::new(incoming) as Box<dyn Iterator<Item = Incoming>>)
        };
        let channels = self.channels.iter().map(channel);
        Received::new(processor, self.per_packet, channels)
    }

    /// Returns the time by which all messages are received, unless they never are. It allows another
    /// length of the run for the delays of an overload.
    pub(super) fn end(&self, options: &Options) -> Instant {
        Instant::ZERO.saturating_add(options.until).saturating_add(options.until)
    }

    /// Stores the observations of each channel.
    pub(super) fn see(&mut self, seen: &[Taking]) {
        for (channel, seen) in self.channels.iter_mut().zip(seen) {
            channel.seen = *seen;
        }
    }

    /// Returns the name of each channel, and the least time between two of its messages.
    pub(super) fn spacings(&self) -> impl Iterator<Item = (&str, Duration)> {
        self.channels.iter().map(|channel| (&channel.name[..], channel.comes.min_inter_arrival()))
    }

    /// Returns the outcome of each channel.
    pub(super) fn outcomes(self, cpu: u16) -> impl Iterator<Item = ReceivingOutcome> {
        self.channels.into_iter().map(move |channel| {
            let Channel { name, terms, comes, seen, .. } = channel;
            ReceivingOutcome {
                name,
                cpu,
                messages: seen.came,
                taken: seen.taken,
                non_conforming: seen.non_conforming,
                dropped: seen.dropped,
                max_wait_ns: (seen.taken > 0).then(|| seen.longest.as_nanos()),
                floods: comes != terms.arrivals,
            }
        })
    }
}
