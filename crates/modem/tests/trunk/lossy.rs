//! Calls over a network that loses packets, singly and in bursts: with error control every byte
//! arrives once and in order, or the modem reports that the call is over.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::{Law, Network};

/// A model of loss: a burst of `length` packets begins at one packet in `one_in`.
pub(crate) struct Loss {
    one_in: u32,
    length: u32,
    left: u32,
    rng: ChaCha8Rng,
}

impl Loss {
    pub(crate) fn new(one_in: u32, length: u32, seed: u64) -> Self {
        Self { one_in, length, left: 0, rng: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// Returns true if the next packet is lost.
    pub(crate) fn takes(&mut self) -> bool {
        if self.left == 0 && self.rng.next_u32().is_multiple_of(self.one_in) {
            self.left = self.length;
        }
        let lost = self.left > 0;
        self.left = self.left.saturating_sub(1);
        lost
    }
}

/// The result of a call that had `bytes` to carry each way for at most `seconds`.
struct Ended {
    /// True if all bytes arrived.
    whole: bool,
    /// Line time from the first byte to the last, or to the end of the call.
    seconds: u32,
}

/// Transfers bytes both ways, and checks on the way that exactly the bytes sent are shown, in
/// order.
fn transfer(settings: &str, loss: [Loss; 2], bytes: usize, seconds: u32) -> Ended {
    let mut network = Network::new([Law::Mu; 2]);
    for end in 0..2 {
        network.types(end, &format!("ATE0{settings}\r"));
        network.until(end, "OK\r\n", 1);
    }
    network.call();
    network.loss = loss.map(Some);
    let text = |end: usize| -> String {
        (0..bytes).map(|at| char::from(b'a' + ((at * 7 + at / 26 + end) % 26) as u8)).collect()
    };
    let sent = [text(0), text(1)];
    for (end, text) in sent.iter().enumerate() {
        network.types(end, text);
    }
    for second in 0..seconds {
        network.run(1);
        let over = |end: usize| network.shown[end].ends_with("\r\nNO CARRIER\r\n");
        for end in 0..2 {
            let came = network.shown[end].trim_end_matches("\r\nNO CARRIER\r\n");
            assert!(sent[1 - end].starts_with(came), "{settings}: at {end} came {came:?}");
        }
        if network.shown[0] == sent[1] && network.shown[1] == sent[0] {
            return Ended { whole: true, seconds: second + 1 };
        }
        if over(0) && over(1) {
            return Ended { whole: false, seconds: second + 1 };
        }
    }
    panic!(
        "{settings}: after {seconds} s neither all bytes nor an end: {} and {} of {bytes}, {:?} {:?}",
        network.shown[0].len(),
        network.shown[1].len(),
        network.trunks[0].station().link_stats(),
        network.trunks[1].station().link_stats(),
    );
}

#[test]
fn slow_calls_get_everything_across_a_network_that_loses_one_packet_in_a_hundred() {
    for (settings, bytes) in [("+MS=V21", 400), ("+MS=B103", 400), ("+MS=V23C", 150)] {
        for seed in 0..4 {
            let loss = [Loss::new(100, 1, seed), Loss::new(100, 1, 100 + seed)];
            let ended = transfer(settings, loss, bytes, 300);
            assert!(ended.whole, "{settings}, seed {seed}: gave up after {} s", ended.seconds);
        }
    }
}

#[test]
fn whatever_is_lost_every_byte_arrives_once_and_in_order_or_both_ends_say_no_carrier() {
    let (mut whole, mut said) = (0, 0);
    let mut draw = ChaCha8Rng::seed_from_u64(7);
    for settings in ["+MS=V21", "+MS=V23C", "+MS=V22B"] {
        // A hundredth of all packets, in bursts of up to a quarter of a second; then more and more.
        for (one_in, length) in
            [(100, 1), (200, 2), (500, 5), (1_200, 12), (20, 1), (100, 10), (5, 1), (3, 4)]
        {
            let loss = [(); 2].map(|()| Loss::new(one_in, length, draw.next_u64()));
            let ended = transfer(settings, loss, 300, 1_200);
            whole += u32::from(ended.whole);
            said += u32::from(!ended.whole);
            println!(
                "{settings}, {length} packets, one in {one_in}: {} after {} s",
                ended.whole, ended.seconds
            );
        }
    }
    assert!(whole >= 8 && said >= 3, "{whole} whole, {said} said so");
}
