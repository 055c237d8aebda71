//! What root observes of a broker and its hostile users.

use punctual_linux::clock;
use punctual_model::{Duration, Instant};

use super::life::UserRecord;
use super::{Bounds, MEMORY_KB};
use crate::hostile::broker::{Broker, Holds, QUOTA_GRANTS, QUOTA_PPM};
use crate::hostile::groups;
use crate::hostile::person::person_of;
use crate::live;

/// The time between two checks.
const LOOK: Duration = Duration::from_millis(150);

/// The most problems that are reported.
const MOST: usize = 10;

/// Checks repeatedly, until the given time, what each person holds. Returns what took too long and
/// any other violation.
pub(super) fn until(
    until: Instant,
    broker: &Broker,
    before: Holds,
    bounds: Bounds,
) -> (Vec<String>, Vec<String>) {
    let (mut late, mut problems) = (Vec::new(), Vec::new());
    while clock::now() < until && problems.len() < MOST {
        let began = clock::now();
        let held = broker.held();
        let waited_ms = clock::now().saturating_since(began).as_nanos() / 1_000_000;
        if waited_ms > bounds.worst_ms && late.len() < MOST {
            late.push(format!("root waited {waited_ms} ms for the status"));
        }
        for (person, (ppm, grants)) in held {
            if ppm > QUOTA_PPM || grants > QUOTA_GRANTS {
                problems.push(format!("user {person} holds {ppm} ppm by {grants} grants"));
            }
        }
        let mut channels = std::collections::BTreeMap::<u32, u64>::new();
        for channel in broker.channels().channels {
            *channels.entry(person_of(channel.uid)).or_default() += 1;
        }
        for (person, count) in channels.into_iter().filter(|(_, count)| *count > QUOTA_GRANTS) {
            problems.push(format!("user {person} has {count} channels"));
        }
        let memory_kb = broker.holds().memory_kb;
        if memory_kb > before.memory_kb + MEMORY_KB.0 {
            problems.push(format!("the broker holds {memory_kb} KiB"));
        }
        clock::sleep(LOOK);
    }
    (late, problems)
}

/// Waits until the hostile users, which have released everything, hold nothing while their
/// processes live. Returns what they still hold.
pub(super) fn rest(users: &[u32], broker: &Broker, lives: &[UserRecord]) -> Vec<String> {
    let mut problems = Vec::new();
    let held = || {
        let mut held = broker.held();
        held.retain(|person, _| users.contains(person));
        let mut channels = broker.channels().channels;
        channels.retain(|channel| users.contains(&person_of(channel.uid)));
        (held, channels)
    };
    if !live::eventually(|| held().0.is_empty() && held().1.is_empty()) {
        problems.push(format!("still held by clients without a connection: {:?}", held()));
    }
    // A thread of a reservation leaves its class only by itself; these threads do not leave it.
    let fifo = |one: &UserRecord| groups::of_class(groups::threads_of(one.group()), "SCHED_FIFO");
    let raised = || lives.iter().flat_map(fifo).collect::<Vec<_>>();
    if !live::eventually(|| raised().is_empty()) {
        for thread in raised() {
            let (log, of_it) = (broker.log(), format!(" thread={thread} "));
            let lines: Vec<&str> = log.lines().filter(|line| line.contains(&of_it)).collect();
            let lines = lines.join("\n");
            problems.push(format!("thread {thread} is still above ordinary work:\n{lines}"));
        }
    }
    problems
}
