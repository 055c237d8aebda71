//! Faults, as a wrapper around a transport.

use punctual_model::Instant;

use super::{HandedOver, NotTaken, Packet, Piece, Transport};

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing out of the ordinary.
    None,
    /// It is taken, and lost.
    Lose,
    /// It is taken, and goes after the next packet that is not held.
    Hold,
    /// It is refused.
    Refuse(NotTaken),
}

/// A transport to which a script happens. The script is asked once for each packet handed over, with
/// the instant; so a link that is down for a while refuses while it is.
#[derive(Debug)]
pub struct Faulty<T: Transport, S> {
    inner: T,
    script: S,
    held: Vec<(T::To, Vec<u8>)>,
    lost: u64,
}

impl<T: Transport, S: FnMut(Instant) -> Fault> Faulty<T, S> {
    /// `inner`, as `script` has it.
    pub fn new(inner: T, script: S) -> Self {
        Self { inner, script, held: Vec::new(), lost: 0 }
    }

    /// What is wrapped.
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// Packets taken and lost: those of the script, and those held that had no room when they went.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Lets go what is held.
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
    /// If a packet in shared memory is to be held: it cannot be copied.
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
