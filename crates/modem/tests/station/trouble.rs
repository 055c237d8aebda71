//! Lines that lose samples or die, terminals that do not read or go away.

use punctual_modem::exchange::{Medium, Perfect};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::Desk;

/// A medium that loses the next `lose` samples to end 0 and sends the following ones in their
/// place. The missing samples at the end are silence.
#[derive(Default)]
struct Losing {
    lose: usize,
    lost: std::collections::VecDeque<i16>,
    dead: bool,
}

impl Medium for Losing {
    fn pass(&mut self, from: usize, sample: i16) -> i16 {
        if self.dead {
            return 0;
        }
        if from == 0 {
            return sample;
        }
        // A delay line that a loss shortens.
        self.lost.push_back(sample);
        if self.lost.len() < 4_000 {
            return 0;
        }
        for _ in 0..std::mem::take(&mut self.lose) {
            self.lost.pop_front();
        }
        self.lost.pop_front().unwrap_or(0)
    }
}

fn random(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    ChaCha8Rng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

#[test]
fn lost_samples_end_in_all_the_bytes_or_in_no_carrier_and_never_in_garbage() {
    let (mut whole, mut said) = (0, 0);
    for (case, lose) in [1, 20, 100, 512, 4, 1_600].into_iter().enumerate() {
        let mut desk = Desk::new(Losing::default());
        desk.call(["", ""]);
        let sent = random(case as u64, 3_000);
        desk.types(1, &sent);
        desk.run(3);
        desk.exchange.medium().lose = lose;
        for _ in 0..120 * 50 {
            desk.step();
            let came = &desk.shown[0];
            if came.len() >= sent.len() || came.ends_with(b"NO CARRIER\r\n") {
                break;
            }
        }
        let came = &desk.shown[0];
        if *came == sent {
            whole += 1;
        } else {
            let prefix = came.strip_suffix(b"\r\nNO CARRIER\r\n").expect("it says so");
            assert!(sent.starts_with(prefix), "{lose} samples lost: garbage");
            said += 1;
        }
    }
    assert_eq!(whole + said, 6);
    assert!(whole >= 2, "{whole} of 6 survived");
}

#[test]
fn a_line_that_dies_ends_both_calls_and_frees_both_lines() {
    for settings in ["", "+ES=1,0,1", "+MS=V21;+ES=1,0,1"] {
        let mut desk = Desk::new(Losing::default());
        desk.call([settings, settings]);
        desk.exchange.medium().dead = true;
        for end in 0..2 {
            desk.until(end, "NO CARRIER", 90);
            desk.run(2);
            assert!(!desk.exchange.station(end).is_off_hook());
        }
    }
}

#[test]
fn a_terminal_that_does_not_read_slows_the_far_end_and_nothing_is_lost() {
    let mut desk = Desk::new(Perfect);
    desk.call(["", ""]);
    desk.reads[1] = false;
    let sent = random(9, 60_000);
    desk.types(0, &sent);
    desk.run(120);
    let left = desk.typing[0].len();
    assert!(left > 25_000, "only {left} bytes were held back");
    desk.run(30);
    assert_eq!(desk.typing[0].len(), left, "not a byte more");
    desk.reads[1] = true;
    for _ in 0..400 * 50 {
        desk.step();
        if desk.shown[1].len() >= sent.len() {
            break;
        }
    }
    assert!(desk.shown[1] == sent);
}

#[test]
fn a_terminal_that_goes_away_frees_the_line() {
    let mut desk = Desk::new(Perfect);
    desk.call(["", ""]);
    let now = desk.now;
    desk.exchange.station(1).terminal_gone(now);
    desk.until(0, "NO CARRIER", 20);
    desk.run(3);
    assert!(!desk.exchange.station(1).is_off_hook());
    desk.shown[1].clear();
    // The next client that opens it finds a working modem.
    desk.types(1, "AT\r");
    assert_eq!(desk.until(1, "OK\r\n", 1), "\r\nOK\r\n");
}

#[test]
fn a_terminal_that_goes_away_while_it_rings_or_trains_frees_the_line() {
    for seconds in [1, 3, 4, 6] {
        let mut desk = Desk::new(Perfect);
        desk.types(1, "ATS0=1\r");
        desk.types(0, "ATD1\r");
        desk.run(seconds);
        let now = desk.now;
        desk.exchange.station(0).terminal_gone(now);
        desk.run(1);
        assert!(!desk.exchange.station(0).is_off_hook() || seconds > 5, "{seconds}");
        desk.run(80);
        assert!(!desk.exchange.station(0).is_off_hook(), "{seconds}");
        assert!(!desk.exchange.station(1).is_off_hook(), "{seconds}");
        desk.call(["", ""]);
    }
}

/// A medium that replaces the signals with noise as loud as the modems, while `loud`.
struct Storm {
    loud: bool,
    rng: ChaCha8Rng,
}

impl Medium for Storm {
    fn pass(&mut self, _from: usize, sample: i16) -> i16 {
        if self.loud { (self.rng.next_u32() as i16) / 8 } else { sample }
    }
}

#[test]
fn after_two_seconds_of_noise_the_modems_train_again_and_nothing_is_lost() {
    let mut retrained = 0;
    for seed in 0..4 {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let mut desk = Desk::new(Storm { loud: false, rng });
        desk.call(["+DS=0", "+DS=0"]);
        let sent = [random(seed, 3_000), random(seed + 100, 2_000)];
        for (end, bytes) in sent.iter().enumerate() {
            desk.types(end, bytes);
        }
        desk.run(2);
        desk.exchange.medium().loud = true;
        desk.run(2);
        desk.exchange.medium().loud = false;
        let mut most = 0;
        for _ in 0..120 * 50 {
            desk.step();
            most = (0..2).map(|end| desk.exchange.station(end).retrained()).fold(most, u32::max);
            if desk.shown[1].len() >= sent[0].len() && desk.shown[0].len() >= sent[1].len() {
                break;
            }
        }
        println!(
            "seed {seed}: trained again {most} times, {:?}",
            desk.shown.each_ref().map(Vec::len)
        );
        assert!(desk.shown[1] == sent[0] && desk.shown[0] == sent[1], "seed {seed}");
        retrained += most;
    }
    assert!(retrained > 0, "the noise was no trouble");
}
