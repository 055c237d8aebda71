//! The channels that receive: their messages take what admission charges for them, beneath all that is sent.

use punctual_model::channel::{Framing, LinearBounded};
use punctual_model::{Contract, Duration, HostProfile, Instant, Service};
use punctual_sim::processor::{Incoming, Taking};
use serde::Serialize;

use super::arrivals::{Draws, Purpose};
use super::channels::source;
use super::options::Args;
use crate::exit::Failure;

/// The most bytes of a packet where the contract does not say how it sends.
const USUAL_PACKET: u32 = 1420;

/// What became of one channel that receives.
#[derive(Serialize)]
pub(super) struct ReceivingOutcome {
    pub(super) name: String,
    pub(super) cpu: u16,
    /// Messages that came.
    pub(super) messages: u64,
    /// Those that the thread took in.
    pub(super) taken: u64,
    /// From coming to being taken in.
    pub(super) max_wait_ns: Option<u64>,
}

impl ReceivingOutcome {
    /// Returns how many messages waited long after the last came.
    pub(super) fn not_taken(&self) -> u64 {
        self.messages - self.taken
    }
}

struct Channel {
    name: String,
    arrivals: LinearBounded,
    /// The most bytes of a packet; `None`: a message is one.
    packet: Option<u32>,
    seen: Taking,
}

/// The channels of a contract that receive and whose senders were promised a delay.
#[derive(Default)]
pub(super) struct Receiving {
    per_packet: Service,
    channels: Vec<Channel>,
}

impl Receiving {
    /// Takes those of `contract`; nothing has been seen of them.
    pub(super) fn of(contract: &Contract, host: &HostProfile) -> Result<Self, Failure> {
        let sender = contract.sender.and_then(|spec| spec.sender(host.send_costs));
        let packet = contract.sender.map_or(USUAL_PACKET, |spec| spec.packetisation.packet_bytes());
        let channels = contract.receiving.iter().filter_map(|channel| {
            let mut routes = contract.routes.iter();
            let route = routes.find(|route| route.channel == channel.name);
            let whole = route.is_some_and(|route| route.framing == Framing::Datagram);
            Some(Channel {
                name: channel.name.clone(),
                arrivals: channel.arrivals()?,
                packet: (!whole).then_some(packet),
                seen: Taking::default(),
            })
        });
        let channels: Vec<Channel> = channels.collect();
        let measured = host.receive_costs.map(|costs| costs.per_packet());
        let per_packet = measured.or(sender.map(|sender| sender.costs.per_packet()));
        if per_packet.is_none() && !channels.is_empty() {
            return Err(Failure::bad_input(
                "the costs of receiving are not known; measure them by `punctual calibrate`",
            ));
        }
        Ok(Self { per_packet: per_packet.unwrap_or_default(), channels })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.channels.is_empty()
    }

    /// Returns the messages of each, from `first` on as long as tasks are released.
    pub(super) fn sources(
        &self,
        args: &Args,
        draws: Draws,
        first: Instant,
    ) -> Vec<Box<dyn Iterator<Item = Incoming>>> {
        let mut rng = draws.rng(Purpose::Received);
        let (last, per_packet) = (Instant::ZERO.saturating_add(args.until), self.per_packet);
        let source = |channel: &Channel| {
            let packet = channel.packet;
            let messages = source(args.pattern(), channel.arrivals, first, &mut rng);
            let messages = messages.take_while(move |message| message.at < last);
            let incoming = messages.map(move |message| {
                let packets = packet.map_or(1, |packet| message.bytes.div_ceil(packet));
                Incoming { at: message.at, work: per_packet * u64::from(packets) }
            });
            Box::new(incoming) as Box<dyn Iterator<Item = Incoming>>
        };
        self.channels.iter().map(source).collect()
    }

    /// Returns by when all are taken in, if they are: as long again for what an overload delays.
    pub(super) fn end(&self, args: &Args) -> Instant {
        Instant::ZERO.saturating_add(args.until).saturating_add(args.until)
    }

    /// Keeps what was seen of each.
    pub(super) fn see(&mut self, seen: &[Taking]) {
        for (channel, seen) in self.channels.iter_mut().zip(seen) {
            channel.seen = *seen;
        }
    }

    /// Returns the name of each, and the least time between two of its messages.
    pub(super) fn spacings(&self) -> impl Iterator<Item = (&str, Duration)> {
        self.channels
            .iter()
            .map(|channel| (&channel.name[..], channel.arrivals.min_inter_arrival()))
    }

    /// Returns what became of each.
    pub(super) fn outcomes(self, cpu: u16) -> impl Iterator<Item = ReceivingOutcome> {
        self.channels.into_iter().map(move |Channel { name, seen, .. }| ReceivingOutcome {
            name,
            cpu,
            messages: seen.came,
            taken: seen.taken,
            max_wait_ns: (seen.taken > 0).then(|| seen.longest.as_nanos()),
        })
    }
}
