//! Makes a contract from the tree of a workload.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::entries::{self, Entry};
use super::problem::{Checked, Problem, printable, problem};
use super::rate::{self, Jobs};
use super::reader::{Member, Node, Value, find};
use super::scheduling::{self, Class, Named, left_out};
use super::threads::{self, int, is_event, list, nanos, object};
use crate::Contract;
use crate::contract::MAX_CPUS;

const NO_INSTANCES: &str = "it has no instances of its own";

/// The number of threads that the message names if none can be carried over.
const NAMED: usize = 4;

/// Makes the contract of the document `root`.
pub(super) fn contract(root: &Node, notes: &mut Vec<Problem>) -> Checked<Contract> {
    let Value::Object(members) = &root.value else {
        let kind = root.value.kind();
        return problem(root.offset, format!("a workload is an object in {{ }}, not {kind}"));
    };
    let mut default = Named::Ordinary(0);
    let mut seen = BTreeSet::new();
    for member in members {
        match member.key.as_str() {
            key if !seen.insert(key) => left_out(member, "the first one holds", notes),
            "tasks" => {}
            "global" => default = global(member, notes)?,
            "resources" => left_out(member, "rt-app makes them when they are first used", notes),
            _ => left_out(member, "it is no part of a workload", notes),
        }
    }
    let Some(tasks) = find(members, "tasks") else {
        return problem(root.offset, "there are no \"tasks\" here, which hold the threads");
    };
    let threads = object(tasks)?;
    if threads.is_empty() {
        return problem(tasks.offset, "there is no thread in \"tasks\": nothing to promise");
    }
    let mut shared = Shared { default, cpus: BTreeSet::new(), names: Names::of(threads) };
    let mut carried = Vec::new();
    let mut reasons = Vec::new();
    for thread in threads {
        match shared.thread(thread, notes)? {
            Ok(entry) => carried.push(entry),
            Err(why) => {
                let name = printable(&thread.key);
                if reasons.len() < NAMED {
                    reasons.push(format!("\"{name}\": {why}"));
                }
                let text = format!("\"{name}\" is not carried over: {why}");
                notes.push(Problem { offset: thread.offset, text });
            }
        }
    }
    if carried.is_empty() {
        let more = if threads.len() > reasons.len() { "; and so on" } else { "" };
        let reasons = reasons.join("; ");
        return problem(
            tasks.offset,
            format!("no thread here has a rate, so there is nothing to promise: {reasons}{more}"),
        );
    }
    if shared.cpus.is_empty() {
        let text = "no thread says on which \"cpus\" it may run: the contract asks for one CPU";
        notes.push(Problem { offset: tasks.offset, text: text.into() });
    }
    // At most one for each number below MAX_CPUS.
    let cpus = shared.cpus.len().max(1) as u16;
    entries::contract(carried, cpus, notes)
}

/// Returns the default policy, and adds one note for everything else in `global`.
fn global(global: &Member, notes: &mut Vec<Problem>) -> Checked<Named> {
    let members = object(global)?;
    let others: Vec<String> = members
        .iter()
        .filter(|member| member.key != "default_policy")
        .map(|member| printable(&member.key))
        .collect();
    if !others.is_empty() {
        let text = format!(
            "not carried over, because it is about the experiment and not about the work: {}",
            others.join(", ")
        );
        notes.push(Problem { offset: global.offset, text });
    }
    let policy = find(members, "default_policy").map(scheduling::named).transpose()?;
    Ok(policy.unwrap_or(Named::Ordinary(0)))
}

/// The owner of a group of settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// `has_period`: `period` and `deadline` have a meaning there, as in old files.
    Thread {
        has_period: bool,
    },
    Phase,
}

/// The state that all threads share.
struct Shared {
    default: Named,
    /// Every CPU that any thread names.
    cpus: BTreeSet<i64>,
    names: Names,
}

impl Shared {
    /// Returns an entry, or the reason that there is none.
    fn thread(
        &mut self,
        thread: &Member,
        notes: &mut Vec<Problem>,
    ) -> Checked<Result<Entry, &'static str>> {
        let members = object(thread)?;
        let name = self.names.unique(&thread.key);
        let instance = find(members, "instance");
        let count = instance.map(int).transpose()?.unwrap_or(1);
        let instances_at = instance.map_or(thread.offset, |member| member.node.offset);
        let Ok(instances) = u64::try_from(count) else {
            return problem(instances_at, format!("instance is {count}; it must be 0 or more"));
        };
        let class = scheduling::class(thread, self.default, notes)?;
        let old = old_style(members)?;
        let reserved = matches!(class, Class::Reserved(_));
        self.settings(members, Level::Thread { has_period: old.is_some() || reserved }, notes)?;
        let rate = match old {
            Some(_) if instances == 0 => Err(NO_INSTANCES),
            Some(jobs) => Ok([jobs].into()),
            None => {
                let phases = threads::phases(thread, notes)?;
                for phase in find(members, "phases").map(object).transpose()?.unwrap_or_default() {
                    self.settings(object(phase)?, Level::Phase, notes)?;
                }
                let again = threads::starts_again(members)?;
                let shown = printable(&name);
                if instances == 0 {
                    Err(NO_INSTANCES)
                } else if reserved {
                    let text = format!(
                        "\"{shown}\" is a reservation in the contract: whether what it runs fits \
                         inside is not looked at"
                    );
                    notes.push(Problem { offset: thread.offset, text });
                    Ok(Vec::new())
                } else {
                    rate::of(&shown, thread.offset, &phases, again, notes)?
                }
            }
        };
        Ok(rate.map(|jobs| Entry {
            name,
            offset: thread.offset,
            instances,
            instances_at,
            class,
            jobs,
        }))
    }

    /// Adds a note for every setting of a thread or phase that a contract cannot express.
    fn settings(
        &mut self,
        members: &[Member],
        level: Level,
        notes: &mut Vec<Problem>,
    ) -> Checked<()> {
        let has_phases = find(members, "phases").is_some();
        let mut seen = BTreeSet::new();
        for member in members {
            let key = member.key.as_str();
            if is_event(key) {
                if has_phases {
                    left_out(member, "rt-app ignores it beside phases", notes);
                }
                continue;
            }
            if !seen.insert(key) {
                left_out(member, "the first one holds", notes);
                continue;
            }
            let why = match key {
                "instance" | "phases" => continue,
                "exec" | "period" | "deadline" if level == Level::Thread { has_period: true } => {
                    continue;
                }
                key if scheduling::KEYS.contains(&key) => continue,
                "loop" if level == Level::Phase || int(member)? < 0 => continue,
                "loop" => "in a contract, work has no end",
                "cpus" => {
                    self.cpus(member)?;
                    "the contract asks for as many CPUs as the file names, and admission places"
                }
                "delay" => "a contract assumes the worst start, all at once",
                "taskgroup" | "util_min" | "util_max" => "it promises nothing",
                "nodes_membind" => "a contract does not place memory",
                "lock_order" | "resources" => {
                    "a contract has no locks: waiting for their holders is not in the bounds"
                }
                _ => "rt-app knows no such key",
            };
            left_out(member, why, notes);
        }
        Ok(())
    }

    fn cpus(&mut self, member: &Member) -> Checked<()> {
        for node in list(member)? {
            match node.value {
                Value::Int(cpu) if (0..i64::from(MAX_CPUS)).contains(&cpu) => self.cpus.insert(cpu),
                _ => {
                    let most = MAX_CPUS - 1;
                    return problem(node.offset, format!("a CPU is a number from 0 to {most}"));
                }
            };
        }
        Ok(())
    }
}

/// Reads a thread of rt-app's old files: `exec` every `period`, by `deadline`.
fn old_style(members: &[Member]) -> Checked<Option<Jobs>> {
    let (Some(exec), Some(period)) = (find(members, "exec"), find(members, "period")) else {
        return Ok(None);
    };
    if find(members, "phases").is_some() || members.iter().any(|member| is_event(&member.key)) {
        return Ok(None);
    }
    let (wcet, period) = (nanos(exec)?, nanos(period)?);
    let relative_deadline = find(members, "deadline").map(nanos).transpose()?.unwrap_or(period);
    let suffix = String::new();
    Ok(Some(Jobs { suffix, period, wcet, release_jitter: 0, relative_deadline }))
}

/// Appends a number to a repeated name, as rt-app's own tool does.
struct Names {
    taken: BTreeSet<String>,
    /// The last number given to each name, 0 for its first occurrence.
    given: BTreeMap<String, u32>,
}

impl Names {
    fn of(threads: &[Member]) -> Self {
        Self {
            taken: threads.iter().map(|thread| thread.key.clone()).collect(),
            given: BTreeMap::new(),
        }
    }

    fn unique(&mut self, name: &str) -> String {
        let Some(number) = self.given.get_mut(name) else {
            self.given.insert(name.into(), 0);
            return name.into();
        };
        // Each round meets a taken name that begins with this one, so there are few.
        loop {
            *number += 1;
            let candidate = format!("{name}{number}");
            if self.taken.insert(candidate.clone()) {
                return candidate;
            }
        }
    }
}
