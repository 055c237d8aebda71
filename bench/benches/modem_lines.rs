//! What a line of a bank costs: all that the driver does for it, over the bare calls of the library
//! that modulates; and how many lines that makes on a core.

use std::path::Path;

use punctual_bench::c_peer::CPeer;
use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_model::{Duration, Instant};
use punctual_softmodem::exchange::{Exchange, Perfect};

/// A block of samples.
const STEP: Duration = Duration::from_millis(20);

/// Blocks of one line in a measurement.
const BLOCKS: u64 = 4_000;

const PAIRS: usize = 15;

/// Two lines in a call.
struct Call {
    exchange: Exchange<Perfect>,
    now: Instant,
    /// What the first end types over and over.
    types: &'static [u8],
}

impl Call {
    fn new(modulation: &str, settings: &str, types: &'static [u8]) -> Self {
        let mut call =
            Self { exchange: Exchange::new(Perfect), now: Instant::from_nanos(1_000), types: b"" };
        for (end, then) in ["", "S0=1"].into_iter().enumerate() {
            call.type_in(end, format!("ATE0{then}+MS={modulation},0;{settings}\r").as_bytes());
        }
        call.steps(50);
        call.type_in(0, b"ATD1\r");
        // Twenty seconds are enough for any of them to say CONNECT.
        let mut shown = Vec::new();
        for _ in 0..20 * 50 {
            call.steps(1);
            let mut room = [0; 64];
            let count = call.exchange.station(0).take_output(&mut room);
            shown.extend_from_slice(&room[..count]);
        }
        assert!(
            String::from_utf8_lossy(&shown).contains("CONNECT"),
            "{modulation} does not connect"
        );
        call.types = types;
        call
    }

    fn type_in(&mut self, end: usize, bytes: &[u8]) {
        assert_eq!(self.exchange.station(end).terminal(self.now, bytes), bytes.len());
    }

    fn steps(&mut self, steps: u64) {
        let mut room = [0; 512];
        for _ in 0..steps {
            for end in 0..2 {
                let _ = self.exchange.station(end).terminal(self.now, self.types);
                if !self.types.is_empty() {
                    let _ = self.exchange.station(end).take_output(&mut room);
                }
            }
            self.exchange.step(self.now);
            self.now += STEP;
        }
    }
}

fn main() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/modem_lines.c");
    let folder = tempfile::tempdir().expect("a folder");
    let mut peer = match CPeer::start(&source, "spandsp", folder.path()) {
        Ok(peer) => peer,
        Err(why) => return println!("skipped: no peer: {why}"),
    };
    let text: &[u8] = b"a few words of text, ";
    for (name, rate) in [("V22B", "2400"), ("V23C", "1200/75"), ("V21", "300"), ("B103", "300")] {
        for (settings, types, kind) in [
            ("+ES=1,0,1", &b""[..], "characters, idle"),
            ("+ES=3,0,2;+DS=0", b"", "error control, idle"),
            ("+ES=3,0,2;+DS=3", text, "error control and compression, full"),
        ] {
            let mut call = Call::new(name, settings, types);
            let compared = compare(
                &format!("{name} {rate} bit/s, {kind}: a line's 20 ms (A), the library alone (B)"),
                PAIRS,
                || nanos_per_op(BLOCKS, || call.steps(BLOCKS / 2)),
                || peer.nanos_per_op(name, BLOCKS),
            );
            println!("  {:.0} lines a core", STEP.as_nanos() as f64 / compared.a);
        }
    }
}
