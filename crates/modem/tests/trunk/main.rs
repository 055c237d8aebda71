//! Two modems and a network between them, in virtual time.

mod lossy;

use std::collections::VecDeque;
use std::net::SocketAddr;

use punctual_model::{Duration, Instant};
use punctual_modem::rtp::Law;
use punctual_modem::trunk::{Trunk, TrunkConfig};

use lossy::Loss;

const STEP: Duration = Duration::from_millis(20);

/// Packets in flight in one direction, with the step at which each arrives.
type Flight = VecDeque<(u32, Vec<u8>)>;

struct Network {
    trunks: [Trunk; 2],
    flights: [Flight; 2],
    shown: [String; 2],
    cut: [bool; 2],
    loss: [Option<Loss>; 2],
    now: Instant,
    step: u32,
}

fn address(end: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + end as u8], 5_004))
}

impl Network {
    fn new(laws: [Law; 2]) -> Self {
        let trunk = |end: usize| {
            Trunk::new(TrunkConfig {
                calls: Some(address(1 - end)),
                listens: end == 1,
                law: laws[end],
                delay: 480,
                seed: end as u64,
            })
        };
        Self {
            trunks: [trunk(0), trunk(1)],
            flights: [Flight::new(), Flight::new()],
            shown: [String::new(), String::new()],
            cut: [false; 2],
            loss: [None, None],
            now: Instant::from_nanos(1_000_000_000),
            step: 0,
        }
    }

    fn types(&mut self, end: usize, text: &str) {
        let taken = self.trunks[end].station().terminal(self.now, text.as_bytes());
        assert_eq!(taken, text.len());
    }

    fn run(&mut self, seconds: u32) {
        (0..seconds * 50).for_each(|_| self.step());
    }

    fn step(&mut self) {
        for end in 0..2 {
            while self.flights[1 - end].front().is_some_and(|(due, _)| *due <= self.step) {
                let (_, packet) = self.flights[1 - end].pop_front().expect("just seen");
                self.trunks[end].packet(self.now, address(1 - end), &packet);
            }
            let mut packet = Vec::new();
            if let Some(to) = self.trunks[end].step(self.now, &mut packet) {
                assert_eq!(to, address(1 - end));
                let lost = self.loss[end].as_mut().is_some_and(Loss::takes);
                if !self.cut[end] && !lost {
                    // Two steps in flight, and every third packet one more.
                    let delay = 2 + u32::from(self.step.is_multiple_of(3));
                    self.flights[end].push_back((self.step + delay, packet));
                }
            }
            let mut room = [0; 64];
            loop {
                let count = self.trunks[end].station().take_output(&mut room);
                if count == 0 {
                    break;
                }
                self.shown[end].extend(room[..count].iter().map(|&byte| char::from(byte)));
            }
        }
        self.now += STEP;
        self.step += 1;
    }

    fn until(&mut self, end: usize, text: &str, seconds: u32) {
        for _ in 0..seconds * 50 {
            if let Some(at) = self.shown[end].find(text) {
                self.shown[end].drain(..at + text.len());
                return;
            }
            self.step();
        }
        panic!("no {text:?} in {seconds} s, but {:?}", self.shown);
    }

    fn call(&mut self) {
        self.types(0, "ATDT1\r");
        self.until(1, "RING\r\n", 5);
        self.types(1, "ATA\r");
        for end in 0..2 {
            self.until(end, "CONNECT", 30);
            self.until(end, "\r\n", 1);
        }
    }
}

#[test]
fn a_call_carries_text_both_ways_and_the_next_one_too() {
    for laws in [[Law::Mu, Law::Mu], [Law::Mu, Law::A]] {
        let mut network = Network::new(laws);
        for _ in 0..2 {
            network.call();
            network.types(0, "over there");
            network.types(1, "over here");
            network.until(1, "over there", 5);
            network.until(0, "over here", 5);
            network.run(2);
            network.types(0, "+++");
            network.until(0, "OK\r\n", 3);
            network.types(0, "ATH\r");
            network.until(0, "OK\r\n", 3);
            network.until(1, "NO CARRIER\r\n", 10);
        }
        let stats = network.trunks[1].stats();
        assert!(stats.received > 500 && stats.late == 0 && stats.slips == 0, "{stats:?}");
    }
}

#[test]
fn a_stream_that_ends_is_a_carrier_lost_at_both_ends() {
    let mut network = Network::new([Law::Mu; 2]);
    network.call();
    network.cut = [true; 2];
    for end in 0..2 {
        network.until(end, "NO CARRIER\r\n", 20);
    }
    network.run(1);
    assert!(network.trunks.iter().all(|trunk| !trunk.is_through()));
}

#[test]
fn a_caller_that_gives_up_stops_the_ringing() {
    let mut network = Network::new([Law::Mu; 2]);
    network.types(0, "ATDT1\r");
    network.until(1, "RING\r\n", 5);
    // Any byte gives up the call.
    network.types(0, "x");
    network.until(0, "NO CARRIER\r\n", 2);
    network.shown[1].clear();
    network.run(20);
    assert_eq!(network.shown[1], "");
    network.types(1, "ATA\r");
    network.run(2);
    assert!(!network.trunks[1].is_through(), "there is nobody to answer");
}

#[test]
fn no_answer_and_no_dial_tone_are_reported() {
    let mut network = Network::new([Law::Mu; 2]);
    network.types(0, "ATS7=100DT1\r");
    network.until(0, "NO ANSWER\r\n", 70);
    let mut alone = Network::new([Law::Mu; 2]);
    // End 0 does not listen.
    alone.types(1, "ATDT1\r");
    alone.run(10);
    assert!(!alone.shown[0].contains("RING"), "{}", alone.shown[0]);
    let mut deaf =
        Trunk::new(TrunkConfig { calls: None, listens: false, law: Law::A, delay: 480, seed: 1 });
    std::mem::swap(&mut alone.trunks[0], &mut deaf);
    alone.types(0, "ATDT1\r");
    alone.until(0, "NO DIALTONE\r\n", 5);
}

#[test]
fn strangers_are_dropped_and_do_not_disturb_a_call() {
    let mut network = Network::new([Law::Mu; 2]);
    network.call();
    let before = network.trunks[1].stats();
    // The call's own packets, but from another address.
    let stranger = SocketAddr::from(([198, 51, 100, 1], 5_004));
    let packets: Vec<_> = network.flights[0].iter().map(|(_, packet)| packet.clone()).collect();
    assert!(!packets.is_empty());
    for packet in &packets {
        network.trunks[1].packet(network.now, stranger, packet);
        // And garbage from the right address.
        network.trunks[1].packet(network.now, address(0), &packet[..7]);
    }
    let after = network.trunks[1].stats();
    assert_eq!(after.dropped - before.dropped, 2 * packets.len() as u64);
    assert_eq!(after.received, before.received);
    network.types(0, "still here");
    network.until(1, "still here", 5);
}

#[test]
fn while_it_rings_a_number_dialled_is_engaged() {
    let mut network = Network::new([Law::Mu; 2]);
    network.types(0, "ATDT1\r");
    network.until(1, "RING\r\n", 5);
    network.types(1, "ATDT1\r");
    network.until(1, "BUSY\r\n", 5);
    network.until(1, "RING\r\n", 8);
}
