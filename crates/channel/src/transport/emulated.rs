//! An emulated link, and faults as a wrapper around any transport.

use punctual_model::channel::Link;
use punctual_model::{Duration, Instant};

use super::packet::{HandedOver, NotTaken, Packet, Piece, Transport};

/// The other end of an emulated link.
pub trait FarEnd<To> {
    /// Reports that the last byte of a packet leaves the link at `at`, which may be later than the
    /// hand-over.
    fn left(&mut self, at: Instant, to: To, packet: &Packet<'_>);
}

/// Drops all packets.
impl<To> FarEnd<To> for () {
    fn left(&mut self, _at: Instant, _to: To, _packet: &Packet<'_>) {}
}

/// Keeps all packets.
impl<To> FarEnd<To> for Vec<(Instant, To, Vec<u8>)> {
    /// # Panics
    /// Panics if the packet lies in shared memory.
    fn left(&mut self, at: Instant, to: To, packet: &Packet<'_>) {
        self.push((at, to, packet.copy().expect("memory that may be read")));
    }
}

/// A link that is busy for exactly its transmission time with each packet, and a queue before it
/// that holds a given amount of the link's time.
///
/// ```
/// use punctual_channel::transport::{NotTaken, NullDevice, Packet, Piece, Transport};
/// use punctual_model::channel::Link;
/// use punctual_model::{Duration, Instant};
///
/// // 100 ns a packet and 1 ns a byte; up to 1,500 bytes; no queue.
/// let link = Link::new(Duration::from_nanos(100), 1)?;
/// let mut device = NullDevice::new(link, 1_500, Duration::ZERO, ());
/// let packet = Packet { head: b"head", piece: Piece::Bytes(&[0; 96]) };
/// let taken = device.hand_over(Instant::ZERO, 7, &[packet, packet]);
/// let until = Some(Instant::from_nanos(200));
/// assert_eq!((taken.packets, taken.stopped), (1, Some(NotTaken::WouldBlock { until })));
/// assert_eq!(device.free_at(), Instant::from_nanos(200));
/// # Ok::<(), punctual_model::channel::CostError>(())
/// ```
#[derive(Clone, Debug)]
pub struct NullDevice<F> {
    link: Link,
    mtu: u32,
    queue: Duration,
    free_at: Instant,
    busy: Duration,
    far_end: F,
}

impl<F> NullDevice<F> {
    /// Creates an idle link for packets of up to `mtu` bytes, headers included. A packet is taken
    /// if the packets before it keep the link busy for no longer than `queue`.
    pub fn new(link: Link, mtu: u32, queue: Duration, far_end: F) -> Self {
        Self { link, mtu, queue, free_at: Instant::ZERO, busy: Duration::ZERO, far_end }
    }

    /// Returns when all taken packets have left.
    pub fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Returns for how long the link was or will be busy with the taken packets.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Returns the other end.
    pub fn far_end(&self) -> &F {
        &self.far_end
    }

    /// Returns the other end.
    pub fn far_end_mut(&mut self) -> &mut F {
        &mut self.far_end
    }
}

impl<F: FarEnd<u32>> Transport for NullDevice<F> {
    /// A number that only the far end uses.
    type To = u32;

    fn hand_over(&mut self, now: Instant, to: u32, packets: &[Packet<'_>]) -> HandedOver {
        for (at, packet) in packets.iter().enumerate() {
            let bytes = u32::try_from(packet.len()).unwrap_or(u32::MAX);
            let stopped = if bytes > self.mtu {
                Some(NotTaken::TooLarge { bytes, mtu: self.mtu })
            } else if self.free_at.saturating_since(now) > self.queue {
                let wait = self.free_at.saturating_since(now).saturating_sub(self.queue);
                Some(NotTaken::WouldBlock { until: Some(now.saturating_add(wait)) })
            } else {
                None
            };
            if stopped.is_some() {
                return HandedOver { packets: at, stopped };
            }
            let takes = self.link.transmission_time(bytes);
            self.busy = self.busy.saturating_add(takes);
            self.free_at = self.free_at.max(now).saturating_add(takes);
            self.far_end.left(self.free_at, to, packet);
        }
        HandedOver { packets: packets.len(), stopped: None }
    }
}

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
