//! Upcalls of a contract, with a handler that uses all of the time that was declared: the contract is
//! tried without its programs.

use std::fs;

use punctual_linux::clock;
use punctual_model::{Contract, Handler, HostProfile, Instant, Service, Upcall};
use punctual_observe::Session;
use punctual_runtime::{Placement, Running, Upcalls};
use punctual_trace::{Event, Promise, Subject, SubjectKind};

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

/// Upcalls that run.
pub(super) struct Synthetic {
    running: Running<Busy>,
    /// The number in the session of each.
    numbers: Vec<u32>,
    lost: u64,
}

impl Synthetic {
    /// None if the contract has none.
    pub(super) fn start(
        contract: &Contract,
        host: HostProfile,
        session: &mut Session,
    ) -> Result<Option<Self>, Failure> {
        if contract.upcalls.is_empty() {
            return Ok(None);
        }
        let mut upcalls = Upcalls::new(Placement::Upcalls, host);
        for upcall in &contract.upcalls {
            let handler = Busy { time_per_pdu: upcall.time_per_pdu() };
            upcalls.create(upcall.clone(), handler).map_err(Failure::cannot_here)?;
        }
        let before = threads();
        let running = upcalls.run(clock::now()).map_err(Failure::cannot_here)?;
        let thread = threads().into_iter().find(|tid| !before.contains(tid));
        let subject = |upcall: &Upcall| {
            let mut subject = Subject::new(upcall.name(), SubjectKind::Upcall);
            subject.promise = Promise {
                period: Some(upcall.period()),
                relative_deadline: Some(upcall.period()),
                wcet: Some(upcall.batch_service()),
            };
            subject.thread = thread;
            session.add(subject)
        };
        let numbers = contract.upcalls.iter().map(subject).collect();
        Ok(Some(Self { running, numbers, lost: 0 }))
    }

    /// What happened since the last call.
    pub(super) fn tell(&mut self, session: &mut Session) {
        let numbers = &self.numbers;
        for event in self.running.drain() {
            record(session, numbers, event);
        }
        let lost = self.running.events_lost();
        if lost > self.lost {
            session.lost(lost - self.lost);
            self.lost = lost;
        }
    }

    /// The end: what was not complete is told too.
    pub(super) fn stop(self, session: &mut Session) -> Result<(), Failure> {
        let Self { running, numbers, lost } = self;
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
        Ok(())
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
