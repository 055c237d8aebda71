//! Measures the cost of receiving: the channel server receives packets that have no reader.

use std::num::NonZeroU16;

use punctual_channel::fragment::HEADER_BYTES;
use punctual_channel::server::receiver::thread::trial::{Trial, TrialError};
use punctual_linux::sched::Class;
use punctual_model::Duration;
use punctual_model::channel::Framing;
use punctual_model::host::{Percentile, ReceiveCharge, ReceiveCosts};

use super::charge::{Charge, Covers};
use super::ground::Ground;
use super::seat::{Reason, in_turn, too_large};

/// The packets that wait in the socket: their framing (a message for each packet, or one message of
/// all), and their number.
///
/// The two framings take different paths through the server, and a packet of either is charged the
/// same.
pub(super) const SHAPES: [(Framing, u32); 8] = [
    (Framing::Datagram, 1),
    (Framing::Datagram, 2),
    (Framing::Datagram, 4),
    (Framing::Datagram, MOST),
    (Framing::Fragments, 1),
    (Framing::Fragments, 2),
    (Framing::Fragments, 4),
    (Framing::Fragments, MOST),
];

/// The most packets that wait together.
const MOST: u32 = 8;

/// The source of packets, made at its first use. It is always a network of our own, because no
/// remote sender follows our pace.
#[derive(Default)]
pub(super) struct Source {
    ground: Option<Ground>,
}

/// Two channels for one packet size.
pub(super) struct Trials {
    datagrams: Trial,
    fragments: Trial,
}

impl Source {
    /// Returns the description of the network, in words.
    pub(super) fn name(&self) -> Option<String> {
        self.ground.as_ref().map(|ground| ground.name.to_owned())
    }

    /// Takes samples of packets of this many bytes, for each of [`SHAPES`] in turn.
    pub(super) fn burst(
        &mut self,
        packet_bytes: u32,
        trials: &mut Option<Trials>,
        class: Class,
        cpu: usize,
        length: Duration,
    ) -> Result<Vec<Vec<Duration>>, Reason> {
        let ground = self.ground.get_or_insert_with(Ground::find);
        let trials = match trials {
            Some(trials) => trials,
            None => trials.insert(Trials::new(ground, packet_bytes)?),
        };
        in_turn(&SHAPES, class, cpu, length, |(framing, packets)| {
            let trial = match framing {
                Framing::Datagram => &mut trials.datagrams,
                Framing::Fragments => &mut trials.fragments,
            };
            trial.packets(packets).map_err(reason)
        })
    }
}

impl Trials {
    fn new(ground: &Ground, packet_bytes: u32) -> Result<Self, Reason> {
        let of = |framing| {
            let (near, far) = ground.pair()?;
            let payload = near.longest_payload().map_err(|why| why.to_string())?;
            let largest = payload.saturating_sub(HEADER_BYTES as u32);
            let bytes = u16::try_from(packet_bytes).ok().and_then(NonZeroU16::new);
            match bytes.filter(|_| packet_bytes <= largest) {
                Some(bytes) => Trial::new(near, far, framing, bytes, MOST).map_err(reason),
                None => Err(too_large(ground.name, largest)),
            }
        };
        Ok(Self { datagrams: of(Framing::Datagram)?, fragments: of(Framing::Fragments)? })
    }
}

#[allow(clippy::needless_pass_by_value, reason = "what map_err gives")]
fn reason(why: TrialError) -> Reason {
    why.to_string()
}

/// Adds the costs of packets of one size: an ascending list, not empty, for each of [`SHAPES`]. The
/// more expensive framing counts.
pub(super) fn packets(made: &mut Charge, sorted: &[Vec<Duration>], percentile: Percentile) {
    for (_, framing) in Framing::NAMES {
        let lists = sorted.iter().zip(SHAPES).filter(|(_, (of, _))| *of == framing);
        let lists = lists.map(|(times, (_, packets))| (packets, times.as_slice()));
        made.messages(lists, percentile);
    }
}

/// Returns the charge of admission for receiving.
///
/// # Errors
/// If a measurement is missing, as a sentence.
pub(super) fn charge(made: Charge, covers: Covers) -> Result<ReceiveCharge, String> {
    made.of(covers, "packets could not be received, or all were disturbed", |switching, made| {
        Ok(ReceiveCosts {
            switch: switching.switch,
            cache: switching.cache_refill,
            first_packet: made.first,
            packet: made.further,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::charge::tests::{covers, drawn as times};
    use super::*;

    #[test]
    fn the_charge_for_packets_is_at_least_their_percentile() {
        for seed in 0..50 {
            let mut state = seed;
            let mut drawn = || SHAPES.map(|(_, packets)| times(&mut state, packets)).to_vec();
            let sizes = [drawn(), drawn()];
            for percentile in [Percentile::P50, Percentile::P99] {
                let mut made = Charge::default();
                packets(&mut made, &sizes[0], percentile);
                assert!(charge(made, covers(percentile)).is_err(), "the largest is missing");
                packets(&mut made, &sizes[1], percentile);
                made.is_complete = true;
                let costs = charge(made, covers(percentile)).expect("complete").costs;
                for (times, (_, packets)) in sizes.iter().flat_map(|one| one.iter().zip(SHAPES)) {
                    let took = percentile.of(times).expect("some").as_nanos();
                    let further = u64::from(packets) - 1;
                    let steps = costs.first_packet.as_nanos() + further * costs.packet.as_nanos();
                    assert!(steps >= took, "{packets} packets: {steps} < {took}");
                    // This is the charge of admission without knowledge of the arrivals.
                    let alike = u64::from(packets) * costs.per_packet().as_nanos();
                    assert!(alike >= took + 2_500, "{packets} packets: {alike} < {took}");
                }
                let unswitched = Covers { switching: None, ..covers(percentile) };
                assert!(charge(made, unswitched).is_err(), "switches are missing");
            }
        }
    }
}
