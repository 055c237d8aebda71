//! Measures the cost of sending: the channel server sends messages that have no reader.

use std::net::SocketAddr;

use punctual_channel::server::sender::thread::trial::{Destination, Trial, TrialError};
use punctual_linux::clock;
use punctual_linux::sched::Class;
use punctual_model::channel::{Packetisation, SendCosts};
use punctual_model::host::{Percentile, SendCharge};
use punctual_model::{Duration, Service};

use super::charge::{Charge, Covers};
use super::ground::Path;
use super::seat::{Reason, in_turn, on_seat, too_large};

/// The messages of each packet size: the most packets in one block, and the number of packets.
///
/// Most contracts send each further packet by itself (`packets_per_block` 1), which costs more than
/// a packet in a train. The differences between messages give the cost of the first of several
/// packets.
pub(super) const SHAPES: [(u32, u32); 5] = [(1, 1), (1, 2), (1, 4), (1, 8), (LONGEST, LONGEST)];

/// The number of packets of the longest message.
const LONGEST: u32 = 8;

/// The number of packets of the message with which picking is measured.
const PICKS: u32 = 16;

/// The destination of packets, opened at its first use.
pub(super) struct Network {
    to: Option<SocketAddr>,
    path: Option<Result<Path, Reason>>,
}

/// Two channels for one packet size.
pub(super) struct Trials {
    alone: Trial,
    in_trains: Trial,
}

impl Network {
    /// Sends packets to `to`; `None`: to a network of our own.
    pub(super) fn new(to: Option<SocketAddr>) -> Self {
        Self { to, path: None }
    }

    fn path(&mut self) -> Result<&Path, Reason> {
        let to = self.to;
        let path = self.path.get_or_insert_with(|| match to {
            Some(to) => Path::to(to),
            None => Path::of_our_own(),
        });
        path.as_ref().map_err(Clone::clone)
    }

    /// Returns the description of the path, in words.
    pub(super) fn name(&mut self) -> Option<String> {
        self.path().ok().map(|path| path.name.clone())
    }

    /// Takes samples of messages with packets of this many bytes, for each of [`SHAPES`] in turn.
    pub(super) fn burst(
        &mut self,
        packet_bytes: u32,
        trials: &mut Option<Trials>,
        class: Class,
        cpu: usize,
        length: Duration,
    ) -> Result<Vec<Vec<Duration>>, Reason> {
        let path = self.path()?;
        if packet_bytes > path.largest_packet {
            return Err(too_large(&path.name, path.largest_packet));
        }
        let trials = match trials {
            Some(trials) => trials,
            None => trials.insert(Trials::new(&path.destination, packet_bytes).map_err(reason)?),
        };
        in_turn(&SHAPES, class, cpu, length, |(per_block, packets)| {
            let trial = if per_block == 1 { &mut trials.alone } else { &mut trials.in_trains };
            let took = trial.message(packets).map_err(reason)?;
            path.drain();
            Ok(took)
        })
    }
}

impl Trials {
    fn new(destination: &Destination, packet_bytes: u32) -> Result<Self, TrialError> {
        let of = |per_block| {
            let cut = Packetisation::new(packet_bytes, per_block)?;
            Trial::new(destination, cut, LONGEST)
        };
        Ok(Self { alone: of(1)?, in_trains: of(LONGEST)? })
    }
}

/// Takes samples of picking a packet, each the mean over a message.
pub(super) fn picks(class: Class, cpu: usize, length: Duration) -> Result<Vec<Duration>, Reason> {
    let cut = Packetisation::new(64, 1).map_err(|why| why.to_string())?;
    let mut trial = Trial::new(&Destination::Nowhere, cut, PICKS).map_err(reason)?;
    on_seat(class, cpu, || {
        let mut samples = Vec::new();
        let until = clock::now().saturating_add(length);
        while clock::now() < until {
            samples
                .extend(trial.message(PICKS).map_err(reason)?.map(|took| took / u64::from(PICKS)));
        }
        Ok(samples)
    })
}

#[allow(clippy::needless_pass_by_value, reason = "what map_err gives")]
fn reason(why: TrialError) -> Reason {
    why.to_string()
}

/// Adds the costs of messages of one packet size: an ascending list, not empty, for each of
/// [`SHAPES`].
pub(super) fn messages(made: &mut Charge, sorted: &[Vec<Duration>], percentile: Percentile) {
    let lists = sorted.iter().zip(SHAPES).filter(|(_, (per_block, _))| *per_block == 1);
    let lists = lists.map(|(times, (_, packets))| (packets, times.as_slice()));
    made.messages(lists, percentile);
}

/// Returns the charge of admission for sending. Picking a packet is part of the time of its
/// message, and is subtracted there.
///
/// # Errors
/// If a measurement is missing, as a sentence.
/// Something is missing, in a sentence.
pub(super) fn charge(
    made: Charge,
    pick: Option<Service>,
    covers: Covers,
) -> Result<SendCharge, String> {
    made.of(covers, "messages could not be sent, or all were disturbed", |switching, made| {
        let link_scheduling = pick.ok_or("what picking a packet costs could not be measured")?;
        Ok(SendCosts {
            switch: switching.switch,
            cache: switching.cache_refill,
            first_packet: made.first.saturating_sub(link_scheduling),
            packet: made.further.saturating_sub(link_scheduling),
            link_scheduling,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::charge::tests::{covers, drawn as times};
    use super::*;

    /// Draws times of messages of one size, in the order of [`SHAPES`].
    fn drawn(seed: &mut u64) -> Vec<Vec<Duration>> {
        SHAPES.map(|(_, packets)| times(seed, packets)).into()
    }

    #[test]
    fn the_charge_for_a_message_is_at_least_its_percentile() {
        for seed in 0..50 {
            let mut state = seed;
            let sizes = [drawn(&mut state), drawn(&mut state)];
            for percentile in [Percentile::P50, Percentile::P99] {
                let pick = Service::from_nanos(400);
                let of = |made: Charge| charge(made, Some(pick), covers(percentile));
                let mut made = Charge::default();
                messages(&mut made, &sizes[0], percentile);
                assert!(of(made).is_err(), "the largest is missing");
                messages(&mut made, &sizes[1], percentile);
                made.is_complete = true;
                let costs = of(made).expect("complete").costs;
                assert_eq!(costs.change_of_handler(), Service::from_nanos(2_500));
                for (times, (_, packets)) in sizes.iter().flat_map(|one| one.iter().zip(SHAPES)) {
                    let further = u64::from(packets) - 1;
                    let charged = costs.first_packet.as_nanos()
                        + further * costs.packet.as_nanos()
                        + u64::from(packets) * pick.as_nanos();
                    let took = percentile.of(times).expect("some").as_nanos();
                    assert!(charged >= took, "{packets} packets: {charged} < {took}");
                }
                assert!(charge(made, None, covers(percentile)).is_err(), "picking is missing");
                let unswitched = Covers { switching: None, ..covers(percentile) };
                assert!(charge(made, Some(pick), unswitched).is_err(), "switches are missing");
            }
        }
    }
}
