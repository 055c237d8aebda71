//! `minimodem`, FSK that shares no code with ours: each receives the other's signal.

use std::fs;

use punctual_linux::process::Signal;

use super::super::started::{Modem, folder};
use super::{installed, run};

/// The name, and the mark and space of the answering end and of the calling end, in Hz.
const MODES: [(&str, [&str; 2], [&str; 2]); 2] =
    [("V21", ["1650", "1850"], ["980", "1180"]), ("B103", ["2225", "2025"], ["1270", "1070"])];

pub(crate) fn minimodem_hears_us_and_we_hear_it() {
    if !installed(&[("minimodem", "minimodem")]) {
        return;
    }
    for (name, [mark, space], [our_mark, our_space]) in MODES {
        let files = folder();
        let path = |name: &str| files.path().join(name).to_str().expect("ASCII").to_owned();
        let (text, hears, says) = (path("text"), path("hears.wav"), path("says.wav"));
        // The beginning is lost while the modem detects its carrier. An octet of ones has one zero,
        // its start bit, so the start of a character cannot be mistaken.
        let ones = [0xff; 120];
        let told = [&ones[..], b"\r\nsaid by minimodem\r\n", &ones].concat();
        fs::write(&text, told).expect("ours");
        let sends = format!("minimodem --tx -R 8000 -M {mark} -S {space} -f {hears} 300 < {text}");
        let (sent, why) = run("sh", &["-c", &sends]);
        assert!(sent, "{why}");
        let arguments = ["--tty", "tty", "--wav-in", &hears, "--wav-out", &says];
        let mut modem = Modem::start(&arguments);
        let mut client = modem.client("tty");
        client.command(&format!("ATE0+MS={name},0;+ES=1"));
        client.types("ATDT1\r");
        client.until("CONNECT 300\r\n");
        client.types("said by punctual\r\n");
        client.until("said by minimodem");
        // The signal ends, and the call with it.
        client.until("NO CARRIER\r\n");
        assert_eq!(modem.end(Signal::TERM).code(), Some(0), "{}", modem.said());
        let arguments = ["--rx", "-q", "-M", our_mark, "-S", our_space, "-f", &says, "300"];
        let (heard, what) = run("minimodem", &arguments);
        assert!(heard && what.contains("said by punctual"), "{name}: {what:?}");
    }
}
