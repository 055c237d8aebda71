//! Any bytes as a trace file: never a panic, no memory for lies about lengths, and reading comes to an
//! end. A file of ours with bytes changed: what is read of it is what was written, or a damage.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use punctual_model::{Duration, Instant, JobId, Service};
use punctual_trace::cause::{FromEvents, LateJob, Share, Spent, Verdict, judge};
use punctual_trace::check::Checker;
use punctual_trace::constraint::{Answer, ConstraintRequest};
use punctual_trace::file::{Block, Lost, Reader, Run, Step, Writer};
use punctual_trace::kernel::{Class, Seen};
use punctual_trace::{Event, Kind, Sink, Subject, SubjectKind};

#[derive(Arbitrary, Debug)]
struct Input {
    rubbish: Vec<u8>,
    events: Vec<(u64, u32, u64, u64, u8, u64)>,
    asked: Vec<(u64, u32, u64, u64, u64, Option<u64>)>,
    causes: Vec<(u8, u32, [u8; 16], u64)>,
    deadline: u64,
    changes: Vec<(u32, u8)>,
}

fn blocks(file: &[u8]) -> Vec<Block> {
    let mut reader = Reader::new();
    let mut blocks = Vec::new();
    loop {
        match reader.step(file) {
            Ok(Step::Block(block)) => blocks.push(block),
            Ok(Step::Missing(_)) => {}
            Ok(Step::End { .. }) => return blocks,
            Err(_) if reader.skip(file).is_some() => {}
            Err(_) => return blocks,
        }
    }
}

/// Names are read as the text that was written.
fn verdict(input: &Input) -> Verdict {
    let at = Instant::from_nanos;
    let share = |&(cause, number, comm, nanos): &(u8, u32, [u8; 16], u64)| {
        let comm = comm.map(|byte| if byte == 0 { 0 } else { b' ' + byte % 94 });
        let name: String =
            comm.iter().take(15).take_while(|b| **b != 0).map(|b| *b as char).collect();
        let class = Class::of_kernel_prio(number as i32, number);
        let seen = Seen { tid: number, comm: (&*name).into(), class };
        let cause = match cause % 5 {
            0 => Spent::Other(seen),
            1 => Spent::SoftIrq(number as u8),
            2 => {
                Spent::Blocked { syscall: Some(number), uninterruptible: false, waker: Some(seen) }
            }
            3 => Spent::Subject(number),
            _ => Spent::Unknown,
        };
        let (took, share) = (Duration::from_nanos(nanos), Duration::from_nanos(nanos / 2));
        Share { cause, took, times: number, longest_at: at(nanos), share }
    };
    let job = JobId { task: 1, index: input.deadline };
    let (release, absolute_deadline, end) = (at(0), at(input.deadline), at(u64::MAX));
    let late = LateJob { job, release, absolute_deadline, end, wcet: None };
    Verdict { late, own: Duration::ZERO, shares: input.causes.iter().map(share).collect() }
}

fn asked(input: &Input) -> Vec<ConstraintRequest> {
    let at = Instant::from_nanos;
    let refused = |nanos| Answer::Refused { largest_estimate: Service::from_nanos(nanos) };
    let one = |&(start, task, index, estimate, deadline, largest)| ConstraintRequest {
        at: at(index),
        job: JobId { task, index },
        start: at(start),
        estimate: Service::from_nanos(estimate),
        deadline: at(deadline),
        // Nobody grants what is due before it begins.
        answer: match largest {
            None if deadline > start => Answer::Granted,
            _ => refused(largest.unwrap_or(estimate)),
        },
    };
    input.asked.iter().map(one).collect()
}

/// Whatever a file says, it is judged, and shares add up.
fn judged(blocks: &[Block], deadline: u64) {
    let (mut checker, mut seen) = (Checker::new(), FromEvents::new());
    let mut subject = Subject::new("b", SubjectKind::Task);
    subject.promise.relative_deadline = Some(Duration::from_nanos(deadline));
    subject.promise.period = Some(Duration::from_nanos(deadline / 2));
    for number in 0..4 {
        checker.subject(number, &subject);
    }
    for block in blocks {
        match block {
            Block::Subject(number, subject) => {
                checker.subject(*number, subject);
                seen.subject(*number, subject);
            }
            Block::Events(events) => events.iter().take(64).for_each(|event| {
                checker.record(*event);
                seen.record(*event);
            }),
            Block::ConstraintRequest(asked) => checker.request(asked),
            Block::Lost(lost) => checker.lost(lost.events),
            Block::End(at) => checker.end(*at),
            _ => {}
        }
    }
    for late in checker.take_late() {
        let stretches = seen.stretches(late.job, late.release, late.end);
        let verdict = judge(late, &stretches, |_| true);
        let sum = verdict.shares.iter().map(|one| one.share.as_nanos()).sum::<u64>();
        assert_eq!(sum, late.tardiness().as_nanos(), "{verdict:?}");
    }
    for number in checker.subjects().collect::<Vec<_>>() {
        let _ = checker.judge(number);
    }
}

fuzz_target!(|input: Input| {
    let _ = blocks(&input.rubbish);
    let events: Vec<Event> = input
        .events
        .iter()
        .map(|&(at, task, index, release, kind, jobs)| Event {
            at: Instant::from_nanos(at),
            job: JobId { task, index },
            release: Instant::from_nanos(release),
            kind: match kind % 11 {
                0 => Kind::Start,
                1 => Kind::GiveWay,
                2 => Kind::Resume,
                3 => Kind::Complete,
                4 => Kind::Overrun { jobs },
                5 => Kind::Skip { jobs },
                6 => Kind::Abort,
                7 => Kind::Contained,
                8 => Kind::Replenish { budget: Service::from_nanos(jobs) },
                9 => Kind::Throttle { left: Service::from_nanos(jobs) },
                _ => Kind::Unthrottle,
            },
        })
        .collect();
    let subject = Subject::new("a", SubjectKind::Upcall);
    let mut writer = Writer::new(&Run::default());
    writer.subject(7, &subject);
    let asked = asked(&input);
    asked.iter().for_each(|one| writer.request(one));
    writer.events(&events);
    let verdict = verdict(&input);
    writer.verdict(&verdict);
    writer.lost(Lost::new(Instant::from_nanos(5), 6));
    writer.end(Instant::from_nanos(8));
    let mut file = writer.take();
    let written = blocks(&file);
    let read: Vec<Event> = written
        .iter()
        .filter_map(|block| if let Block::Events(events) = block { Some(events) } else { None })
        .flatten()
        .copied()
        .collect();
    assert_eq!(read, events);
    assert!(written.contains(&Block::Verdict(verdict)));
    assert!(asked.into_iter().all(|one| written.contains(&Block::ConstraintRequest(one))));
    judged(&written, input.deadline);
    for (at, by) in input.changes.iter().take(8) {
        let at = *at as usize % file.len();
        file[at] ^= by;
    }
    for block in blocks(&file) {
        assert!(written.contains(&block), "{block:?}");
    }
});
