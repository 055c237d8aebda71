//! A thread of a workload: its phases and their events, type-checked as rt-app does.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::problem::{Checked, Problem, printable, problem};
use super::reader::{Member, Node, Value, find};
use crate::units::MAX_NANOS;

/// A sequence of events, done `times` in a row before the next phase.
pub(super) struct Phase {
    pub(super) name: String,
    pub(super) times: Times,
    pub(super) events: Vec<Event>,
}

/// The number of repetitions in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Times {
    Finite(u64),
    Endless,
}

/// One event of a thread.
pub(super) struct Event {
    pub(super) offset: usize,
    pub(super) act: Act,
}

/// The effect of an event on the rate of jobs. Times are nanoseconds.
pub(super) enum Act {
    /// Uses the processor.
    Run(u64),
    /// Sleeps from now on.
    Sleep(u64),
    /// Sleeps until `period` after the last wake-up by the same timer.
    Timer { name: String, period: u64 },
    /// Waits for an action of another thread.
    Wait,
    /// Takes no time of its own.
    Other,
}

/// Reads the phases of `thread`; without `phases`, its own events are the only phase.
pub(super) fn phases(thread: &Member, notes: &mut Vec<Problem>) -> Checked<Vec<Phase>> {
    let members = object(thread)?;
    let Some(listed) = find(members, "phases") else {
        let times = times(members, Times::Finite(1))?;
        let events = events(thread, members, notes)?;
        // Without phases the loop of the thread and of its only phase are one number.
        return Ok([Phase { name: String::new(), times, events }].into());
    };
    let mut names = BTreeSet::new();
    let mut phases = Vec::new();
    for (at, phase) in object(listed)?.iter().enumerate() {
        let members = object(phase)?;
        let name = if names.insert(&phase.key) {
            phase.key.clone()
        } else {
            format!("{}#{at}", phase.key)
        };
        let times = times(members, Times::Finite(1))?;
        phases.push(Phase { name, times, events: events(phase, members, notes)? });
    }
    Ok(phases)
}

/// Returns true if the thread starts again after its last phase.
pub(super) fn starts_again(thread: &[Member]) -> Checked<bool> {
    Ok(match find(thread, "phases") {
        Some(_) => times(thread, Times::Endless)? != Times::Finite(1),
        // The number belongs to the only phase, which does not start again.
        None => find(thread, "loop").is_none(),
    })
}

fn times(members: &[Member], default: Times) -> Checked<Times> {
    Ok(match find(members, "loop") {
        None => default,
        Some(member) => u64::try_from(int(member)?).map_or(Times::Endless, Times::Finite),
    })
}

/// The prefixes that make a key an event in rt-app, and the kinds of event. `runtime` and `run`,
/// `memrun` and `mem` do not differ here.
const EVENTS: [(&str, Kind); 19] = [
    ("lock", Kind::Lock),
    ("unlock", Kind::Lock),
    ("wait", Kind::Wait),
    ("signal", Kind::Wake),
    ("broad", Kind::Wake),
    ("sync", Kind::Wait),
    ("sleep", Kind::Sleep),
    ("run", Kind::Run),
    ("timer", Kind::Timer),
    ("suspend", Kind::Wait),
    ("resume", Kind::Wake),
    ("memrun", Kind::Device),
    ("mem", Kind::Device),
    ("iorun", Kind::Device),
    ("yield", Kind::Yield),
    ("barrier", Kind::Wait),
    ("fork", Kind::Fork),
    ("sem_post", Kind::Wake),
    ("sem_wait", Kind::Wait),
];

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Run,
    Sleep,
    Timer,
    Lock,
    Wait,
    Wake,
    Device,
    Yield,
    Fork,
}

impl Kind {
    fn of(key: &str) -> Option<(&'static str, Self)> {
        // `lock_order` is a list in old files, not a lock.
        let event = |(prefix, _): &(&str, Self)| key.starts_with(prefix) && key != "lock_order";
        EVENTS.into_iter().find(event)
    }

    /// Explains why a contract cannot express such events; `None` if it can.
    fn left_out(self) -> Option<&'static str> {
        Some(match self {
            Self::Run | Self::Sleep | Self::Timer => return None,
            Self::Lock => "a contract has no locks: waiting for their holders is not in the bounds",
            Self::Wait => "how long it waits for other threads is not known and not in the bounds",
            Self::Wake => "a contract does not say which thread wakes which",
            Self::Device => "how long this takes is not stated, so the wcet is without it",
            Self::Yield => "a contract does not say where a thread gives up the CPU",
            Self::Fork => "how many threads this starts is not known, so none of them is in",
        })
    }
}

/// Returns true if rt-app reads `key` as an event.
pub(super) fn is_event(key: &str) -> bool {
    Kind::of(key).is_some()
}

/// Reads the events of `owner`, which must have one, and adds a note for each kind that is not
/// carried over.
fn events(owner: &Member, members: &[Member], notes: &mut Vec<Problem>) -> Checked<Vec<Event>> {
    let mut events = Vec::new();
    let mut left_out: BTreeMap<Kind, (&Member, usize)> = BTreeMap::new();
    for member in members {
        let Some((prefix, kind)) = Kind::of(&member.key) else { continue };
        events.push(Event { offset: member.offset, act: act(prefix, kind, member)? });
        left_out.entry(kind).or_insert((member, 0)).1 += 1;
    }
    if events.is_empty() {
        let name = printable(&owner.key);
        return problem(
            owner.offset,
            format!("\"{name}\" does nothing; write at least one event, such as \"run\" : 1000"),
        );
    }
    notes.extend(left_out.into_iter().filter_map(|(kind, (first, count))| {
        let (why, key) = (kind.left_out()?, printable(&first.key));
        let more =
            if count > 1 { format!(" (and {} more here)", count - 1) } else { String::new() };
        Some(Problem {
            offset: first.offset,
            text: format!("\"{key}\"{more} is not carried over: {why}"),
        })
    }));
    Ok(events)
}

fn act(prefix: &str, kind: Kind, member: &Member) -> Checked<Act> {
    let wants_object = matches!(prefix, "timer" | "wait" | "sync" | "memrun");
    Ok(match kind {
        Kind::Run => Act::Run(nanos(member)?),
        Kind::Sleep => Act::Sleep(nanos(member)?),
        Kind::Timer => timer(member)?,
        _ if wants_object => {
            object(member)?;
            if kind == Kind::Wait { Act::Wait } else { Act::Other }
        }
        // rt-app ignores the value.
        Kind::Yield => Act::Other,
        _ if prefix == "suspend" => Act::Wait,
        Kind::Device => int(member).map(|_| Act::Other)?,
        _ => {
            text(member)?;
            if kind == Kind::Wait { Act::Wait } else { Act::Other }
        }
    })
}

/// Reads `{ "ref" : "tick", "period" : 6000 }`. The mode only says what happens after a late job.
fn timer(member: &Member) -> Checked<Act> {
    let members = object(member)?;
    let name = find(members, "ref").map(text).transpose()?.unwrap_or("unknown").into();
    let period = find(members, "period").map(nanos).transpose()?.unwrap_or(0);
    Ok(Act::Timer { name, period })
}

/// Returns the members of an object.
pub(super) fn object(member: &Member) -> Checked<&[Member]> {
    match &member.node.value {
        Value::Object(members) => Ok(members),
        _ => wrong_kind(member, "an object in { }"),
    }
}

/// Returns a text; empty for a key without value, as in rt-app's own files.
pub(super) fn text(member: &Member) -> Checked<&str> {
    match &member.node.value {
        Value::Text(text) => Ok(text),
        Value::Absent => Ok(""),
        _ => wrong_kind(member, "text in quotes"),
    }
}

/// Returns the entries of a list.
pub(super) fn list(member: &Member) -> Checked<&[Node]> {
    match &member.node.value {
        Value::List(nodes) => Ok(nodes),
        _ => wrong_kind(member, "a list in [ ]"),
    }
}

/// Returns a whole number.
pub(super) fn int(member: &Member) -> Checked<i64> {
    match member.node.value {
        Value::Int(number) => Ok(number),
        _ => wrong_kind(member, "a whole number"),
    }
}

/// Reads microseconds as nanoseconds; at most a day, as everywhere in contracts.
pub(super) fn nanos(member: &Member) -> Checked<u64> {
    let given = int(member)?;
    let nanos = u64::try_from(given).ok().and_then(|micros| micros.checked_mul(1000));
    nanos.filter(|&nanos| nanos <= MAX_NANOS).ok_or_else(|| Problem {
        offset: member.node.offset,
        text: format!(
            "{} is {given}; it must be from 0 to {} microseconds, a day",
            printable(&member.key),
            MAX_NANOS / 1000
        ),
    })
}

fn wrong_kind<T>(member: &Member, wanted: &str) -> Checked<T> {
    let (key, kind) = (printable(&member.key), member.node.value.kind());
    problem(member.node.offset, format!("\"{key}\" takes {wanted}, not {kind}"))
}
