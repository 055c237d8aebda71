//! A slow and simple [`Reassembly`](super::Reassembly), from the rules alone: a map of bytes for
//! each message, a set of all messages that are over, and searches over all of them.

use std::collections::{BTreeMap, BTreeSet};

use super::header::Header;
use super::{Counts, Limits, MOST_IN_FLIGHT};

pub(super) struct Oracle {
    limits: Limits,
    inside: BTreeMap<u64, Inside>,
    over: BTreeSet<u64>,
    /// The first message seen; everything before it is over, and not counted.
    first: Option<u64>,
    newest: u64,
    newest_at: u64,
    taken_at: u64,
    newest_complete: Option<u64>,
    pub(super) counts: Counts,
}

struct Inside {
    length: u32,
    cut: u16,
    bytes: BTreeMap<u32, u8>,
    give_up_at: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Complete(u64, Vec<u8>),
    More,
    Duplicate,
    Over,
    Refused,
}

impl Oracle {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            inside: BTreeMap::new(),
            over: BTreeSet::new(),
            first: None,
            newest: 0,
            newest_at: 0,
            taken_at: 0,
            newest_complete: None,
            counts: Counts::default(),
        }
    }

    pub(super) fn take(&mut self, now: u64, header: &Header, piece: &[u8]) -> Outcome {
        let late = |inside: &Inside| inside.give_up_at.is_some_and(|at| at <= now);
        let given_up: Vec<u64> =
            self.inside.iter().filter(|(_, inside)| late(inside)).map(|(m, _)| *m).collect();
        for message in given_up {
            self.counts.given_up += 1;
            self.inside.remove(&message);
            self.over.insert(message);
        }
        let outcome = self.accept(now, header, piece);
        match outcome {
            Outcome::Over => self.counts.over += 1,
            Outcome::Refused => self.counts.refused += 1,
            Outcome::Duplicate => self.counts.duplicates += 1,
            Outcome::Complete(..) => self.counts.complete += 1,
            Outcome::More => {}
        }
        if !matches!(outcome, Outcome::Over | Outcome::Refused) {
            self.taken_at = now;
        }
        outcome
    }

    fn accept(&mut self, now: u64, header: &Header, piece: &[u8]) -> Outcome {
        let Limits { channel, arrivals, delay_bound, least_fragment } = self.limits;
        let (message, length, cut) = (header.message, header.length, header.fragment_bytes);
        let in_order = header.offset.is_multiple_of(cut.max(1).into()) && header.offset < length;
        let wanted = u32::from(cut).min(length.saturating_sub(header.offset)) as usize;
        let whole = length <= u32::from(cut);
        if cut == 0
            || !in_order
            || piece.len() != wanted
            || header.channel != channel
            || length > arrivals.max_message()
            || (cut < least_fragment.get() && !whole)
        {
            return Outcome::Refused;
        }
        let spacing = arrivals.min_inter_arrival().as_nanos();
        if let Some(first) = self.first {
            let second = 1_000_000_000;
            let window = now - self.newest_at + delay_bound.as_nanos() + second;
            let most = window / spacing + u64::from(arrivals.max_burst());
            let wrong = if message > self.newest {
                (message - self.newest > most).then_some(Outcome::Refused)
            } else {
                let far_back = self.newest - message >= u64::from(MOST_IN_FLIGHT);
                (message < first || far_back || self.over.contains(&message))
                    .then_some(Outcome::Over)
            };
            if let Some(wrong) = wrong {
                if now - self.taken_at < second + 4 * spacing {
                    return wrong;
                }
                self.counts.restarts += 1;
                self.counts.cut_off += self.inside.len() as u64;
                self.inside.clear();
                self.over.clear();
                (self.first, self.newest_complete) = (None, None);
            }
        }
        if !self.inside.contains_key(&message) && !whole {
            let rooms = (arrivals.max_burst() + 1).min(MOST_IN_FLIGHT) as usize;
            if self.inside.len() == rooms {
                let oldest = *self.inside.keys().next().expect("some");
                if oldest > message {
                    return Outcome::Refused;
                }
                self.inside.remove(&oldest);
                self.over.insert(oldest);
                self.counts.crowded_out += 1;
            }
        }
        let first = *self.first.get_or_insert(message);
        if first == message && self.over.is_empty() && self.inside.is_empty() {
            (self.newest, self.newest_at) = (message, now);
        }
        if message > self.newest {
            (self.newest, self.newest_at) = (message, now);
            let far_back = (message + 1).saturating_sub(MOST_IN_FLIGHT.into());
            for old in first..far_back {
                if self.over.insert(old) {
                    match self.inside.remove(&old) {
                        Some(_) => self.counts.crowded_out += 1,
                        None => self.counts.missing += 1,
                    }
                }
            }
        }
        let end = now + delay_bound.as_nanos();
        let overtaken = self.newest_complete.is_some_and(|newest| newest > message);
        let inside = self.inside.entry(message).or_insert(Inside {
            length,
            cut,
            bytes: BTreeMap::new(),
            give_up_at: overtaken.then_some(end),
        });
        if (inside.length, inside.cut) != (length, cut) {
            return Outcome::Refused;
        }
        if inside.bytes.contains_key(&header.offset) {
            return Outcome::Duplicate;
        }
        let places = header.offset..;
        inside.bytes.extend(places.zip(piece.iter().copied()));
        if inside.bytes.len() < length as usize {
            return Outcome::More;
        }
        let inside = self.inside.remove(&message).expect("it is");
        self.over.insert(message);
        self.newest_complete = self.newest_complete.max(Some(message));
        for (_, older) in self.inside.range_mut(..message) {
            older.give_up_at.get_or_insert(end);
        }
        Outcome::Complete(message, inside.bytes.into_values().collect())
    }
}
