//! What sending costs: messages of the channel server, sent for nobody.

mod charge;
mod path;

use std::net::SocketAddr;

use punctual_channel::server::sender::thread::trial::{Destination, Trial, TrialError};
use punctual_linux::clock;
use punctual_linux::sched::Class;
use punctual_model::Duration;
use punctual_model::channel::Packetisation;

use super::burst::Why;
use super::seat::on_seat;
pub(super) use charge::Charge;
use path::Path;

/// The messages that are sent of each packet size: packets handed over in one go at most, and packets.
///
/// Each further packet by itself is what most contracts have (`packets_per_block` 1), and dearer than one
/// in a train; how dear the first of several is, their differences say.
pub(super) const SHAPES: [(u32, u32); 5] = [(1, 1), (1, 2), (1, 4), (1, 8), (LONGEST, LONGEST)];

/// Packets of the longest message.
const LONGEST: u32 = 8;

/// Packets in a message of which the picking is measured.
const PICKS: u32 = 16;

/// After the link had no room, for it to have some.
const PAUSE: Duration = Duration::from_millis(1);

/// Where packets are sent to, opened when it is first asked for.
pub(super) struct Network {
    to: Option<SocketAddr>,
    path: Option<Result<Path, Why>>,
}

/// Two channels for one packet size.
pub(super) struct Trials {
    alone: Trial,
    in_trains: Trial,
}

impl Network {
    /// To `to`; `None`: to a network of our own.
    pub(super) fn new(to: Option<SocketAddr>) -> Self {
        Self { to, path: None }
    }

    fn path(&mut self) -> Result<&Path, Why> {
        let to = self.to;
        let path = self.path.get_or_insert_with(|| match to {
            Some(to) => Path::to(to),
            None => Path::of_our_own(),
        });
        path.as_ref().map_err(Clone::clone)
    }

    /// In words.
    pub(super) fn name(&mut self) -> Option<String> {
        self.path().ok().map(|path| path.name.clone())
    }

    /// Samples of messages with packets of so many bytes, for each of [`SHAPES`] in turn, so that what
    /// disturbs the one disturbs the others.
    pub(super) fn burst(
        &mut self,
        packet_bytes: u32,
        trials: &mut Option<Trials>,
        class: Class,
        cpu: usize,
        length: Duration,
    ) -> Result<Vec<Vec<Duration>>, Why> {
        let path = self.path()?;
        if packet_bytes > path.largest_packet {
            return Err(format!(
                "packets of {} carry at most {} beside our header",
                path.name,
                super::plan::size(path.largest_packet.into())
            ));
        }
        let trials = match trials {
            Some(trials) => trials,
            None => trials.insert(Trials::new(&path.destination, packet_bytes).map_err(told)?),
        };
        on_seat(class, cpu, || {
            let mut samples = vec![Vec::new(); SHAPES.len()];
            let until = clock::now().saturating_add(length);
            while clock::now() < until {
                for (samples, (per_block, packets)) in samples.iter_mut().zip(SHAPES) {
                    let trial =
                        if per_block == 1 { &mut trials.alone } else { &mut trials.in_trains };
                    match trial.message(packets).map_err(told)? {
                        Some(took) => samples.push(took),
                        None => clock::sleep(PAUSE),
                    }
                    path.drain();
                }
            }
            Ok(samples)
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

/// Samples of picking a packet, each the mean of a message's.
pub(super) fn picks(class: Class, cpu: usize, length: Duration) -> Result<Vec<Duration>, Why> {
    let cut = Packetisation::new(64, 1).map_err(|why| why.to_string())?;
    let mut trial = Trial::new(&Destination::Nowhere, cut, PICKS).map_err(told)?;
    on_seat(class, cpu, || {
        let mut samples = Vec::new();
        let until = clock::now().saturating_add(length);
        while clock::now() < until {
            samples.extend(trial.message(PICKS).map_err(told)?.map(|took| took / u64::from(PICKS)));
        }
        Ok(samples)
    })
}

#[allow(clippy::needless_pass_by_value, reason = "what map_err gives")]
fn told(why: TrialError) -> Why {
    why.to_string()
}
