//! Runs the tasks and upcalls of a contract without its programs: all as upcalls, which is the one
//! form that the runtime runs, with a handler that uses all of the declared time.

use std::fs;

use punctual_analysis::Grant;
use punctual_linux::clock;
use punctual_linux::thread;
use punctual_model::contract::Policy;
use punctual_model::{Contract, Handler, HostProfile, Instant, Service, Task, Upcall, UpcallSpec};
use punctual_observe::Session;
use punctual_runtime::{Placement, Running, Upcalls};
use punctual_trace::{Event, Promise, Subject, SubjectKind};

use crate::Failure;

/// The name that the runtime gives to threads that run upcalls.
const THREAD: &str = "upcalls";

/// A handler that uses the declared time, less the cost of calling it.
struct Busy {
    time_per_pdu: Service,
}

/// The most that the runtime itself takes of each PDU's time: one part in this many.
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

/// The running groups.
pub(super) struct Synthetic(Vec<Group>);

/// The upcalls of one CPU, on one thread.
struct Group {
    running: Running<Busy>,
    /// The number of each upcall in the session.
    numbers: Vec<u32>,
    lost: u64,
}

impl Synthetic {
    /// Runs all tasks and upcalls of `contract`, whose streams must be expanded, and returns those
    /// that it cannot run. A contract for one CPU may run on any CPU; a contract for several is
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

    /// Passes the events since the last call to the session.
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

    /// Ends the upcalls, and records jobs that were not complete.
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
    /// Starts one thread with all upcalls that the runtime admits, on that CPU or on any.
    fn start(
        all: &[&Declared],
        cpu: Option<usize>,
        allowed: &[usize],
        host: HostProfile,
        session: &mut Session,
        undriven: &mut Vec<Undriven>,
    ) -> Result<Option<Self>, Failure> {
        // This handler always returns, so admission needs no grace for one that does not.
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
        // A new thread begins on the CPUs of the thread that starts it.
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

/// Returns the threads of this process that run upcalls.
fn threads() -> Vec<u32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let tids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    let is_it = |tid: &u32| {
        let name = fs::read_to_string(format!("/proc/self/task/{tid}/comm"));
        name.is_ok_and(|name| name.trim_end() == THREAD)
    };
    tids.filter(is_it).collect()
}

/// The work between two yield points for a task that can be preempted anywhere.
const GRAIN: Service = Service::from_micros(100);

/// An entry to be run with synthetic work.
#[derive(Clone, Debug)]
struct Declared {
    upcall: Upcall,
    kind: SubjectKind,
    promise: Promise,
    /// The CPU on which admission placed it, from 0.
    cpu: u16,
}

/// An entry that cannot be run: its name, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Undriven {
    pub(super) name: String,
    pub(super) why: String,
}

/// Returns all entries of `contract` that have jobs, placed as `grant` says. The contract's streams
/// must be expanded.
fn declared(contract: &Contract, grant: &Grant) -> (Vec<Declared>, Vec<Undriven>) {
    let (mut all, mut not) = (Vec::new(), Vec::new());
    let served = served(contract);
    for (task, granted) in contract.tasks.iter().zip(&grant.tasks) {
        let name = task.name().to_owned();
        let own = contract.upcalls.iter().find(|upcall| upcall.name() == name);
        let upcall = match (&served, own) {
            (Err(why), _) => Err((*why).to_owned()),
            (Ok(()), Some(upcall)) => Ok(upcall.clone()),
            (Ok(()), None) => as_upcall(task),
        };
        match upcall {
            Err(why) => not.push(Undriven { name, why }),
            Ok(upcall) => all.push(Declared {
                upcall,
                kind: if own.is_some() { SubjectKind::Upcall } else { SubjectKind::Task },
                promise: Promise {
                    period: Some(task.min_inter_arrival()),
                    relative_deadline: Some(task.relative_deadline()),
                    wcet: Some(task.wcet()),
                },
                cpu: granted.cpu,
            }),
        }
    }
    (all, not)
}

/// Returns an error if the runtime, in which the shorter period goes first, does not serve tasks in
/// the contract's order.
fn served(contract: &Contract) -> Result<(), &'static str> {
    match contract.policy {
        Policy::Rmdp | Policy::Rm => Ok(()),
        Policy::Fp if contract.tasks.is_sorted_by_key(Task::min_inter_arrival) => Ok(()),
        Policy::Fp => {
            Err("the runtime puts shorter periods first, and fp puts a longer one first here")
        }
        Policy::Edf => Err("the runtime puts shorter periods first; edf is only simulated"),
        Policy::EdfVd => Err("the runtime puts shorter periods first; edf-vd is only simulated"),
        Policy::Fifo => Err("the runtime puts shorter periods first; fifo is only simulated"),
    }
}

/// Makes an upcall of a task. Between two yield points it works as long as the task in its longest
/// stretch without one.
fn as_upcall(task: &Task) -> Result<Upcall, String> {
    let stretch = if task.quantum().is_zero() { GRAIN } else { task.quantum() };
    let wcet = task.wcet().as_nanos();
    let batch = u32::try_from(wcet.div_ceil(stretch.as_nanos())).unwrap_or(u32::MAX);
    let upcall = Upcall::new(UpcallSpec {
        name: task.name().to_owned(),
        period: task.min_inter_arrival(),
        batch,
        quantum: 1,
        time_per_pdu: Service::from_nanos((wcet / u64::from(batch)).max(1)),
    });
    upcall.map_err(|why| format!("it cannot be run as an upcall: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_analysis::{admit, mapping};
    use punctual_model::{Duration, HostProfile};

    fn of(text: &str) -> (Vec<Declared>, Vec<Undriven>) {
        let contract = Contract::parse("test", text.as_bytes()).expect("valid");
        let host = HostProfile::ideal(4);
        let grant = admit(&contract, &host).expect("admitted");
        let (contract, _) = mapping::expand(&contract, &host).expect("mapped");
        declared(&contract, &grant)
    }

    #[test]
    fn a_task_gives_way_as_often_as_it_says_and_needs_no_more_than_it_says() {
        let (all, not) = of(include_str!("../../../../examples/studio.toml"));
        assert_eq!(not, []);
        let of_each = |one: &Declared| {
            let upcall = &one.upcall;
            (one.kind, upcall.quantum_service(), upcall.batch_service(), upcall.period())
        };
        let (us, ms) = (Service::from_micros, Duration::from_millis);
        let expected = [
            (SubjectKind::Task, us(100), us(1_000), ms(10)),
            (SubjectKind::Task, us(500), us(11_000), ms(40)),
            (SubjectKind::Upcall, us(300), us(1_200), ms(20)),
        ];
        assert_eq!(all.iter().map(of_each).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn tasks_are_not_run_in_another_order_than_the_contracts() {
        let two = |policy: &str, first: u32, second: u32| {
            let task = |name, period| {
                format!(
                    "[[task]]\nname = \"{name}\"\nperiod = \"{period}ms\"\nwcet = \"1ms\"\n\
                     relative_deadline = \"8ms\"\n"
                )
            };
            let text = format!("[system]\npolicy = \"{policy}\"\n");
            of(&(text + &task("a", first) + &task("b", second)))
        };
        for (policy, first, second, run) in
            [("rm", 20, 10, 2), ("fp", 10, 20, 2), ("fp", 20, 10, 0), ("edf", 10, 20, 0)]
        {
            let (all, not) = two(policy, first, second);
            assert_eq!((all.len(), not.len()), (run, 2 - run), "{policy} {first} {second}");
            for one in all {
                assert_eq!(one.promise.relative_deadline, Some(Duration::from_millis(8)));
            }
        }
    }

    #[test]
    fn a_stream_is_run_as_the_upcall_that_it_became() {
        let (all, not) = of(include_str!("../../../../examples/stream.toml"));
        assert_eq!(not, []);
        let names: Vec<_> = all.iter().map(|one| (one.upcall.name(), one.kind)).collect();
        assert!(names.contains(&("camera", SubjectKind::Upcall)), "{names:?}");
        assert_eq!(names.len(), 4);
    }
}
