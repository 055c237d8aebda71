//! What is written is read; what is damaged is found, told, and passed over.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, JobId, Service};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::cause::{LateJob, Share, Spent, Throttler, Verdict};
use crate::constraint::{Answer, Asked};
use crate::event::{Event, Kind};
use crate::kernel::{Class, Interrupt, Seen};
use crate::subject::{Promise, Subject, SubjectKind};

fn draw(rng: &mut impl Rng, count: usize) -> Vec<Event> {
    let mut at = rng.random_range(0..u64::MAX / 2);
    let mut index = 0;
    (0..count)
        .map(|_| {
            at += rng.random_range(0..100_000);
            index += rng.random_range(0..3);
            let release = at.wrapping_sub(rng.random_range(0..1_000_000));
            let kind = match rng.random_range(0..11) {
                0 => Kind::Start,
                1 => Kind::GiveWay,
                2 => Kind::Resume,
                3 => Kind::Complete,
                4 => Kind::Overrun { jobs: rng.random() },
                5 => Kind::Skip { jobs: rng.random_range(1..5) },
                6 => Kind::Abort,
                7 => Kind::Contained,
                8 => Kind::Replenish { budget: Service::from_nanos(rng.random()) },
                9 => Kind::Throttle { left: Service::from_nanos(rng.random_range(0..9)) },
                _ => Kind::Unthrottle,
            };
            let task = rng.random_range(0..20);
            let job = JobId { task, index };
            Event { at: Instant::from_nanos(at), job, release: Instant::from_nanos(release), kind }
        })
        .collect()
}

/// One of each cause, and one without any.
fn verdicts() -> [Verdict; 2] {
    let seen = |class| Seen { tid: 4711, comm: "other one".into(), class };
    let blocked = |waker| Spent::Blocked { syscall: Some(202), uninterruptible: true, waker };
    let causes = [
        Spent::Own,
        Spent::Other(seen(Class::RealTime(99))),
        Spent::Other(seen(Class::Deadline)),
        Spent::Other(seen(Class::Ordinary)),
        Spent::Other(seen(Class::Idle)),
        Spent::HardIrq(Interrupt::Line(7)),
        Spent::HardIrq(Interrupt::LocalTimer),
        Spent::HardIrq(Interrupt::FromCpu),
        Spent::HardIrq(Interrupt::Vector(251)),
        Spent::SoftIrq(3),
        Spent::LateTimer,
        Spent::Throttled(Throttler::Kernel),
        Spent::Throttled(Throttler::Punctual),
        Spent::PageFault,
        blocked(None),
        blocked(Some(seen(Class::Ordinary))),
        Spent::Stolen,
        Spent::Switching,
        Spent::Unknown,
        Spent::Subject(8),
    ];
    let at = Instant::from_nanos;
    let share = |(nth, cause): (usize, Spent)| Share {
        cause,
        took: Duration::from_nanos(nth as u64 * 1000),
        times: 2,
        longest_at: at(7),
        share: Duration::from_nanos(100 - nth as u64),
    };
    let late = LateJob {
        job: JobId { task: 3, index: 9 },
        release: at(5),
        absolute_deadline: at(10),
        end: at(1_000),
        wcet: Some(Service::from_nanos(3)),
    };
    let shares = causes.into_iter().enumerate().map(share).collect();
    let own = Duration::from_nanos(3);
    let bare = LateJob { wcet: None, ..late };
    [Verdict { late, own, shares }, Verdict { late: bare, own, shares: Vec::new() }]
}

fn sample() -> (Vec<Block>, Vec<u8>) {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let run = Run {
        live: true,
        epoch_unix_ns: -5,
        command: "punctual run".into(),
        host: alloc::vec!["2 CPUs".into()],
        contract: "[cpu]\n".into(),
    };
    let mut writer = Writer::new(&run);
    let mut blocks = alloc::vec![Block::Run(run)];
    for number in 0..20 {
        let mut subject = Subject::new(alloc::format!("s{number}"), SubjectKind::Upcall);
        subject.promise = Promise {
            period: Some(Duration::from_millis(10)),
            relative_deadline: None,
            wcet: Some(Service::from_micros(7)),
        };
        subject.thread = Some(number * 1000);
        writer.subject(number, &subject);
        blocks.push(Block::Subject(number, subject));
    }
    for count in [1, 1000, 37] {
        let events = draw(&mut rng, count);
        writer.events(&events);
        blocks.push(Block::Events(events));
        let lost = Lost::new(Instant::from_nanos(9), count as u64);
        writer.lost(lost);
        blocks.push(Block::Lost(lost));
    }
    for verdict in verdicts() {
        writer.verdict(&verdict);
        blocks.push(Block::Verdict(verdict));
    }
    let refused = Answer::Refused { largest_estimate: Service::from_micros(3) };
    for (index, answer) in [(0, Answer::Granted), (u64::MAX, refused)] {
        let asked = Asked {
            at: Instant::from_nanos(4),
            job: JobId { task: 7, index },
            start: Instant::from_nanos(5),
            estimate: Service::from_micros(8),
            deadline: Instant::MAX,
            answer,
        };
        writer.asked(&asked);
        blocks.push(Block::Asked(asked));
    }
    writer.end(Instant::MAX);
    blocks.push(Block::End(Instant::MAX));
    (blocks, writer.take())
}

/// All blocks that can be read, and what was damaged.
fn read(file: &[u8]) -> (Vec<Block>, Vec<Damage>) {
    let (mut blocks, mut damages) = (Vec::new(), Vec::new());
    let mut reader = Reader::new();
    loop {
        match reader.step(file) {
            Ok(Step::Block(block)) => blocks.push(block),
            Ok(Step::End { .. }) => return (blocks, damages),
            Err(damage) => {
                damages.push(damage);
                if reader.skip(file).is_none() {
                    return (blocks, damages);
                }
            }
        }
    }
}

#[test]
fn what_was_written_is_read() {
    let (blocks, bytes) = sample();
    assert_eq!(read(&bytes), (blocks, Vec::new()));
}

#[test]
fn a_file_can_be_read_while_it_grows_by_any_number_of_bytes() {
    let (blocks, bytes) = sample();
    let mut reader = Reader::new();
    let mut seen = Vec::new();
    for end in (0..bytes.len()).chain([bytes.len()]) {
        while let Step::Block(block) = reader.step(&bytes[..end]).expect("no damage") {
            seen.push(block);
        }
    }
    assert_eq!(seen, blocks);
}

#[test]
fn no_change_of_a_byte_goes_unnoticed_or_costs_more_than_its_block() {
    let (blocks, bytes) = sample();
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= rng.random_range(1..=255u8);
        let (seen, damages) = read(&damaged);
        if at < PREAMBLE {
            assert!(seen.is_empty() && damages.len() == 1, "byte {at}");
            continue;
        }
        let missing = blocks.iter().filter(|block| !seen.contains(block)).count();
        assert!(seen.iter().all(|block| blocks.contains(block)), "byte {at}: an invented block");
        assert_eq!((missing, damages.len()), (1, 1), "byte {at}: {damages:?}");
    }
}

#[test]
fn rubbish_is_refused_and_lies_about_lengths_cost_no_memory() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..2_000 {
        let length = rng.random_range(0..400);
        let mut rubbish: Vec<u8> = (0..length).map(|_| rng.random()).collect();
        let _ = read(&rubbish);
        // Whole blocks of rubbish: the check sum holds, the contents do not.
        rubbish.truncate(300);
        for kind in 0..9 {
            let mut file = Writer::new(&Run::default()).take();
            frame::append(&mut file, kind, |out| out.extend_from_slice(&rubbish));
            let _ = read(&file);
        }
    }
    let mut other = Writer::new(&Run::default()).take();
    other[8] = 9;
    assert_eq!(read(&other), (Vec::new(), alloc::vec![Damage::Version { found: 9 }]));
}

#[test]
fn an_event_of_an_orderly_run_takes_few_bytes() {
    let events: Vec<Event> = (0..10_000u64)
        .flat_map(|n| {
            let (task, index) = ((n % 10) as u32, n / 10);
            let release = Instant::from_nanos(5_000_000_000 + index * 10_000_000);
            let job = JobId { task, index };
            let after = |us: u64| release + Duration::from_micros(40 * u64::from(task) + us);
            [
                Event { at: after(12), job, release, kind: Kind::Start },
                Event { at: after(33), job, release, kind: Kind::Complete },
            ]
        })
        .collect();
    let mut writer = Writer::new(&Run::default());
    let before = writer.waiting();
    writer.events(&events);
    let each = (writer.waiting() - before) as f64 / events.len() as f64;
    assert!(each < 8.0, "{each} bytes an event");
}
