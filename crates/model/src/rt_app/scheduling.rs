//! The scheduling class of a thread.

use alloc::format;
use alloc::vec::Vec;

use super::problem::{Checked, Problem, printable, problem};
use super::reader::{Member, find};
use super::threads::{int, nanos, object, text};
use crate::{Duration, Reservation, Service};

/// The kernel's scheduling class of a thread, as far as a contract can express it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// SCHED_DEADLINE.
    Reserved(Reservation),
    /// SCHED_FIFO or SCHED_RR: 99 is the most urgent.
    RealTime(u8),
    /// Any other class: 0 for SCHED_OTHER, then SCHED_BATCH, then SCHED_IDLE.
    Ordinary(u8),
}

/// A policy by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Fifo,
    RoundRobin,
    Deadline,
    Ordinary(u8),
}

const POLICIES: [(&str, Named); 6] = [
    ("SCHED_OTHER", Named::Ordinary(0)),
    ("SCHED_BATCH", Named::Ordinary(1)),
    ("SCHED_IDLE", Named::Ordinary(2)),
    ("SCHED_RR", Named::RoundRobin),
    ("SCHED_FIFO", Named::Fifo),
    ("SCHED_DEADLINE", Named::Deadline),
];

/// rt-app's priority for a thread under SCHED_FIFO or SCHED_RR that names none.
const DEFAULT_PRIORITY: i64 = 10;

/// The keys that this module reads.
pub(super) const KEYS: [&str; 5] = ["policy", "priority", "dl-runtime", "dl-period", "dl-deadline"];

pub(super) fn named(member: &Member) -> Checked<Named> {
    let name = text(member)?;
    match POLICIES.into_iter().find(|(known, _)| *known == name) {
        Some((_, policy)) => Ok(policy),
        None => problem(
            member.node.offset,
            format!(
                "unknown policy \"{}\"; choose SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_RR, \
                 SCHED_FIFO or SCHED_DEADLINE",
                printable(name)
            ),
        ),
    }
}

/// Returns the class of `thread`: its own, else that of its first phase that names a policy, else
/// `default`. Every other class in the thread becomes a note.
pub(super) fn class(thread: &Member, default: Named, notes: &mut Vec<Problem>) -> Checked<Class> {
    let own = object(thread)?;
    let phases = find(own, "phases").map(object).transpose()?.unwrap_or_default();
    let mut source = own;
    for phase in phases {
        let members = object(phase)?;
        let says_more = members.iter().find(|member| KEYS.contains(&member.key.as_str()));
        let Some(first) = says_more else { continue };
        if find(source, "policy").is_none() && find(members, "policy").is_some() {
            source = members;
            continue;
        }
        left_out(first, "a thread has one scheduling class in a contract", notes);
    }
    let policy = find(source, "policy").map(named).transpose()?.unwrap_or(default);
    let priority = find(source, "priority");
    let given = priority.map(int).transpose()?;
    if let (Some(priority), Named::Ordinary(_) | Named::Deadline) = (priority, policy) {
        left_out(priority, "a nice value promises nothing", notes);
    }
    Ok(match policy {
        Named::Fifo | Named::RoundRobin => {
            if let (Named::RoundRobin, Some(member)) = (policy, find(source, "policy")) {
                left_out(
                    member,
                    "threads do not take turns in a contract, so it is SCHED_FIFO",
                    notes,
                );
            }
            let given = given.unwrap_or(DEFAULT_PRIORITY);
            match u8::try_from(given) {
                Ok(priority @ 1..=99) => Class::RealTime(priority),
                _ => {
                    // Without a key the priority is the default, which is valid.
                    let offset = priority.map_or(thread.offset, |member| member.node.offset);
                    return problem(
                        offset,
                        format!(
                            "priority is {given}; under SCHED_FIFO and SCHED_RR it is from 1 to 99"
                        ),
                    );
                }
            }
        }
        Named::Deadline => Class::Reserved(reservation(thread, source, notes)?),
        Named::Ordinary(rank) => {
            for key in &KEYS[2..] {
                if let Some(member) = find(source, key) {
                    left_out(member, "a slice length promises nothing", notes);
                }
            }
            Class::Ordinary(rank)
        }
    })
}

/// Reads `dl-runtime` every `dl-period`, or the names that rt-app keeps for old files.
fn reservation(
    thread: &Member,
    source: &[Member],
    notes: &mut Vec<Problem>,
) -> Checked<Reservation> {
    let named = |key: &str, old: &str| {
        let positive = |member: &&Member| !matches!(nanos(member), Ok(0));
        find(source, key).filter(positive).or_else(|| find(source, old))
    };
    let Some(runtime) = named("dl-runtime", "runtime") else {
        let name = printable(&thread.key);
        return problem(
            find(source, "policy").map_or(thread.offset, |member| member.offset),
            format!("\"{name}\" is under SCHED_DEADLINE without a \"dl-runtime\""),
        );
    };
    let budget = nanos(runtime)?;
    let period_at = named("dl-period", "period");
    let period = period_at.map(nanos).transpose()?.unwrap_or(budget);
    let deadline_at = named("dl-deadline", "deadline");
    let deadline = deadline_at.map(nanos).transpose()?.unwrap_or(period);
    if let Some(member) = deadline_at {
        let (deadline, period) = (Duration::from_nanos(deadline), Duration::from_nanos(period));
        if deadline > period {
            return problem(
                member.node.offset,
                format!(
                    "the deadline {deadline} is above the period {period}, which Linux refuses"
                ),
            );
        }
        if deadline < period {
            notes.push(Problem {
                offset: member.offset,
                text: format!(
                    "a reservation has no deadline before its period: the contract asks for the \
                     budget every {deadline} instead of every {period}, which is more"
                ),
            });
        }
    }
    // The budget in every interval of the deadline's length includes the budget by the deadline in
    // every period.
    Reservation::new(Service::from_nanos(budget), Duration::from_nanos(deadline))
        .or_else(|error| problem(runtime.node.offset, format!("{error}")))
}

/// Notes that `member` is not carried over.
pub(super) fn left_out(member: &Member, why: &str, notes: &mut Vec<Problem>) {
    let key = printable(&member.key);
    let text = format!("\"{key}\" is not carried over: {why}");
    notes.push(Problem { offset: member.offset, text });
}
