//! Tasks and upcalls of a contract, with a handler that uses all of the time that was declared: the
//! contract is tried without its programs.

use std::fs;

use punctual_analysis::Grant;
use punctual_linux::clock;
use punctual_linux::thread;
use punctual_model::{Contract, Handler, HostProfile, Instant, Service};
use punctual_observe::Session;
use punctual_runtime::{Placement, Running, Upcalls};
use punctual_trace::{Event, Subject};

use super::declared::{Declared, Undriven, declared};
use crate::exit::Failure;

/// As the runtime calls the thread that runs upcalls.
const THREAD: &str = "upcalls";

/// Uses what was declared, less what calling it costs.
struct Busy {
    time_per_pdu: Service,
}

/// What the runtime itself takes of each PDU's time at most: a part in so many.
const OWN_PART: u64 = 20;

impl Handler for Busy {
    fn iterate(&mut self, _: Instant, pdus: u32) -> u32 {
        let each = self.time_per_pdu.as_nanos() - self.time_per_pdu.as_nanos() / OWN_PART;
        let until = clock::thread_cpu_time() + Service::from_nanos(each * u64::from(pdus));
        while clock::thread_cpu_time() < until {
            std::hint::spin_loop();
        }
        pdus
    }
}

/// What runs.
pub(super) struct Synthetic(Vec<Group>);

/// Those of one CPU: a thread of upcalls.
struct Group {
    running: Running<Busy>,
    /// The number in the session of each.
    numbers: Vec<u32>,
    lost: u64,
}

impl Synthetic {
    /// Runs all tasks and upcalls of a contract whose streams were expanded, if it has any, and says
    /// which it cannot. What was admitted for one CPU may run on any, what was admitted for several is
    /// bound to its own.
    pub(super) fn start(
        contract: &Contract,
        grant: &Grant,
        host: HostProfile,
        session: &mut Session,
    ) -> Result<(Option<Self>, Vec<Undriven>), Failure> {
        let (all, mut undriven) = declared(contract, grant);
        let mut groups = Vec::new();
        let mut cpus: Vec<u16> = all.iter().map(|one| one.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        let allowed = thread::affinity();
        for cpu in cpus {
            let here: Vec<&Declared> = all.iter().filter(|one| one.cpu == cpu).collect();
            let bound = match allowed.get(usize::from(cpu)) {
                _ if contract.cpus == 1 => None,
                Some(&bound) => Some(bound),
                None => {
                    undriven.extend(here.into_iter().map(|one| Undriven {
                        name: one.upcall.name().to_owned(),
                        why: format!(
                            "it was admitted on CPU {cpu}, and there are {}",
                            allowed.len()
                        ),
                    }));
                    continue;
                }
            };
            let group = Group::start(&here, bound, &allowed, host, session, &mut undriven)?;
            groups.extend(group);
        }
        let is_there = !groups.is_empty();
        Ok((is_there.then_some(Self(groups)), undriven))
    }

    /// What happened since the last call.
    pub(super) fn tell(&mut self, session: &mut Session) {
        for group in &mut self.0 {
            for event in group.running.drain() {
                record(session, &group.numbers, event);
            }
            let lost = group.running.events_lost();
            if lost > group.lost {
                session.lost(lost - group.lost);
                group.lost = lost;
            }
        }
    }

    /// The end: what was not complete is told too.
    pub(super) fn stop(self, session: &mut Session) -> Result<(), Failure> {
        for Group { running, numbers, lost } in self.0 {
            let stopped = running.stop().map_err(Failure::cannot_here)?;
            for event in stopped.events {
                record(session, &numbers, event);
            }
            if stopped.events_lost > lost {
                session.lost(stopped.events_lost - lost);
            }
            let end = clock::now();
            for mut backlog in stopped.unfinished {
                if let Some(&number) = numbers.get(backlog.oldest.task as usize) {
                    backlog.oldest.task = number;
                    session.unfinished(backlog, end);
                }
            }
        }
        Ok(())
    }
}

impl Group {
    /// One thread that runs all of them that the runtime admits, on that CPU or on any.
    fn start(
        all: &[&Declared],
        cpu: Option<usize>,
        allowed: &[usize],
        host: HostProfile,
        session: &mut Session,
        undriven: &mut Vec<Undriven>,
    ) -> Result<Option<Self>, Failure> {
        // This handler comes back: admission counted no grace for one that does not.
        let mut upcalls = Upcalls::new(Placement::Upcalls, host).without_containment();
        let mut members = Vec::new();
        for one in all {
            let handler = Busy { time_per_pdu: one.upcall.time_per_pdu() };
            match upcalls.create(one.upcall.clone(), handler) {
                Ok(_) => members.push(one),
                Err(why) => undriven.push(Undriven {
                    name: one.upcall.name().to_owned(),
                    why: format!("as an upcall it is {why}"),
                }),
            }
        }
        if members.is_empty() {
            return Ok(None);
        }
        let before = threads();
        // The thread is where the one is that starts it.
        if let Some(cpu) = cpu {
            thread::set_affinity(&[cpu]).map_err(Failure::cannot_here)?;
        }
        let running = upcalls.run(clock::now());
        if cpu.is_some() {
            thread::set_affinity(allowed).map_err(Failure::cannot_here)?;
        }
        let running = running.map_err(Failure::cannot_here)?;
        let tid = threads().into_iter().find(|tid| !before.contains(tid));
        let subject = |one: &&Declared| {
            session.add(Subject {
                promise: one.promise,
                thread: tid,
                cpu: cpu.and_then(|cpu| u16::try_from(cpu).ok()),
                ..Subject::new(one.upcall.name(), one.kind)
            })
        };
        let numbers = members.into_iter().map(subject).collect();
        Ok(Some(Self { running, numbers, lost: 0 }))
    }
}

fn record(session: &mut Session, numbers: &[u32], mut event: Event) {
    if let Some(&number) = numbers.get(event.job.task as usize) {
        event.job.task = number;
        session.record(event);
    }
}

/// Those of this process that run upcalls.
fn threads() -> Vec<u32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    let is_it = |tid: &u32| {
        let name = fs::read_to_string(format!("/proc/self/task/{tid}/comm"));
        name.is_ok_and(|name| name.trim_end() == THREAD)
    };
    tids.filter(is_it).collect()
}
