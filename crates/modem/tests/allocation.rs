//! Checks that serving a line allocates nothing once its call has begun. The only test of its
//! program, because it watches the whole heap.

use peak_alloc::PeakAlloc;
use punctual_model::{Duration, Instant};
use punctual_modem::exchange::{Exchange, Perfect};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const STEP: Duration = Duration::from_millis(20);

/// The settings of both ends of each pair of lines.
const CALLS: [&str; 6] = [
    "+MS=V22B,0;+ES=3,0,2;+DS=3",
    "+MS=V22B,0;+ES=3,0,2;+DS=0",
    "+MS=V22B,0;+ES=1,0,1",
    "+MS=V21,0",
    "+MS=V23C,0",
    "+MS=B103",
];

struct Office {
    exchange: Exchange<Perfect>,
    now: Instant,
    came: [usize; 2 * CALLS.len()],
}

impl Office {
    /// Runs a block of all lines: each end types `text` as far as it is taken, and all read.
    fn step(&mut self, text: &[u8]) {
        for line in 0..self.exchange.lines() {
            let station = self.exchange.station(line);
            let _ = station.terminal(self.now, text);
            let mut room = [0; 256];
            while let count @ 1.. = station.take_output(&mut room) {
                self.came[line] += count;
            }
        }
        self.exchange.step(self.now);
        self.now += STEP;
    }
}

#[test]
fn serving_lines_in_a_call_allocates_nothing() {
    let mut office = Office {
        exchange: Exchange::with_lines(2 * CALLS.len(), Perfect),
        now: Instant::from_nanos(1_000),
        came: [0; 2 * CALLS.len()],
    };
    for (call, settings) in CALLS.iter().enumerate() {
        let (calls, answers) = (2 * call, 2 * call + 1);
        for (line, then) in [(calls, format!("D{answers}")), (answers, String::new())] {
            let text = format!("ATE0S0=1{settings}\rAT{then}\r");
            let taken = office.exchange.station(line).terminal(office.now, text.as_bytes());
            assert_eq!(taken, text.len());
        }
    }
    // Time to connect, and to fill every queue once.
    for _ in 0..20 * 50 {
        office.step(b"");
    }
    assert_eq!(office.exchange.connected(), 2 * CALLS.len());
    for _ in 0..20 * 50 {
        office.step(b"the same words again, and again. ");
    }
    office.came = [0; 2 * CALLS.len()];
    HEAP.reset_peak_usage();
    let before = HEAP.current_usage();
    for _ in 0..20 * 50 {
        office.step(b"the same words again, and again. ");
    }
    let (peak, after) = (HEAP.peak_usage(), HEAP.current_usage());
    assert!(office.came.iter().all(|&bytes| bytes > 100), "{:?}", office.came);
    assert_eq!((peak, after), (before, before), "bytes of heap");
}
