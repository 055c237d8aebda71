//! Measures the cost of a line of a bank: all the work of the driver for it, against the bare calls
//! of the modulating library; and how many lines fit on a core.
//!
//! A line of characters is compared with the library's modem alone, and a line with error control
//! with the same modem with the library's own V.42 over it, idle or always with something to send.
//! Compression has no counterpart: it is shown against the full V.42.
//!
//! Where valgrind is installed, instructions are counted too: they are the same on every run, while
//! times on a shared machine are not. The program then runs itself, as `modem_lines --serve MODEM
//! KIND BLOCKS`.

use std::path::Path;
use std::process::{Command, Stdio};

use punctual_bench::c_peer::CPeer;
use punctual_bench::pairs::{compare, nanos_per_op};
use punctual_model::{Duration, Instant};
use punctual_modem::exchange::{Exchange, Perfect};

/// A block of samples.
const STEP: Duration = Duration::from_millis(20);

/// The blocks of one line in a measurement: some milliseconds, so that disturbances are rare.
const BLOCKS: u64 = 400;

const PAIRS: usize = 101;

/// The blocks of one line whose instructions are counted, and of the one that is subtracted.
const COUNTED: [u64; 2] = [1_600, 400];

const MODEMS: [(&str, &str); 4] =
    [("V22B", "2400"), ("V23C", "1200/75"), ("V21", "300"), ("B103", "300")];

/// The traffic of a line.
struct Kind {
    /// The name in the output.
    name: &'static str,
    /// The settings of both ends.
    settings: &'static str,
    /// The text that the first end types over and over.
    types: &'static [u8],
    /// The end of the name of the peer's line with the same traffic, or with less if there is none.
    peer: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind { name: "characters, idle", settings: "+ES=1,0,1", types: b"", peer: "" },
    Kind { name: "error control, idle", settings: "+ES=3,0,2;+DS=0", types: b"", peer: ".42" },
    Kind {
        name: "error control, full",
        settings: "+ES=3,0,2;+DS=0",
        types: b"a few words of text, ",
        peer: ".42full",
    },
    Kind {
        name: "error control and compression, full",
        settings: "+ES=3,0,2;+DS=3",
        types: b"a few words of text, ",
        peer: ".42full",
    },
];

/// Two lines in a call.
struct Call {
    exchange: Exchange<Perfect>,
    now: Instant,
    types: &'static [u8],
}

impl Call {
    fn new(modulation: &str, kind: &Kind) -> Self {
        let mut call =
            Self { exchange: Exchange::new(Perfect), now: Instant::from_nanos(1_000), types: b"" };
        for (end, then) in ["", "S0=1"].into_iter().enumerate() {
            let settings = kind.settings;
            call.type_in(end, format!("ATE0{then}+MS={modulation},0;{settings}\r").as_bytes());
        }
        call.steps(50);
        call.type_in(0, b"ATD1\r");
        // Twenty seconds are enough for any of them to print CONNECT.
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
        call.types = kind.types;
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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [serve, modem, kind, blocks] = &arguments[..]
        && serve == "--serve"
    {
        let kind: usize = kind.parse().expect("the place of a kind");
        let blocks: u64 = blocks.parse().expect("a number of blocks");
        return Call::new(modem, &KINDS[kind]).steps(blocks / 2);
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/modem_lines.c");
    let folder = tempfile::tempdir().expect("a folder");
    let mut peer = match CPeer::start(&source, "spandsp", folder.path()) {
        Ok(peer) => peer,
        Err(why) => return println!("skipped: no peer: {why}"),
    };
    let counts = has_valgrind();
    if !counts {
        println!("instructions are not counted: no valgrind");
    }
    for (modem, rate) in MODEMS {
        for (place, kind) in KINDS.iter().enumerate() {
            let mut call = Call::new(modem, kind);
            let against = format!("{modem}{}", kind.peer);
            let what = format!("{modem} {rate} bit/s, {}: a line's 20 ms", kind.name);
            let compared = compare(
                &format!("{what} (A), {against} of the library (B)"),
                PAIRS,
                || nanos_per_op(BLOCKS, || call.steps(BLOCKS / 2)),
                || peer.nanos_per_op(&against, BLOCKS),
            );
            println!("  {:.0} lines a core", STEP.as_nanos() as f64 / compared.a);
            if counts {
                let [ours, theirs] = [
                    per_block(|blocks| ours(modem, place, blocks)),
                    per_block(|blocks| {
                        theirs(&folder.path().join("modem_lines"), &against, blocks)
                    }),
                ];
                println!(
                    "  instructions: A {ours:.0}, B {theirs:.0}, ratio A/B {:.3}",
                    ours / theirs
                );
            }
        }
    }
}

fn has_valgrind() -> bool {
    let mut command = Command::new("valgrind");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the instructions for a block: those before the blocks are in both counts.
fn per_block(count: impl Fn(u64) -> u64) -> f64 {
    let [many, few] = COUNTED;
    (count(many) - count(few)) as f64 / (many - few) as f64
}

fn ours(modem: &str, kind: usize, blocks: u64) -> u64 {
    let program = std::env::current_exe().expect("this program has a path");
    let (kind, blocks) = (kind.to_string(), blocks.to_string());
    instructions(&program, &["--serve", modem, &kind, &blocks], "")
}

fn theirs(program: &Path, what: &str, blocks: u64) -> u64 {
    instructions(program, &[], &format!("{what} {blocks}\n"))
}

/// Returns the instructions of a program that reads `input`.
fn instructions(program: &Path, arguments: &[&str], input: &str) -> u64 {
    use std::io::Write as _;
    let mut child = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("valgrind was there a moment ago");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(input.as_bytes()).expect("it is read until it ends");
    // The peer ends when its input ends.
    drop(stdin);
    let output = child.wait_with_output().expect("it is ours");
    let said = String::from_utf8_lossy(&output.stderr);
    let told = said.lines().find_map(|line| line.split_once("Collected : "));
    told.and_then(|(_, count)| count.trim().parse().ok())
        .unwrap_or_else(|| panic!("valgrind did not count: {said}"))
}
