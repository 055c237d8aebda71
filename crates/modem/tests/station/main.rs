//! Two whole modems on an exchange, in virtual time: dialled, answered, written to, hung up, and
//! cut off. Only the terminals' output is checked.

mod calls;
mod greetings;
mod trouble;

use punctual_model::{Duration, Instant};
use punctual_modem::exchange::{Exchange, Medium};

const STEP: Duration = Duration::from_millis(20);

struct Desk<M> {
    exchange: Exchange<M>,
    now: Instant,
    /// The output that each terminal has shown.
    shown: [Vec<u8>; 2],
    /// The input that each terminal has yet to send.
    typing: [Vec<u8>; 2],
    reads: [bool; 2],
}

impl<M: Medium> Desk<M> {
    fn new(medium: M) -> Self {
        Self {
            exchange: Exchange::new(medium),
            now: Instant::from_nanos(1_000_000_000),
            shown: [vec![], vec![]],
            typing: [vec![], vec![]],
            reads: [true; 2],
        }
    }

    fn types(&mut self, end: usize, text: impl AsRef<[u8]>) {
        self.typing[end].extend(text.as_ref());
    }

    fn step(&mut self) {
        for end in 0..2 {
            let station = self.exchange.station(end);
            let taken = station.terminal(self.now, &self.typing[end]);
            self.typing[end].drain(..taken);
            let mut room = [0; 100];
            while self.reads[end] {
                let count = station.take_output(&mut room);
                if count == 0 {
                    break;
                }
                self.shown[end].extend(&room[..count]);
            }
        }
        self.exchange.step(self.now);
        self.now += STEP;
    }

    fn run(&mut self, seconds: u64) {
        (0..seconds * 50).for_each(|_| self.step());
    }

    /// Waits until that terminal has shown `text`. Returns its output so far, and clears it.
    fn until(&mut self, end: usize, text: &str, seconds: u64) -> String {
        for _ in 0..seconds * 50 {
            let shown = String::from_utf8_lossy(&self.shown[end]).into_owned();
            if shown.contains(text) {
                self.shown[end].clear();
                return shown;
            }
            self.step();
        }
        panic!(
            "no {text:?} after {seconds} s, but {:?}",
            self.shown.each_ref().map(|shown| {
                String::from_utf8_lossy(&shown[..shown.len().min(300)]).into_owned()
            })
        );
    }

    /// Places a call from 0 to 1, both set up by `settings`. Returns the seconds it took to
    /// connect.
    fn call(&mut self, settings: [&str; 2]) -> f64 {
        for (end, settings) in settings.into_iter().enumerate() {
            self.types(end, format!("ATE0{settings}\r"));
            self.until(end, "OK\r\n", 1);
        }
        self.types(1, "ATS0=1\r");
        self.until(1, "OK\r\n", 1);
        let from = self.now;
        self.types(0, "ATDT5551\r");
        self.until(0, "CONNECT", 60);
        self.until(1, "CONNECT", 60);
        let took = self.now - from;
        // The rest of the line with CONNECT.
        self.run(1);
        self.shown = [vec![], vec![]];
        took.as_secs_f64()
    }
}
