//! Any bytes as a trace file: never a panic, no memory for lies about lengths, and reading comes to an
//! end. A file of ours with bytes changed: what is read of it is what was written, or a damage.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use punctual_model::{Instant, JobId};
use punctual_trace::file::{Block, Lost, Reader, Run, Step, Writer};
use punctual_trace::{Event, Kind, Subject, SubjectKind};

#[derive(Arbitrary, Debug)]
struct Input {
    rubbish: Vec<u8>,
    events: Vec<(u64, u32, u64, u64, u8, u64)>,
    changes: Vec<(u32, u8)>,
}

fn blocks(file: &[u8]) -> Vec<Block> {
    let mut reader = Reader::new();
    let mut blocks = Vec::new();
    loop {
        match reader.step(file) {
            Ok(Step::Block(block)) => blocks.push(block),
            Ok(Step::End { .. }) => return blocks,
            Err(_) if reader.skip(file).is_some() => {}
            Err(_) => return blocks,
        }
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
            kind: match kind % 8 {
                0 => Kind::Start,
                1 => Kind::GiveWay,
                2 => Kind::Resume,
                3 => Kind::Complete,
                4 => Kind::Overrun { jobs },
                5 => Kind::Skip { jobs },
                6 => Kind::Abort,
                _ => Kind::Contained,
            },
        })
        .collect();
    let subject = Subject::new("a", SubjectKind::Upcall);
    let mut writer = Writer::new(&Run::default());
    writer.subject(7, &subject);
    writer.events(&events);
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
    for (at, by) in input.changes.iter().take(8) {
        let at = *at as usize % file.len();
        file[at] ^= by;
    }
    for block in blocks(&file) {
        assert!(written.contains(&block), "{block:?}");
    }
});
