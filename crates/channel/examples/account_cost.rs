//! Measures the cost of a message's account, and of reassembling one from fragments: the medians of
//! 21 rounds. `cargo run --release -p punctual-channel --example account_cost`

use std::hint::black_box;
use std::num::NonZeroU16;

use punctual_channel::account::{Account, Delivered, Recorder};
use punctual_channel::fragment::{Fragments, Limits, Reassembly, Taken};
use punctual_linux::clock;
use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant};

const MESSAGES: u64 = 200_000;

fn median(mut round: impl FnMut()) -> f64 {
    let mut rounds: Vec<u64> = (0..21)
        .map(|_| {
            let begin = clock::now();
            round();
            clock::now().saturating_since(begin).as_nanos()
        })
        .collect();
    rounds.sort_unstable();
    rounds[rounds.len() / 2] as f64
}

fn main() {
    let mut recorder = Recorder::new(Some(Duration::from_micros(100)));
    let mut at = 0;
    let three_events = median(|| {
        for _ in 0..MESSAGES {
            at += 1_000;
            let logical = Instant::from_nanos(at);
            recorder.offered(black_box(1_000));
            recorder.taken(1_000, logical, true);
            let handed_over = Instant::from_nanos(at + black_box(at % 4_096));
            recorder.sent(Delivered {
                bytes: 1_000,
                arrived: logical,
                handed_over,
                ends: handed_over,
            });
        }
    });
    black_box(recorder.account().snapshot());
    println!("account of a message (three events): {:.1} ns", three_events / MESSAGES as f64);
    println!("bytes of an account: {}", size_of::<Account>());

    let fragment_bytes = NonZeroU16::new(1_440).expect("not zero");
    let arrivals = LinearBounded::new(1, 11_520, Duration::from_millis(1), 4).expect("valid");
    let delay_bound = Duration::from_millis(1);
    let limits = Limits { channel: 0, arrivals, delay_bound, least_fragment: fragment_bytes };
    let mut receiver = Reassembly::new(limits);
    let mut wire: Vec<Vec<u8>> =
        Fragments { fragment_bytes, channel: 0, message: 0, length: 11_520 }
            .within(0..11_520, None)
            .map(|piece| [&piece.header.to_bytes()[..], &[7; 1_440]].concat())
            .collect();
    let messages = MESSAGES / 20;
    let (mut number, mut now) = (0_u64, 0);
    let eight_pieces = median(|| {
        for _ in 0..messages {
            now += 1_000_000;
            for piece in &mut wire {
                piece[8..16].copy_from_slice(&number.to_be_bytes());
                let taken = receiver.take(Instant::from_nanos(now), piece);
                assert!(matches!(taken, Ok(Taken::More | Taken::Complete(_))));
            }
            number += 1;
        }
    });
    assert_eq!(receiver.counts().complete, number);
    println!(
        "a piece of 1,440 bytes put in its place: {:.0} ns",
        eight_pieces / messages as f64 / 8.0
    );
}
