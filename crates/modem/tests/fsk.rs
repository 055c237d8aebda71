//! The integer modem core in a thread: compared with a slow demodulator in floating point and with
//! itself, and run through a card that is served late.

use std::f64::consts::TAU;

use punctual_modem::LineQuality;
use punctual_modem::fsk::{Line, Modem, RECORDING_SAMPLES, Recording};
use punctual_modem::modem::Role;

const TEXT: &[u8] = b"The quick brown fox jumps over the lazy dog. \x00\x01\x7f\x80\xfe\xff";

/// Returns the signal of a modem that sends `bytes`, with some idle line before and after.
fn said(role: Role, bytes: &[u8]) -> Vec<i16> {
    let mut modem = Modem::new(role);
    let mut samples = vec![0; 200];
    modem.transmit_samples(&mut samples);
    let mut left = bytes;
    let mut rest = 400;
    while rest > 0 {
        while let [next, more @ ..] = left
            && modem.send(*next)
        {
            left = more;
        }
        let mut block = [0; 40];
        modem.transmit_samples(&mut block);
        samples.extend(block);
        // Ten bits of 26.67 samples for each byte that still waits.
        rest = if left.is_empty() && samples.len() > 600 + bytes.len() * 267 { 0 } else { 1 };
    }
    samples
}

fn received(role: Role, samples: &[i16]) -> Vec<u8> {
    let mut modem = Modem::new(role);
    let mut bytes = Vec::new();
    for block in samples.chunks(100) {
        modem.receive_samples(block);
        bytes.extend(std::iter::from_fn(|| modem.receive()));
    }
    assert_eq!(modem.framing_errors(), 0);
    bytes
}

#[test]
fn each_end_hears_the_other() {
    for (near, far) in [(Role::Calling, Role::Answering), (Role::Answering, Role::Calling)] {
        assert_eq!(received(far, &said(near, TEXT)), TEXT);
    }
}

#[test]
fn an_end_does_not_hear_itself() {
    let samples = said(Role::Calling, TEXT);
    let mut modem = Modem::new(Role::Calling);
    modem.receive_samples(&samples);
    assert_ne!(std::iter::from_fn(|| modem.receive()).collect::<Vec<_>>(), TEXT);
}

#[test]
fn the_tones_are_those_of_v21() {
    // ITU-T V.21: channel 1 has 980 and 1180 Hz, channel 2 has 1650 and 1850 Hz; an idle line is a
    // mark, the lower of the two. One second, counted by its rising zero crossings.
    for (role, hertz) in [(Role::Calling, 980), (Role::Answering, 1650)] {
        let mut samples = vec![0; 8000];
        Modem::new(role).transmit_samples(&mut samples);
        let rising = samples.windows(2).filter(|pair| pair[0] < 0 && pair[1] >= 0).count();
        assert!(rising.abs_diff(hertz) <= 1, "{rising} Hz instead of {hertz}");
    }
}

/// Computes the energy over the last 27 samples by definition, in floating point.
fn oracle(samples: &[i16], end: usize, hertz: f64) -> f64 {
    let window = &samples[end.saturating_sub(27)..end];
    let sum = |part: fn(f64) -> f64| -> f64 {
        let turned = |(k, &x): (usize, &i16)| f64::from(x) * part(TAU * hertz * k as f64 / 8000.0);
        window.iter().enumerate().map(turned).sum()
    };
    sum(f64::cos).powi(2) + sum(f64::sin).powi(2)
}

#[test]
fn soft_decisions_are_those_of_a_slow_demodulator() {
    let noisy = Recording::of_far_end(LineQuality { loss_db: 20.0, snr_db: 10.0 }, 7);
    let samples: Vec<i16> =
        noisy.as_bytes().chunks(2).map(|two| i16::from_ne_bytes([two[0], two[1]])).collect();
    let mut modem = Modem::new(Role::Calling);
    let mut compared = 0;
    for end in 1..4000 {
        modem.receive_samples(&samples[end - 1..end]);
        let (mark, space) = (oracle(&samples, end, 1650.0), oracle(&samples, end, 1850.0));
        // The core's sums have units of 1/2⁸ of a sample, and their squares 1/2¹⁶. Its table of 256
        // sines shifts a tone's phase by up to a 256th of a turn: some percent of the energy.
        let soft = modem.soft() as f64 / 65_536.0;
        let off = (soft - (mark - space)).abs() / (mark + space).max(1.0);
        assert!(off < 0.06, "sample {end}: {soft} instead of {}", mark - space);
        compared += 1;
    }
    assert_eq!(compared, 3999);
}

#[test]
fn a_carrier_is_heard_when_there_is_one() {
    let mut modem = Modem::new(Role::Answering);
    modem.receive_samples(&[0; 500]);
    assert!(!modem.carrier(), "silence");
    let loud = said(Role::Calling, b"");
    modem.receive_samples(&loud);
    assert!(modem.carrier(), "a carrier at full level");
    let faint: Vec<i16> = loud.iter().map(|sample| sample / 256).collect();
    modem.receive_samples(&faint);
    assert!(!modem.carrier(), "60 dB below full scale");
}

#[test]
fn a_full_queue_refuses() {
    let mut modem = Modem::new(Role::Calling);
    assert_eq!((0..=255).filter(|&byte| modem.send(byte)).count(), 64);
}

fn run(recording: &Recording, offset: u32, positions: impl IntoIterator<Item = u64>) -> Line {
    let mut line = Line::new(offset);
    for position in positions {
        line.serve(recording, position, 1);
    }
    line
}

#[test]
fn a_line_served_in_time_loses_nothing() {
    let recording = Recording::of_far_end(LineQuality::default(), 1);
    // 20 s in services of 20 to 511 samples: the state does not depend on how the time is divided.
    let whole = run(&recording, 0, (0..=1600).map(|k| k * 100));
    let fine = run(&recording, 0, (0..=8000).map(|k| k * 20));
    let stats = whole.stats();
    assert_eq!((stats.lost, stats.stale, stats.bad, stats.overruns), (0, 0, 0, 0));
    // 300 bit/s for 20 s in characters of ten bits, minus the first ones.
    assert!((590..=600).contains(&stats.good), "{stats:?}");
    assert_eq!(stats.good, fine.stats().good);
    assert_eq!(whole.stats().read, 160_000);
    let again = run(&recording, 0, (0..=1600).map(|k| k * 100));
    assert_eq!(whole, again);
}

#[test]
fn a_line_served_too_late_loses_what_the_ring_could_not_hold() {
    let recording = Recording::of_far_end(LineQuality::default(), 1);
    let positions = (0..200).map(|k| k * 100).chain([20_600, 20_700]);
    let stats = run(&recording, 0, positions).stats();
    // 700 were pending: one round of the ring is lost, the rest was taken.
    assert_eq!((stats.lost, stats.stale, stats.overruns), (512, 512, 1));
    assert_eq!((stats.most_pending, stats.read), (700, 20_700));
    // An earlier position changes nothing.
    let mut line = run(&recording, 0, [100]);
    let before = line.clone();
    assert_eq!(line.serve(&recording, 50, 1), 0);
    assert_eq!(line, before);
}

#[test]
fn late_services_show_in_the_bytes() {
    let recording = Recording::of_far_end(LineQuality::default(), 1);
    // Served at every eighth interrupt: 512 of 800 samples are lost each time, ten bytes' worth.
    let late = run(&recording, 0, (1..=200).map(|k| k * 800)).stats();
    assert!(late.bad > 50, "{late:?}");
    assert_eq!(late.lost, 200 * 512);
}

#[test]
fn more_passes_change_the_load_and_nothing_else() {
    let recording = Recording::of_far_end(LineQuality::default(), 1);
    let mut lines = [Line::new(5), Line::new(5)];
    for position in (100..20_000).step_by(100) {
        for (line, passes) in lines.iter_mut().zip([1, 7]) {
            line.serve(&recording, position, passes);
        }
    }
    let [once, often] = lines;
    assert_ne!(once, often, "the scratch modem has worked");
    assert_eq!(once.stats(), often.stats());
    assert_eq!(once.transmit_ring(), often.transmit_ring());
}

#[test]
fn a_line_survives_as_bytes() {
    let recording = Recording::of_far_end(LineQuality::default(), 1);
    let line = run(&recording, 3, (1..50).map(|k| k * 90));
    assert_eq!(Line::from_bytes(line.as_bytes()), Some(line.clone()));
    assert_eq!(Line::from_bytes(&line.as_bytes()[1..]), None);
    assert_eq!(recording.as_bytes().len(), RECORDING_SAMPLES * 2);
}

#[test]
fn a_recording_is_the_same_for_the_same_seed() {
    let recording = |seed| Recording::of_far_end(LineQuality::default(), seed);
    assert_eq!(recording(4), recording(4));
    assert_ne!(recording(4), recording(5));
    assert!(Recording::try_from(vec![0; 7]).is_err());
}
