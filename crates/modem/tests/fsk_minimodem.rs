//! Independent code at the far end: minimodem (Debian) receives from the integer core, and sends to
//! it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use punctual_modem::fsk::Modem;
use punctual_modem::modem::Role;

const TEXT: &[u8] = b"What a soft modem says, another one must understand. 0123456789\n";

/// Prepares minimodem on one of the two channels of V.21 (mark and space, in Hz), or prints the
/// reason and returns `None`.
fn minimodem(mode: &str, file: &Path, tones: [u32; 2]) -> Option<Command> {
    let there = Command::new("minimodem").arg("--version").stdout(Stdio::null()).status();
    if there.is_err() {
        println!("skipped: minimodem is not installed (apt-get install minimodem)");
        return None;
    }
    let mut command = Command::new("minimodem");
    command.args([mode, "--quiet", "--samplerate", "8000", "--ascii", "--file"]).arg(file);
    command.args(["-M", &tones[0].to_string(), "-S", &tones[1].to_string(), "300"]);
    Some(command)
}

/// Writes a WAV file of 16-bit samples at 8 kHz, one channel: a header of 44 bytes, then the
/// samples.
fn wav(samples: &[i16]) -> Vec<u8> {
    let bytes = u32::try_from(samples.len() * 2).expect("a short file");
    let mut file = Vec::new();
    file.extend(b"RIFF");
    file.extend((36 + bytes).to_le_bytes());
    file.extend(b"WAVEfmt \x10\0\0\0\x01\0\x01\0");
    file.extend(8_000u32.to_le_bytes());
    file.extend(16_000u32.to_le_bytes());
    file.extend(b"\x02\0\x10\0data");
    file.extend(bytes.to_le_bytes());
    file.extend(samples.iter().flat_map(|sample| sample.to_le_bytes()));
    file
}

/// Returns the samples after `data`.
fn samples_of(wav: &[u8]) -> Vec<i16> {
    let data = wav.windows(4).position(|four| four == b"data").expect("a chunk of samples");
    wav[data + 8..].chunks_exact(2).map(|two| i16::from_le_bytes([two[0], two[1]])).collect()
}

#[test]
fn minimodem_hears_us() {
    for (role, tones) in [(Role::Calling, [980, 1180]), (Role::Answering, [1650, 1850])] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("said.wav");
        let mut modem = Modem::new(role);
        let mut samples = vec![0; 4_000];
        modem.transmit_samples(&mut samples);
        for byte in TEXT {
            assert!(modem.send(*byte));
            let mut character = [0; 267];
            modem.transmit_samples(&mut character);
            samples.extend(character);
        }
        let mut rest = [0; 4_000];
        modem.transmit_samples(&mut rest);
        samples.extend(rest);
        fs::write(&file, wav(&samples)).expect("written");
        let Some(mut command) = minimodem("--rx", &file, tones) else { return };
        let heard = command.output().expect("it runs").stdout;
        assert_eq!(String::from_utf8_lossy(&heard), String::from_utf8_lossy(TEXT), "{role:?}");
    }
}

#[test]
fn we_hear_minimodem() {
    for (role, tones) in [(Role::Answering, [980, 1180]), (Role::Calling, [1650, 1850])] {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, text) = (folder.path().join("said.wav"), folder.path().join("text"));
        fs::write(&text, TEXT).expect("written");
        let Some(mut command) = minimodem("--tx", &file, tones) else { return };
        command.stdin(fs::File::open(&text).expect("readable"));
        assert!(command.status().expect("it runs").success());
        let mut modem = Modem::new(role);
        let mut heard = Vec::new();
        for block in samples_of(&fs::read(&file).expect("a file")).chunks(100) {
            modem.receive_samples(block);
            heard.extend(std::iter::from_fn(|| modem.receive()));
        }
        assert_eq!(String::from_utf8_lossy(&heard), String::from_utf8_lossy(TEXT), "{role:?}");
    }
}
