//! An emulated link.

use punctual_model::channel::Link;
use punctual_model::{Duration, Instant};

use super::{HandedOver, NotTaken, Packet, Transport};

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
