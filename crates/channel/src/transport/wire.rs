//! The transports from which a server can choose.

use punctual_model::Instant;

use super::{HandedOver, NullDevice, Packet, Transport, Udp};

/// A transport of a server.
#[derive(Debug)]
pub enum Wire {
    /// The network.
    Udp(Udp),
    /// An emulated link that drops all packets: for tests and experiments.
    Null(NullDevice<()>),
}

impl Transport for Wire {
    type To = u32;

    fn hand_over(&mut self, now: Instant, to: u32, packets: &[Packet<'_>]) -> HandedOver {
        match self {
            Self::Udp(udp) => udp.hand_over(now, to, packets),
            Self::Null(null) => null.hand_over(now, to, packets),
        }
    }
}
