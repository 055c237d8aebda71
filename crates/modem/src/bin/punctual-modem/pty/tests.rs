//! Clients that stop reading or go away: real ttys, and modems whose time passes as fast as this
//! machine can compute.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use punctual_linux::clock;
use punctual_model::Duration;
use punctual_modem::exchange::{Exchange, Perfect};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tempfile::TempDir;

use super::*;
use crate::modems::PERIOD;

/// The time allowed for any step, in real time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that has opened a tty.
struct Client {
    tty: File,
    typing: Vec<u8>,
    shown: Vec<u8>,
    reads: bool,
}

impl Client {
    fn open(path: &Path) -> Self {
        let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits() as i32;
        let tty = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let tty = tty.expect("a tty");
        Self { tty, typing: Vec::new(), shown: Vec::new(), reads: true }
    }

    fn turn(&mut self) {
        let would_block = |why: io::Error| assert_eq!(why.kind(), ErrorKind::WouldBlock, "{why}");
        match self.tty.write(&self.typing) {
            Ok(count) => drop(self.typing.drain(..count)),
            Err(why) => would_block(why),
        }
        let mut piece = [0; 4_096];
        if self.reads {
            match self.tty.read(&mut piece) {
                Ok(count) => self.shown.extend(&piece[..count]),
                Err(why) => would_block(why),
            }
        }
    }
}

struct Desk {
    _links: TempDir,
    exchange: Exchange<Perfect>,
    terminals: [Terminal; 2],
    clients: [Option<Client>; 2],
    now: Instant,
}

impl Desk {
    fn new() -> Self {
        let links = tempfile::tempdir().expect("a folder");
        let open = |name| Terminal::new(Pty::open(&links.path().join(name)).expect("a tty"));
        let terminals = ["a", "b"].map(open);
        let client = |terminal: &Terminal| Some(Client::open(Path::new(terminal.pty().tty())));
        let clients = terminals.each_ref().map(client);
        let (exchange, now) = (Exchange::new(Perfect), Instant::from_nanos(1_000));
        Self { _links: links, exchange, terminals, clients, now }
    }

    fn client(&mut self, end: usize) -> &mut Client {
        self.clients[end].as_mut().expect("it is there")
    }

    fn types(&mut self, end: usize, bytes: impl AsRef<[u8]>) {
        self.client(end).typing.extend(bytes.as_ref());
    }

    fn step(&mut self) {
        for end in 0..2 {
            if let Some(client) = &mut self.clients[end] {
                client.turn();
            }
            let station = self.exchange.station(end);
            self.terminals[end].serve(self.now, station).expect("the tty is there");
        }
        self.exchange.step(self.now);
        self.now += PERIOD;
    }

    /// Steps until `is_so`. The kernel passes bytes on at its own pace, so the wait is bounded in
    /// real time.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Self) -> bool) {
        let end = clock::now() + PATIENCE;
        while !is_so(self) {
            assert!(clock::now() < end, "not within a minute: {what}");
            self.step();
        }
    }

    /// Waits until that end is shown `text`; discards the output up to and including it.
    fn shows(&mut self, end: usize, text: &str) {
        self.until(text, |desk| {
            let shown = &mut desk.client(end).shown;
            let at = shown.windows(text.len()).position(|window| window == text.as_bytes());
            at.map(|at| shown.drain(..at + text.len())).is_some()
        });
    }

    fn call(&mut self) {
        self.types(1, "ATE0S0=1+DS=0\r");
        self.shows(1, "OK\r\n");
        self.types(0, "ATE0+DS=0\r");
        self.shows(0, "OK\r\n");
        self.types(0, "ATD1\r");
        for end in 0..2 {
            self.shows(end, "CONNECT 2400\r\n");
        }
    }
}

#[test]
fn a_client_that_stops_reading_holds_the_far_one_up_and_loses_nothing() {
    let mut desk = Desk::new();
    desk.call();
    desk.client(1).reads = false;
    // The kernel keeps some 64 KiB for each tty, and the modems some 14.
    let mut sent = vec![0; 220_000];
    ChaCha8Rng::seed_from_u64(1).fill_bytes(&mut sent);
    desk.types(0, &sent);
    // The bytes in buffers at the far end take five minutes on the line.
    (0..500 * 50).for_each(|_| desk.step());
    let left = desk.client(0).typing.len();
    assert!(left > 20_000, "only {left} bytes were held back");
    (0..30 * 50).for_each(|_| desk.step());
    assert_eq!(desk.client(0).typing.len(), left, "not a byte more");
    desk.client(1).reads = true;
    desk.until("all is there", |desk| desk.client(1).shown.len() >= sent.len());
    assert!(desk.client(1).shown == sent);
}

#[test]
fn a_client_that_goes_in_the_middle_frees_both_lines_and_leaves_nothing_to_the_next() {
    let mut desk = Desk::new();
    desk.call();
    desk.client(1).reads = false;
    desk.types(0, vec![b'x'; 3_000]);
    (0..5 * 50).for_each(|_| desk.step());
    desk.clients[1] = None;
    desk.shows(0, "NO CARRIER\r\n");
    desk.until("on hook", |desk| !(0..2).any(|end| desk.exchange.station(end).is_off_hook()));
    let next = Client::open(Path::new(desk.terminals[1].pty().tty()));
    desk.clients[1] = Some(next);
    desk.types(1, "AT\r");
    desk.shows(1, "OK\r\n");
    assert_eq!(desk.client(1).shown, b"");
    desk.call();
}
