//! Any datagrams at any times as pieces of messages: never a panic; what is complete has the bytes of
//! the pieces that were taken, no more messages are complete than the pieces allow, and a header that
//! is understood is written the same.
#![no_main]

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use punctual_channel::fragment::{Header, Limits, Reassembly, Taken};
use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant};

#[derive(Arbitrary, Debug)]
struct Run {
    burst: u8,
    spacing: u32,
    delay_bound: u32,
    steps: Vec<Step>,
}

#[derive(Arbitrary, Debug)]
enum Step {
    Wait(u32),
    Bytes(Vec<u8>),
    /// A piece that is nearly right.
    Piece {
        message: u16,
        fragment_bytes: u8,
        index: u8,
        length: u8,
        extra: i8,
        fill: u8,
    },
}

const CHANNEL: u32 = 9;
const MAX_MESSAGE: u32 = 200;

fuzz_target!(|run: Run| {
    let spacing = Duration::from_nanos(u64::from(run.spacing).max(1));
    let burst = u32::from(run.burst).max(1);
    let mut receiver = Reassembly::new(Limits {
        channel: CHANNEL,
        arrivals: LinearBounded::new(1, MAX_MESSAGE, spacing, burst).expect("within the rules"),
        delay_bound: Duration::from_nanos(run.delay_bound.into()),
        least_fragment: NonZeroU16::new(4).expect("not zero"),
    });
    let mut now = Instant::ZERO;
    let mut taken: BTreeMap<u64, BTreeMap<u32, u8>> = BTreeMap::new();
    for step in run.steps {
        let datagram = match step {
            Step::Wait(nanos) => {
                now += Duration::from_nanos(nanos.into());
                receiver.give_up(now);
                assert!(receiver.next_give_up().is_none_or(|at| at > now));
                continue;
            }
            Step::Bytes(bytes) => bytes,
            Step::Piece { message, fragment_bytes, index, length, extra, fill } => {
                let offset = u32::from(fragment_bytes) * u32::from(index);
                let length = u32::from(length);
                let wanted = length.saturating_sub(offset).min(fragment_bytes.into());
                let bytes = (i64::from(wanted) + i64::from(extra / 100)).max(0) as usize;
                let header = Header {
                    fragment_bytes: fragment_bytes.into(),
                    channel: CHANNEL,
                    message: message.into(),
                    offset,
                    length,
                    sent: None,
                };
                [&header.to_bytes()[..], &vec![fill; bytes]].concat()
            }
        };
        if let Ok((header, piece)) = Header::read(&datagram) {
            assert_eq!([&header.to_bytes()[..], piece].concat(), datagram);
        }
        let restarts = receiver.counts().restarts;
        let outcome = receiver.take(now, &datagram);
        let (more, complete) = match outcome {
            Ok(Taken::Complete(message)) => (true, Some((message.number, message.bytes.to_vec()))),
            Ok(Taken::More) => (true, None),
            Ok(Taken::Duplicate) | Err(_) => (false, None),
        };
        if receiver.counts().restarts > restarts {
            taken.clear();
        }
        if more {
            let (header, piece) = Header::read(&datagram).expect("it was taken");
            assert_eq!(header.channel, CHANNEL);
            let bytes = taken.entry(header.message).or_default();
            for (at, byte) in (header.offset..).zip(piece) {
                assert!(bytes.insert(at, *byte).is_none(), "taken twice");
            }
        }
        if let Some((number, bytes)) = complete {
            assert!((1..=MAX_MESSAGE as usize).contains(&bytes.len()));
            let pieces = taken.remove(&number).expect("pieces of it were taken");
            assert!(pieces.keys().copied().eq(0..bytes.len() as u32));
            assert!(pieces.into_values().eq(bytes));
        }
        assert!(receiver.open() <= 64);
    }
});
