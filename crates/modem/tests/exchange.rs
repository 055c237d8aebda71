//! Many lines on one exchange, in virtual time.

use punctual_model::{Duration, Instant};
use punctual_modem::exchange::{Exchange, Perfect};

const STEP: Duration = Duration::from_millis(20);

struct Office {
    exchange: Exchange<Perfect>,
    now: Instant,
    shown: Vec<String>,
}

impl Office {
    fn new(lines: usize) -> Self {
        Self {
            exchange: Exchange::with_lines(lines, Perfect),
            now: Instant::from_nanos(1_000_000_000),
            shown: vec![String::new(); lines],
        }
    }

    fn types(&mut self, line: usize, text: &str) {
        let taken = self.exchange.station(line).terminal(self.now, text.as_bytes());
        assert_eq!(taken, text.len());
    }

    fn step(&mut self) {
        self.exchange.step(self.now);
        for (line, shown) in self.shown.iter_mut().enumerate() {
            let mut room = [0; 64];
            while let count @ 1.. = self.exchange.station(line).take_output(&mut room) {
                shown.extend(room[..count].iter().map(|&byte| char::from(byte)));
            }
        }
        self.now += STEP;
    }

    fn until(&mut self, line: usize, text: &str, seconds: u32) {
        for _ in 0..seconds * 50 {
            if let Some(at) = self.shown[line].find(text) {
                self.shown[line].drain(..at + text.len());
                return;
            }
            self.step();
        }
        panic!("line {line}: no {text:?} in {seconds} s, but {:?}", self.shown);
    }
}

#[test]
fn each_number_reaches_its_line_and_calls_do_not_mix() {
    let mut office = Office::new(12);
    for answers in [1, 3, 5] {
        office.types(answers, "ATS0=1\r");
    }
    // 4 calls 5 and so on; 3 is called twice, and is busy for the second caller.
    for (calls, number) in [(4, "5"), (0, "3"), (11, "001")] {
        office.types(calls, &format!("ATDT{number}\r"));
    }
    for line in [0, 1, 3, 4, 5, 11] {
        office.until(line, "CONNECT 2400\r\n", 40);
    }
    assert_eq!(office.exchange.connected(), 6);
    office.types(7, "ATD3\r");
    office.until(7, "BUSY\r\n", 5);
    for (says, hears) in [(4, 5), (5, 4), (0, 3), (3, 0), (11, 1), (1, 11)] {
        office.types(says, &format!("from {says} to {hears}."));
    }
    for (says, hears) in [(4, 5), (5, 4), (0, 3), (3, 0), (11, 1), (1, 11)] {
        office.until(hears, &format!("from {says} to {hears}."), 10);
    }
    for line in [2, 6, 7, 8, 9, 10] {
        assert!(!office.shown[line].contains("from"), "{:?}", office.shown[line]);
    }
}

#[test]
fn unknown_numbers_and_a_lines_own_number_do_not_connect() {
    let mut office = Office::new(3);
    for (number, answer) in [
        ("3", "NO DIALTONE"),
        ("99999999999999999999999", "NO DIALTONE"),
        ("#", "NO DIALTONE"),
        ("0", "BUSY"),
    ] {
        office.types(0, &format!("ATD{number}\r"));
        office.until(0, &format!("{answer}\r\n"), 5);
    }
    // No state is left: line 0 can be called.
    office.types(2, "ATD0\r");
    office.until(0, "RING\r\n", 5);
}

#[test]
fn hanging_up_frees_both_lines() {
    let mut office = Office::new(4);
    for line in [1, 2] {
        office.types(line, "ATS0=1\r");
    }
    office.types(0, "ATD1\r");
    office.until(0, "CONNECT 2400\r\n", 40);
    office.until(1, "CONNECT 2400\r\n", 40);
    let now = office.now;
    office.exchange.station(0).terminal_gone(now);
    office.until(1, "NO CARRIER\r\n", 20);
    office.types(3, "ATD1\r");
    office.until(3, "CONNECT 2400\r\n", 40);
    // A caller that gives up stops the ringing.
    office.types(2, "ATS0=0\r");
    office.types(0, "ATD2\r");
    office.until(2, "RING\r\n", 5);
    office.types(0, "x");
    office.until(0, "NO CARRIER\r\n", 2);
    for _ in 0..10 * 50 {
        office.step();
    }
    office.shown[2].clear();
    for _ in 0..10 * 50 {
        office.step();
    }
    assert_eq!(office.shown[2], "");
}
