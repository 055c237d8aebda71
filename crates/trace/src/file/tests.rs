//! Tests that what is written can be read, and that damage is found, reported and skipped.

use alloc::vec::Vec;

use punctual_model::{Duration, Instant, JobId, Service};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::cause::{LateJob, Share, Spent, Throttler, Verdict};
use crate::constraint::{Answer, ConstraintRequest};
use crate::event::{Event, Kind, Promise, Subject, SubjectKind};
use crate::kernel::{Class, Interrupt, Seen};

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

/// Makes a verdict with one of each cause, and one without any.
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
        Spent::System { syscall: Some(1) },
        Spent::System { syscall: None },
        Spent::Throttled(Throttler::Quota { levels: Some(2) }),
        Spent::Throttled(Throttler::Quota { levels: None }),
        Spent::Stopped { by: Some(seen(Class::Ordinary)) },
        Spent::Stopped { by: None },
        Spent::Traced,
        Spent::Frozen,
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
        let request = ConstraintRequest {
            at: Instant::from_nanos(4),
            job: JobId { task: 7, index },
            start: Instant::from_nanos(5),
            estimate: Service::from_micros(8),
            deadline: Instant::MAX,
            answer,
        };
        writer.request(&request);
        blocks.push(Block::ConstraintRequest(request));
    }
    writer.end(Instant::MAX);
    blocks.push(Block::End(Instant::MAX));
    (blocks, writer.take())
}

/// Everything that can be read from a file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    blocks: Vec<Block>,
    damages: Vec<Damage>,
    gaps: Vec<Gap>,
}

impl Read {
    fn of(file: &[u8]) -> Self {
        let (mut read, mut reader) = (Self::default(), Reader::new());
        loop {
            match reader.step(file) {
                Ok(Step::Block(block)) => read.blocks.push(block),
                Ok(Step::Missing(gap)) => read.gaps.push(gap),
                Ok(Step::End { .. }) => return read,
                Err(damage) => {
                    read.damages.push(damage);
                    if reader.skip(file).is_none() {
                        return read;
                    }
                }
            }
        }
    }

    fn missing(&self) -> (u64, u64) {
        let sum = |of: fn(&Gap) -> u32| self.gaps.iter().map(|gap| u64::from(of(gap))).sum();
        (sum(|gap| gap.blocks), sum(|gap| gap.events))
    }
}

fn events(block: &Block) -> usize {
    if let Block::Events(events) = block { events.len() } else { 0 }
}

/// Merges adjacent blocks of events, so that the blocks are as they were written.
fn joined(blocks: Vec<Block>) -> Vec<Block> {
    let mut joined: Vec<Block> = Vec::new();
    for block in blocks {
        match (joined.last_mut(), block) {
            (Some(Block::Events(before)), Block::Events(events)) => before.extend(events),
            (_, block) => joined.push(block),
        }
    }
    joined
}

/// Returns the position of each block of an undamaged file, from its lengths alone.
fn places(file: &[u8]) -> Vec<(core::ops::Range<usize>, Block)> {
    let mut at = PREAMBLE;
    let place = |block| {
        let length = &file[at + 20..at + 23];
        let length = length.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let begin = at;
        at += HEADER + length;
        (begin..at, block)
    };
    let places: Vec<_> = Read::of(file).blocks.into_iter().map(place).collect();
    assert_eq!(at, file.len());
    places
}

/// Makes a file of about 49 kB, nearly all of it events.
fn long() -> Vec<u8> {
    let mut writer = Writer::new(&Run::default());
    writer.subject(3, &Subject::new("a", SubjectKind::Upcall));
    writer.events(&draw(&mut ChaCha8Rng::seed_from_u64(5), 4_000));
    writer.end(Instant::MAX);
    let file = writer.take();
    assert!((45_000..53_000).contains(&file.len()), "{}", file.len());
    file
}

#[test]
fn a_written_file_is_read_back() {
    let (blocks, bytes) = sample();
    let read = Read::of(&bytes);
    assert_eq!((read.damages, read.gaps), (Vec::new(), Vec::new()));
    assert_eq!(joined(read.blocks), blocks);
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
    assert_eq!(joined(seen), blocks);
}

/// Reads a file that differs from the file of `places` in the bytes `changed`. Exactly the blocks
/// around them must be lost, and the loss before the last block that was read must be counted.
fn costs_its_blocks(
    places: &[(core::ops::Range<usize>, Block)],
    damaged: &[u8],
    changed: core::ops::Range<usize>,
) {
    let is_hit =
        |place: &core::ops::Range<usize>| place.start < changed.end && changed.start < place.end;
    let expected = || places.iter().filter(|(place, _)| !is_hit(place)).map(|(_, block)| block);
    let read = Read::of(damaged);
    assert!(read.blocks.iter().eq(expected()), "{changed:?}: {read:?}");
    assert_eq!(read.damages.len(), 1, "{changed:?}: {:?}", read.damages);
    let last = places.iter().rposition(|(place, _)| !is_hit(place)).map_or(0, |last| last + 1);
    let hit = || places[..last].iter().filter(|(place, _)| is_hit(place));
    let lost_events = hit().map(|(_, block)| events(block) as u64).sum();
    assert_eq!(read.missing(), (hit().count() as u64, lost_events), "{changed:?}");
}

#[test]
fn a_flipped_bit_costs_the_block_that_it_is_in_and_no_event_is_altered() {
    let file = long();
    let places = places(&file);
    let all: usize = places.iter().map(|(_, block)| events(block)).sum();
    let worst = places.iter().map(|(_, block)| events(block)).max().expect("some");
    assert!(worst * 20 < all, "{worst} of {all} events in one block");
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let ends = 8 * (file.len() - 64)..8 * file.len();
    let drawn: Vec<usize> = (0..2_000).map(|_| rng.random_range(0..8 * file.len())).collect();
    for bit in drawn.into_iter().chain(0..8 * 200).chain(ends) {
        let mut damaged = file.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        costs_its_blocks(&places, &damaged, bit / 8..bit / 8 + 1);
    }
}

#[test]
fn any_change_costs_the_blocks_that_it_is_in() {
    let file = sample().1;
    let places = places(&file);
    let mut rng = ChaCha8Rng::seed_from_u64(2);
    for at in 0..file.len() {
        let mut damaged = file.clone();
        damaged[at] ^= rng.random_range(1..=255u8);
        costs_its_blocks(&places, &damaged, at..at + 1);
    }
    for _ in 0..500 {
        let at = rng.random_range(0..file.len());
        let end = (at + rng.random_range(1..3_000)).min(file.len());
        let mut damaged = file.clone();
        damaged[at..end].iter_mut().for_each(|byte| *byte = !*byte);
        costs_its_blocks(&places, &damaged, at..end);
    }
}

#[test]
fn a_file_that_was_cut_short_anywhere_is_read_up_to_there() {
    let file = sample().1;
    let places = places(&file);
    for length in PREAMBLE..file.len() {
        let read = Read::of(&file[..length]);
        let whole = places.iter().filter(|(place, _)| place.end <= length).map(|(_, block)| block);
        assert!(read.blocks.iter().eq(whole), "{length}: {read:?}");
        assert_eq!((read.damages, read.gaps), (Vec::new(), Vec::new()));
        assert!(!read.blocks.contains(&Block::End(Instant::MAX)), "{length}");
    }
}

#[test]
fn bytes_taken_out_or_put_in_cost_the_blocks_around_and_are_noticed() {
    let file = long();
    let places = places(&file);
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for _ in 0..500 {
        let at = rng.random_range(PREAMBLE..file.len() - 100);
        let length = rng.random_range(1..100);
        let taken_out = [&file[..at], &file[at + length..]].concat();
        let put_in = [&file[..at + length], &file[at..]].concat();
        for damaged in [taken_out, put_in] {
            let read = Read::of(&damaged);
            let has_end = matches!(read.blocks.last(), Some(Block::End(_)));
            assert!(!read.damages.is_empty() || !read.gaps.is_empty() || !has_end, "{at} {length}");
            let mut rest = places.iter().map(|(_, block)| block);
            assert!(read.blocks.iter().all(|block| rest.any(|other| other == block)), "in order");
            // Two are lost if the change lies between them, or if a block's length reaches over the
            // next mark.
            assert!(read.blocks.len() + 3 >= places.len(), "{at} {length}: {read:?}");
        }
    }
    // A block that is entirely absent is noticed, although no byte of the others is damaged.
    let (place, block) = &places[5];
    let read = Read::of(&[&file[..place.start], &file[place.end..]].concat());
    assert_eq!(read.damages, []);
    assert_eq!(read.missing(), (1, events(block) as u64));
    // A repeated block counts once.
    let read = Read::of(&[&file[..place.end], &file[place.start..]].concat());
    assert_eq!((read.blocks.len(), read.damages), (places.len(), alloc::vec![Damage::OutOfOrder]));
    assert_eq!(Read::of(&[&file[..], &file[..]].concat()).blocks.len(), places.len());
}

/// Checks blocks whose headers are intact and whose payloads are not, each as long as all that
/// follow. Each is read once, and not once for each block before it.
#[test]
fn a_file_that_is_damaged_on_purpose_takes_no_longer_than_its_length() {
    let mut file = Writer::new(&Run::default()).take();
    let mut block = Vec::new();
    frame::append(&mut block, 3, frame::Before::default(), |out| out.resize(1 << 20, 0));
    for _ in 0..1 << 16 {
        file.extend_from_slice(&block[..HEADER]);
    }
    let mut end = Vec::new();
    frame::append(&mut end, 5, frame::Before { blocks: 9, ..Default::default() }, |out| {
        out.push(7)
    });
    file.resize(4 << 20, 1);
    file.extend_from_slice(&end);
    let read = Read::of(&file);
    assert_eq!(read.blocks.last(), Some(&Block::End(Instant::from_nanos(7))));
}

#[test]
fn rubbish_is_refused_and_lies_about_lengths_cost_no_memory() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..2_000 {
        let length = rng.random_range(0..400);
        let mut rubbish: Vec<u8> = (0..length).map(|_| rng.random()).collect();
        let _ = Read::of(&rubbish);
        // Intact blocks of rubbish: the checksum is right, the contents are not.
        rubbish.truncate(300);
        for kind in 0..9 {
            let mut file = Writer::new(&Run::default()).take();
            frame::append(&mut file, kind, frame::Before::default(), |out| {
                out.extend_from_slice(&rubbish)
            });
            let _ = Read::of(&file);
        }
    }
    let mut other = frame::preamble_of(9);
    assert_eq!(Read::of(&other).damages, [Damage::Version { found: 9 }]);
    other[0] = b'p';
    assert_eq!(Read::of(&other).damages, [Damage::NoTrace]);
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
