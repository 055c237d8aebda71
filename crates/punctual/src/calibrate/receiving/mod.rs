//! What receiving costs: packets for the channel server, received for nobody.

mod charge;

use std::num::NonZeroU16;

use punctual_channel::fragment::HEADER_BYTES;
use punctual_channel::server::receiver::thread::trial::{Trial, TrialError};
use punctual_linux::clock;
use punctual_linux::sched::Class;
use punctual_model::Duration;
use punctual_model::channel::Framing;

use super::burst::Why;
use super::ground::Ground;
use super::seat::on_seat;
pub(super) use charge::Charge;

/// What waits in the socket: each packet a message, or all of them one; and how many.
///
/// The two framings take different ways through the server, and a packet of either is charged the same.
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

/// Packets that wait together at most.
const MOST: u32 = 8;

/// After packets that were late, for what delayed them to pass.
const PAUSE: Duration = Duration::from_millis(1);

/// Where packets come from, made when it is first asked for: a network of our own in any case, because
/// nobody sends to us at our own pace.
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
    /// In words.
    pub(super) fn name(&self) -> Option<String> {
        self.ground.as_ref().map(|ground| ground.name.to_owned())
    }

    /// Samples of packets of so many bytes, for each of [`SHAPES`] in turn, so that what disturbs the one
    /// disturbs the others.
    pub(super) fn burst(
        &mut self,
        packet_bytes: u32,
        trials: &mut Option<Trials>,
        class: Class,
        cpu: usize,
        length: Duration,
    ) -> Result<Vec<Vec<Duration>>, Why> {
        let ground = self.ground.get_or_insert_with(Ground::find);
        let trials = match trials {
            Some(trials) => trials,
            None => trials.insert(Trials::new(ground, packet_bytes)?),
        };
        on_seat(class, cpu, || {
            let mut samples = vec![Vec::new(); SHAPES.len()];
            let until = clock::now().saturating_add(length);
            while clock::now() < until {
                for (samples, (framing, packets)) in samples.iter_mut().zip(SHAPES) {
                    let trial = match framing {
                        Framing::Datagram => &mut trials.datagrams,
                        Framing::Fragments => &mut trials.fragments,
                    };
                    match trial.packets(packets).map_err(told)? {
                        Some(took) => samples.push(took),
                        None => clock::sleep(PAUSE),
                    }
                }
            }
            Ok(samples)
        })
    }
}

impl Trials {
    fn new(ground: &Ground, packet_bytes: u32) -> Result<Self, Why> {
        let of = |framing| {
            let (near, far) = ground.pair()?;
            let payload = near.longest_payload().map_err(|why| why.to_string())?;
            let largest = payload.saturating_sub(HEADER_BYTES as u32);
            let bytes = u16::try_from(packet_bytes).ok().and_then(NonZeroU16::new);
            match bytes.filter(|_| packet_bytes <= largest) {
                Some(bytes) => Trial::new(near, far, framing, bytes, MOST).map_err(told),
                None => Err(format!(
                    "packets of {} carry at most {} beside our header",
                    ground.name,
                    super::plan::size(largest.into())
                )),
            }
        };
        Ok(Self { datagrams: of(Framing::Datagram)?, fragments: of(Framing::Fragments)? })
    }
}

#[allow(clippy::needless_pass_by_value, reason = "what map_err gives")]
fn told(why: TrialError) -> Why {
    why.to_string()
}
