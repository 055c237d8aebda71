//! Encodes events as differences.
//!
//! An event consists of:
//!
//! - a number whose lowest four bits are the kind, and whose fifth bit says whether the job differs
//!   from that of the subject's previous event;
//! - the nanoseconds since the previous event;
//! - the subject;
//! - if the job differs, the differences in its number and its release from the subject's previous
//!   job in this block;
//! - a count or amount, if the kind has one.
//!
//! Differences are signed where they can be negative.

use alloc::vec::Vec;

use punctual_model::{Instant, JobId, Service};

use crate::event::{Event, Kind};

/// The length in bytes at which a block of events is closed. It bounds the loss where one is
/// damaged.
const FULL: usize = 2 << 10;
/// The most events of a block. An event takes at least three bytes.
const MOST: usize = super::LONGEST / 3;

/// The last job of a subject that occurred.
#[derive(Clone, Copy, Default)]
struct Last {
    index: u64,
    release: u64,
}

/// The newest job of each subject of a block, sorted by subject. Binary search is fast, because a
/// block has few subjects.
#[derive(Default)]
struct Newest(Vec<(u32, Last)>);

impl Newest {
    fn of(&mut self, task: u32) -> &mut Last {
        let at = match self.0.binary_search_by_key(&task, |entry| entry.0) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (task, Last::default()));
                at
            }
        };
        &mut self.0[at].1
    }
}

/// Returns the code of the kind, and its count or amount if it has one.
fn code(kind: Kind) -> (u8, Option<u64>) {
    match kind {
        Kind::Start => (0, None),
        Kind::GiveWay => (1, None),
        Kind::Resume => (2, None),
        Kind::Complete => (3, None),
        Kind::Overrun { jobs } => (4, Some(jobs)),
        Kind::Skip { jobs } => (5, Some(jobs)),
        Kind::Abort => (6, None),
        Kind::Contained => (7, None),
        Kind::Replenish { budget } => (8, Some(budget.as_nanos())),
        Kind::Throttle { left } => (9, Some(left.as_nanos())),
        Kind::Unthrottle => (10, None),
    }
}

fn kind(code: u8, value: u64) -> Option<Kind> {
    Some(match code {
        0 => Kind::Start,
        1 => Kind::GiveWay,
        2 => Kind::Resume,
        3 => Kind::Complete,
        4 => Kind::Overrun { jobs: value },
        5 => Kind::Skip { jobs: value },
        6 => Kind::Abort,
        7 => Kind::Contained,
        8 => Kind::Replenish { budget: Service::from_nanos(value) },
        9 => Kind::Throttle { left: Service::from_nanos(value) },
        10 => Kind::Unthrottle,
        _ => return None,
    })
}

fn counts(code: u8) -> bool {
    matches!(code, 4 | 5 | 8 | 9)
}

/// Encodes as many of these events as fit into one payload, and returns it and their number.
pub(super) fn encode(events: &[Event]) -> (Vec<u8>, usize) {
    let mut newest = Newest::default();
    let mut at = 0;
    let (mut body, mut count) = (Vec::with_capacity(FULL + 64), 0);
    for event in events {
        let (code, value) = code(event.kind);
        let last = newest.of(event.job.task);
        let new_job = event.job.index != last.index || event.release.as_nanos() != last.release;
        body.push(code | u8::from(new_job) << 4);
        let now = event.at.as_nanos();
        put_signed(&mut body, now.wrapping_sub(at));
        put(&mut body, u64::from(event.job.task));
        if new_job {
            put_signed(&mut body, event.job.index.wrapping_sub(last.index));
            put_signed(&mut body, event.release.as_nanos().wrapping_sub(last.release));
            *last = Last { index: event.job.index, release: event.release.as_nanos() };
        }
        if let Some(value) = value {
            put(&mut body, value);
        }
        at = now;
        count += 1;
        if body.len() >= FULL {
            break;
        }
    }
    let mut payload = Vec::with_capacity(body.len() + 10);
    put(&mut payload, count as u64);
    payload.extend_from_slice(&body);
    (payload, count)
}

/// Decodes the events of a payload, or returns `None` if it is not one.
pub(super) fn decode(payload: &[u8]) -> Option<Vec<Event>> {
    let mut rest = payload;
    let count = usize::try_from(take(&mut rest)?).ok().filter(|&count| count <= MOST)?;
    // A false count must not cost memory.
    let mut events = Vec::with_capacity(count.min(payload.len() / 3));
    let mut newest = Newest::default();
    let mut at: u64 = 0;
    for _ in 0..count {
        let (&head, after) = rest.split_first()?;
        rest = after;
        let (code, new_job) = (head & 0xF, head & 0x10 != 0);
        if head & 0xE0 != 0 {
            return None;
        }
        at = at.wrapping_add(take_signed(&mut rest)?);
        let task = u32::try_from(take(&mut rest)?).ok()?;
        let last = newest.of(task);
        if new_job {
            last.index = last.index.wrapping_add(take_signed(&mut rest)?);
            last.release = last.release.wrapping_add(take_signed(&mut rest)?);
        }
        let value = if counts(code) { take(&mut rest)? } else { 0 };
        events.push(Event {
            at: Instant::from_nanos(at),
            job: JobId { task, index: last.index },
            release: Instant::from_nanos(last.release),
            kind: kind(code, value)?,
        });
    }
    rest.is_empty().then_some(events)
}

fn put(out: &mut Vec<u8>, value: u64) {
    let mut bytes = [0; 10];
    // Cannot fail: a u64 takes ten bytes at most.
    out.extend_from_slice(postcard::to_slice(&value, &mut bytes).expect("ten bytes"));
}

/// Writes a difference, in few bytes if it is small in either direction.
fn put_signed(out: &mut Vec<u8>, difference: u64) {
    let mut bytes = [0; 10];
    out.extend_from_slice(
        postcard::to_slice(&difference.cast_signed(), &mut bytes).expect("ten bytes"),
    );
}

fn take(rest: &mut &[u8]) -> Option<u64> {
    let (value, after) = postcard::take_from_bytes(rest).ok()?;
    *rest = after;
    Some(value)
}

fn take_signed(rest: &mut &[u8]) -> Option<u64> {
    let (value, after) = postcard::take_from_bytes::<i64>(rest).ok()?;
    *rest = after;
    Some(value.cast_unsigned())
}
