//! Faults, as a wrapper around a transport.

use punctual_model::Instant;

use super::{HandedOver, NotTaken, Packet, Piece, Transport};

/// The treatment of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is passed on.
    None,
    /// It is taken, and lost.
    Lose,
    /// It is taken, and goes after the next packet that is not held.
    Hold,
    /// It is refused.
    Refuse(NotTaken),
}

/// A transport with faults by a script. The script is called once for each packet handed over, with
/// the instant; so a link that is down for a while refuses during that time.
#[derive(Debug)]
pub struct Faulty<T: Transport, S> {
    inner: T,
    script: S,
    held: Vec<(T::To, Vec<u8>)>,
    lost: u64,
}

impl<T: Transport, S: FnMut(Instant) -> Fault> Faulty<T, S> {
    /// Wraps `inner` with the faults of `script`.
    pub fn new(inner: T, script: S) -> Self {
        Self { inner, script, held: Vec::new(), lost: 0 }
    }

    /// Returns the wrapped transport.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Returns the number of packets taken and lost: those of the script, and held ones for which
    /// there was no room later.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Hands over the held packets.
    pub fn let_go(&mut self, now: Instant) {
        for (to, bytes) in self.held.drain(..) {
            let packet = Packet { head: &[], piece: Piece::Bytes(&bytes) };
            self.lost += u64::from(self.inner.hand_over(now, to, &[packet]).packets == 0);
        }
    }
}

impl<T: Transport, S: FnMut(Instant) -> Fault> Transport for Faulty<T, S> {
    type To = T::To;

    /// # Panics
    /// Panics if a packet in shared memory must be held: it cannot be copied.
    fn hand_over(&mut self, now: Instant, to: T::To, packets: &[Packet<'_>]) -> HandedOver {
        for (at, packet) in packets.iter().enumerate() {
            match (self.script)(now) {
                Fault::None => {
                    let taken = self.inner.hand_over(now, to, std::slice::from_ref(packet));
                    if taken.stopped.is_some() {
                        return HandedOver { packets: at, ..taken };
                    }
                    self.let_go(now);
                }
                Fault::Lose => self.lost += 1,
                Fault::Hold => {
                    self.held.push((to, packet.copy().expect("memory that may be read")));
                }
                Fault::Refuse(why) => return HandedOver { packets: at, stopped: Some(why) },
            }
        }
        HandedOver { packets: packets.len(), stopped: None }
    }
}
