//! Who sends what a contract declares: the largest messages, a burst, and then one as often as one may
//! come.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_channel::client::{SendError, Sending};
use punctual_linux::clock;
use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant};

/// So often at least it looks whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// The sender of one channel.
pub(super) struct Source {
    sending: Sending,
    message: Vec<u8>,
    pace: Pace,
}

impl Source {
    pub(super) fn new(sending: Sending, traffic: LinearBounded, first: Instant) -> Self {
        let message = vec![0; traffic.max_message() as usize];
        Self { sending, message, pace: Pace::new(traffic, first) }
    }

    /// Messages that have not left.
    pub(super) fn unreleased(&mut self) -> u64 {
        // A queue that makes no sense has been ended by the sender, which says so.
        self.sending.unreleased().unwrap_or(0)
    }
}

/// When the next message may come.
struct Pace {
    due: Instant,
    spacing: Duration,
    /// Of the burst, after the next.
    at_once: u32,
}

impl Pace {
    fn new(traffic: LinearBounded, first: Instant) -> Self {
        let (spacing, burst) = (traffic.min_inter_arrival(), traffic.max_burst());
        Self { due: first, spacing, at_once: burst - 1 }
    }

    /// A message was sent at `now`. Whoever is late does not catch up: that might be too fast.
    fn sent(&mut self, now: Instant) {
        match self.at_once.checked_sub(1) {
            Some(left) => self.at_once = left,
            None => self.due = self.due.max(now).saturating_add(self.spacing),
        }
    }
}

/// Sends until it is told to stop; the queues, with what is left in them.
pub(super) fn send_all(mut all: Vec<Source>, stop: &Arc<AtomicBool>) -> Vec<Source> {
    let mut gone = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let next = all.iter().map(|one| one.pace.due).min().unwrap_or(Instant::MAX);
        clock::sleep_until(next.min(clock::now() + LOOK));
        for at in (0..all.len()).rev() {
            let source = &mut all[at];
            while source.pace.due <= clock::now() {
                match source.sending.try_send(&source.message) {
                    // Without room there is no message: what is late inside is counted there.
                    Ok(()) | Err(SendError::Full { .. }) => source.pace.sent(clock::now()),
                    // The sender has ended it, and says why.
                    Err(_) => {
                        gone.push(all.swap_remove(at));
                        break;
                    }
                }
            }
        }
    }
    all.append(&mut gone);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_late_the_source_is_what_it_sends_conforms() {
        let traffic = LinearBounded::fixed(100, Duration::from_nanos(10), 3).expect("valid");
        let mut pace = Pace::new(traffic, Instant::from_nanos(5));
        let mut sent: Vec<u64> = Vec::new();
        // Twice it comes late.
        for late in [0, 0, 0, 0, 4, 0, 0, 35, 0, 0] {
            let now = pace.due.saturating_add(Duration::from_nanos(late));
            sent.push(now.as_nanos());
            pace.sent(now);
        }
        assert_eq!(sent[..4], [5, 5, 5, 15]);
        // In each window no more than the contract allows.
        for (first, from) in sent.iter().enumerate() {
            for (nth, to) in sent[first..].iter().enumerate() {
                let window = Duration::from_nanos(to - from + 1);
                assert!(traffic.arrivals_in(window) > Some(nth as u64), "{sent:?}");
            }
        }
    }
}
