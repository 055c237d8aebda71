//! Decides when a message counts as arrived in a channel's account.

use punctual_model::{Duration, Instant};

/// Regulates the arrivals by which a channel's promise is judged. They are `I_min` apart, as the
/// arrivals by which its messages are scheduled are. But they count from when each message was
/// published, not from when a server saw it. So a server that did not look is found in breach.
///
/// The client reports when a message was published, and may lie. Its time is accepted as far as it
/// can be true: after the last look at the ring that did not find the message, and before the look
/// that did. So a lie worsens the verdict on the client's own channel and changes nothing else:
/// scheduling uses only what the server saw.
///
/// ```
/// use punctual_channel::account::Judge;
/// use punctual_model::{Duration, Instant};
///
/// let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
/// let spacing = Duration::from_millis(10);
/// let mut judge = Judge::default();
/// // Published at 103, and found by a look at 105 after one at 100.
/// assert_eq!(judge.arrival(spacing, at(100), at(105), at(103)), at(103));
/// // The next one counts no earlier than its contract allows.
/// assert_eq!(judge.arrival(spacing, at(105), at(106), at(105)), at(113));
/// // An impossible time is not accepted.
/// assert_eq!(judge.arrival(spacing, at(200), at(205), at(7)), at(200));
/// assert_eq!(judge.arrival(spacing, at(300), at(305), at(999)), at(305));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Judge {
    /// The earliest arrival of the next message.
    next: Instant,
}

impl Judge {
    /// Returns when a message counts as arrived that was not there at `absent`, was there at
    /// `seen`, and was `published` in between, as its client reports. The channel's messages are
    /// `spacing` apart.
    #[inline]
    pub fn arrival(
        &mut self,
        spacing: Duration,
        absent: Instant,
        seen: Instant,
        published: Instant,
    ) -> Instant {
        let arrived = published.max(absent).min(seen).max(self.next);
        self.next = arrived.saturating_add(spacing);
        arrived
    }
}
