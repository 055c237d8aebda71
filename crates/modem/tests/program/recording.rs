//! A file as a line.

use std::f64::consts::TAU;
use std::fs;

use hound::{SampleFormat, WavReader, WavSpec, WavWriter};
use punctual_linux::process::Signal;

use super::common::{run, text};
use super::started::{Modem, folder};

const FORM: WavSpec = WavSpec {
    channels: 1,
    sample_rate: 8_000,
    bits_per_sample: 16,
    sample_format: SampleFormat::Int,
};

/// Mark and space of the answering end's channel (V.21 §3), in Hz.
const MARK: f64 = 1_650.0;
const SPACE: f64 = 1_850.0;

/// Returns the signal of an answering V.21 modem that sends `text`: ones for three seconds, the
/// characters, and ones for two more seconds.
fn sound(text: &str) -> Vec<i16> {
    let mut bits = vec![true; 900];
    for byte in text.bytes() {
        bits.push(false);
        bits.extend((0..8).map(|bit| byte >> bit & 1 == 1));
        bits.push(true);
    }
    bits.resize(bits.len() + 600, true);
    let mut phase = 0.0;
    let sample = |index: usize| {
        phase += TAU * if bits[index * 300 / 8_000] { MARK } else { SPACE } / 8_000.0;
        (4_000.0 * phase.sin()) as i16
    };
    (0..bits.len() * 8_000 / 300).map(sample).collect()
}

pub(crate) fn a_recording_is_heard_and_what_is_said_is_recorded() {
    let files = folder();
    let (hears, says) = (files.path().join("hears.wav"), files.path().join("says.wav"));
    let mut writer = WavWriter::create(&hears, FORM).expect("ours");
    sound("read from a file")
        .into_iter()
        .for_each(|sample| writer.write_sample(sample).expect("ours"));
    writer.finalize().expect("ours");
    let mut modem = Modem::start(&[
        "--tty".as_ref(),
        "tty".as_ref(),
        "--wav-in".as_ref(),
        hears.as_os_str(),
        "--wav-out".as_ref(),
        says.as_os_str(),
    ]);
    let mut client = modem.client("tty");
    client.command("AT+MS=V21,0;+ES=1");
    client.types("ATDT1\r");
    client.until("CONNECT");
    client.until("read from a file");
    // The recording is over.
    client.until("NO CARRIER\r\n");
    assert_eq!(modem.end(Signal::TERM).code(), Some(0), "{}", modem.said());
    let mut said = WavReader::open(&says).expect("it was made whole");
    assert_eq!(said.spec(), FORM);
    let said: Vec<i16> = said.samples().collect::<Result<_, _>>().expect("it was made whole");
    // Before its end the calling end sends only ones, at 980 Hz: a second of them crosses zero
    // 1,960 times.
    let end = said.iter().rposition(|sample| sample.abs() > 500).expect("it spoke");
    let second = &said[end + 1 - 8_000..=end];
    let crossings = second.windows(2).filter(|pair| (pair[0] < 0) != (pair[1] < 0)).count();
    assert!((1_940..=1_980).contains(&crossings), "{crossings}");
}

pub(crate) fn an_unsuitable_recording_is_refused_with_its_numbers() {
    let files = folder();
    let path = files.path().join("file.wav");
    let name = path.to_str().expect("ASCII");
    let refused = |reason: &str| {
        let output = run(&["--tty", "x", "--wav-in", name]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(reason), "{}", text(&output.stderr));
    };
    refused("no WAV file");
    fs::write(&path, "RIFF, or so it says").expect("ours");
    refused("no WAV file");
    for (spec, reason) in [
        (WavSpec { sample_rate: 44_100, ..FORM }, "44100 samples/s"),
        (WavSpec { channels: 2, ..FORM }, "2 channel(s)"),
        (WavSpec { bits_per_sample: 8, ..FORM }, "8 bit integer"),
    ] {
        WavWriter::create(&path, spec).expect("ours").finalize().expect("ours");
        refused(reason);
    }
    // Two bytes shorter than its header says.
    let mut writer = WavWriter::create(&path, FORM).expect("ours");
    (0..100_i16).for_each(|sample| writer.write_sample(sample).expect("ours"));
    writer.finalize().expect("ours");
    let whole = fs::read(&path).expect("ours");
    fs::write(&path, &whole[..whole.len() - 2]).expect("ours");
    refused("cut off or damaged");
}
