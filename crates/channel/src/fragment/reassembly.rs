//! Reassembles the messages of one channel from their fragments.

use punctual_model::{Duration, Instant};

use super::header::Header;
use super::history::{History, Standing};
use super::outcome::{Counts, Message, Refused, Taken};
use super::slot::{Limits, Put, Slot};

/// The time by which a message may exceed its promised delay before its number is considered
/// impossible.
const NETWORK: Duration = Duration::from_secs(1);

/// Reassembles messages. All memory is allocated when it is created.
///
/// Fragments may come in any order and more than once. A message is given up when a newer one is
/// complete and the delay bound has passed since: a sender sends the messages of a channel one
/// after the other, so a missing fragment has been overtaken for that long. Messages are not put in
/// order: a complete message is returned at once.
///
/// A message number is accepted if the contract allows so many messages since the newest one (and
/// one second, for the network). If only impossible numbers came for a second and four spacings,
/// the sender is assumed to have begun again.
///
/// ```
/// use punctual_channel::fragment::{Fragments, Limits, Reassembly, Taken};
/// use punctual_model::channel::LinearBounded;
/// use punctual_model::{Duration, Instant};
/// use std::num::NonZeroU16;
///
/// let (fragment_bytes, spacing) = (NonZeroU16::new(4).expect("not zero"), Duration::from_millis(10));
/// let mut receiver = Reassembly::new(Limits {
///     channel: 7,
///     arrivals: LinearBounded::new(1, 16, spacing, 1)?,
///     delay_bound: Duration::from_millis(5),
///     least_fragment: fragment_bytes,
/// });
/// let cut = Fragments { fragment_bytes, channel: 7, message: 0, length: 6 };
/// let wire: Vec<Vec<u8>> = cut
///     .within(0..6, None)
///     .map(|piece| {
///         let bytes = &b"foobar"[piece.bytes.start as usize..piece.bytes.end as usize];
///         [&piece.header.to_bytes()[..], bytes].concat()
///     })
///     .collect();
/// assert_eq!(receiver.take(Instant::ZERO, &wire[1])?, Taken::More);
/// let Taken::Complete(message) = receiver.take(Instant::ZERO, &wire[0])? else { panic!() };
/// assert_eq!((message.number, message.bytes), (0, &b"foobar"[..]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reassembly {
    limits: Limits,
    slots: Box<[Slot]>,
    /// `None` before the first fragment.
    history: Option<History>,
    newest_complete: Option<u64>,
    /// The time at which the newest message was first seen.
    newest_at: Instant,
    /// The time at which a fragment was last taken.
    taken_at: Instant,
    counts: Counts,
}

impl Reassembly {
    /// Creates an empty reassembly. Takes [`Limits::memory`] bytes and a little.
    pub fn new(limits: Limits) -> Self {
        let Limits { arrivals, least_fragment, .. } = limits;
        let slot = |_| Slot::new(arrivals.max_message(), least_fragment.get());
        Self {
            limits,
            slots: (0..limits.rooms()).map(slot).collect(),
            history: None,
            newest_complete: None,
            newest_at: Instant::ZERO,
            taken_at: Instant::ZERO,
            counts: Counts::default(),
        }
    }

    /// Takes a datagram that came at `now`; `now` never goes back.
    ///
    /// # Errors
    /// Returns an error if it is no fragment of a message that can be under way.
    pub fn take<'a>(&'a mut self, now: Instant, datagram: &'a [u8]) -> Result<Taken<'a>, Refused> {
        self.give_up(now);
        let accepted = self.accept(now, datagram);
        if accepted.is_ok() {
            self.taken_at = now;
        }
        match accepted {
            Ok(Accepted::Complete { at, message, length, first_sent }) => {
                let bytes = match at {
                    Some(slot) => self.slots[slot].bytes(length),
                    // A message in one fragment follows the header in the datagram.
                    None => &datagram[super::HEADER_BYTES..],
                };
                Ok(Taken::Complete(Message { number: message, bytes, first_sent }))
            }
            Ok(Accepted::More) => Ok(Taken::More),
            Ok(Accepted::Duplicate) => {
                self.counts.duplicates += 1;
                Ok(Taken::Duplicate)
            }
            Err(refused) => {
                match refused {
                    Refused::Over { .. } => self.counts.over += 1,
                    _ => self.counts.refused += 1,
                }
                Err(refused)
            }
        }
    }

    /// Gives up the messages that can be given up at `now`. [`take`](Self::take) does it as well.
    /// Call this at [`next_give_up`](Self::next_give_up) if the counts must be up to date.
    pub fn give_up(&mut self, now: Instant) {
        let Some(history) = &mut self.history else { return };
        for slot in &mut self.slots {
            if let Some(partial) = slot.partial()
                && partial.give_up_at.is_some_and(|at| at <= now)
            {
                history.settle(partial.message);
                slot.clear();
                self.counts.given_up += 1;
            }
        }
    }

    /// Returns when the next message is given up, unless it is complete by then.
    pub fn next_give_up(&self) -> Option<Instant> {
        self.slots.iter().filter_map(|slot| slot.partial()?.give_up_at).min()
    }

    /// Returns the counts of messages and fragments so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the number of messages up to the newest that are not counted yet: incomplete ones,
    /// and those of which no fragment has come so far.
    pub fn open(&self) -> u32 {
        self.history.as_ref().map_or(0, History::open)
    }

    fn accept(&mut self, now: Instant, datagram: &[u8]) -> Result<Accepted, Refused> {
        let (header, piece) = Header::read(datagram)?;
        self.check(&header)?;
        let standing = self.stand(now, &header)?;
        let at = match self.slot_of(header.message) {
            Some(at) => Some(at),
            None if is_whole(&header) => None,
            None => Some(self.room_for(header.message)?),
        };
        self.advance(now, header.message, standing);
        let Some(at) = at else {
            self.complete(now, header.message);
            let Header { message, length, sent, .. } = header;
            return Ok(Accepted::Complete { at, message, length, first_sent: sent });
        };
        if self.slots[at].partial().is_none() {
            let overtaken = self.newest_complete.is_some_and(|newest| newest > header.message);
            let give_up_at = now.saturating_add(self.limits.delay_bound);
            self.slots[at].begin(&header, overtaken.then_some(give_up_at));
        }
        match self.slots[at].put(&header, piece) {
            Put::Duplicate => Ok(Accepted::Duplicate),
            Put::More => Ok(Accepted::More),
            Put::Contradicts(first) => Err(Refused::Contradicts {
                message: header.message,
                length: header.length,
                fragment_bytes: header.fragment_bytes,
                first_length: first.length,
                first_fragment_bytes: first.fragment_bytes,
            }),
            Put::Complete(whole) => {
                self.complete(now, whole.message);
                Ok(Accepted::Complete {
                    at: Some(at),
                    message: whole.message,
                    length: whole.length,
                    first_sent: whole.first_sent,
                })
            }
        }
    }

    /// Checks a fragment by itself against the contract.
    fn check(&self, header: &Header) -> Result<(), Refused> {
        let Limits { channel, arrivals, least_fragment, .. } = self.limits;
        if header.channel != channel {
            let wanted = channel;
            return Err(Refused::OtherChannel { channel: header.channel, wanted });
        }
        let most = arrivals.max_message();
        if header.length > most {
            return Err(Refused::TooLong { length: header.length, most });
        }
        let (fragment_bytes, least) = (header.fragment_bytes, least_fragment.get());
        if fragment_bytes < least && !is_whole(header) {
            return Err(Refused::TooFine { fragment_bytes, least });
        }
        Ok(())
    }

    /// Returns the state of the fragment's message, if the message can be under way. May conclude
    /// that the sender began again.
    fn stand(&mut self, now: Instant, header: &Header) -> Result<Standing, Refused> {
        let message = header.message;
        let Some(history) = &self.history else { return Ok(Standing::Open) };
        let (standing, newest) = (history.standing(message), history.newest());
        let most = self.most_ahead(now);
        let refused = match standing {
            Standing::Over => Refused::Over { message, newest },
            Standing::Ahead(ahead) if ahead > most => Refused::TooFarAhead { message, ahead, most },
            standing => return Ok(standing),
        };
        let spacings = self.limits.arrivals.min_inter_arrival().checked_mul(4);
        let quiet = NETWORK.saturating_add(spacings.unwrap_or(Duration::MAX));
        if now.saturating_since(self.taken_at) < quiet {
            return Err(refused);
        }
        self.counts.restarts += 1;
        self.counts.cut_off +=
            self.slots.iter().filter(|slot| slot.partial().is_some()).count() as u64;
        self.slots.iter_mut().for_each(Slot::clear);
        (self.history, self.newest_complete) = (None, None);
        Ok(Standing::Open)
    }

    /// Returns how many messages after the newest can have been sent: as many as the contract
    /// allows from the newest, which may have been seen late, to this instant.
    fn most_ahead(&self, now: Instant) -> u64 {
        let Limits { arrivals, delay_bound, .. } = self.limits;
        let since = now.saturating_since(self.newest_at).saturating_add(delay_bound);
        let window = since.saturating_add(NETWORK);
        let spacings = window.as_nanos() / arrivals.min_inter_arrival().as_nanos();
        spacings.saturating_add(arrivals.max_burst().into())
    }

    fn slot_of(&self, message: u64) -> Option<usize> {
        let is_inside = |slot: &Slot| slot.partial().is_some_and(|p| p.message == message);
        self.slots.iter().position(is_inside)
    }

    /// Returns a free slot, if need be that of the oldest message.
    fn room_for(&mut self, message: u64) -> Result<usize, Refused> {
        let age = |slot: &Slot| slot.partial().map(|partial| partial.message);
        let oldest = (0..self.slots.len()).min_by_key(|&at| age(&self.slots[at]));
        let incomplete = self.slots.len() as u32;
        let at = oldest.ok_or(Refused::NoRoom { message, incomplete })?;
        if let Some(partial) = self.slots[at].partial() {
            if partial.message > message {
                return Err(Refused::NoRoom { message, incomplete });
            }
            if let Some(history) = &mut self.history {
                history.settle(partial.message);
            }
            self.slots[at].clear();
            self.counts.crowded_out += 1;
        }
        Ok(at)
    }

    fn advance(&mut self, now: Instant, message: u64, standing: Standing) {
        let Some(history) = &mut self.history else {
            (self.history, self.newest_at) = (Some(History::from(message)), now);
            return;
        };
        let Standing::Ahead(_) = standing else { return };
        self.newest_at = now;
        let passed = history.advance(message);
        let oldest = history.oldest();
        let mut crowded_out = 0;
        for slot in &mut self.slots {
            if slot.partial().is_some_and(|partial| partial.message < oldest) {
                slot.clear();
                crowded_out += 1;
            }
        }
        self.counts.crowded_out += crowded_out;
        self.counts.missing += passed - crowded_out;
    }

    fn complete(&mut self, now: Instant, message: u64) {
        self.counts.complete += 1;
        if let Some(history) = &mut self.history {
            history.settle(message);
        }
        self.newest_complete = self.newest_complete.max(Some(message));
        let give_up_at = now.saturating_add(self.limits.delay_bound);
        for partial in self.slots.iter_mut().filter_map(Slot::partial_mut) {
            if partial.message < message {
                partial.give_up_at.get_or_insert(give_up_at);
            }
        }
    }
}

/// The outcome of a fragment; `at` is the slot of the complete message, if it is not in the
/// datagram.
enum Accepted {
    Complete { at: Option<usize>, message: u64, length: u32, first_sent: Option<Instant> },
    More,
    Duplicate,
}

/// Returns whether the message has no other fragment.
fn is_whole(header: &Header) -> bool {
    header.length <= u32::from(header.fragment_bytes)
}
