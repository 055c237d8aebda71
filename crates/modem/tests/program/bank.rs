//! Many modems on one driver.

use std::fs;

use punctual_linux::process::Signal;

use super::client::bytes;
use super::common::{run, text};
use super::started::{Modem, eventually, folder};

/// Returns the last load reported: percent of a CPU.
fn load(modem: &Modem) -> f64 {
    let said = modem.said();
    let found = said.rsplit_once("load ").expect("its last line").1;
    found.split_once(" %").expect("a number").0.parse().expect("a number")
}

pub(crate) fn lines_of_a_bank_call_each_other_by_their_numbers() {
    let mut modem = Modem::start(&["--bank", "6", "--dir", ".", "--report", "1"]);
    let mut clients: Vec<_> = (0..6).map(|line| modem.client(&line.to_string())).collect();
    // At 300 bit/s a pause of the machine costs some bits, but no call.
    for client in &mut clients {
        client.command("AT+MS=V21,0");
    }
    for answers in [1, 2, 5] {
        clients[answers].command("ATS0=1");
    }
    for (calls, number) in [(0, 5), (3, 2), (4, 1)] {
        clients[calls].types(format!("ATDT{number}\r"));
    }
    for client in &mut clients {
        client.until("CONNECT 300\r\n");
    }
    for (says, hears) in [(0, 5), (5, 0), (3, 2), (2, 3), (4, 1), (1, 4)] {
        let sent = bytes(says as u8, 60);
        clients[says].types(&sent);
        assert!(clients[hears].bytes(sent.len()) == sent, "from {says} to {hears}");
    }
    eventually("six lines in a call", || {
        modem.said().contains("6 lines, 6 in a call").then_some(())
    });
    // A client that closes its tty frees both lines.
    drop(clients.remove(0));
    clients[4].until("NO CARRIER\r\n");
    assert_eq!(modem.end(Signal::TERM).code(), Some(0), "{}", modem.said());
    let load = load(&modem);
    assert!(load > 0.0 && load < 100.0, "{load}");
    for line in 0..6 {
        let link = modem.path(&line.to_string());
        assert!(fs::symlink_metadata(link).is_err(), "line {line} is left");
    }
}

pub(crate) fn a_bank_is_served_as_an_upcall_and_inside_a_reservation() {
    for context in [&["--upcall"][..], &["--reserve", "3ms/20ms"]] {
        let arguments = [&["--bank", "4", "--dir", "."][..], context].concat();
        let mut modem = Modem::start(&arguments);
        if eventually("ttys, or a reason", || {
            let there = modem.path("3").exists().then_some(true);
            let said = modem.said();
            there.or((said.contains("privilege") || said.contains("CAP_SYS_NICE")).then_some(false))
        }) {
            let mut client = modem.client("0");
            client.command("AT");
            client.types("ATD9\r");
            client.until("NO DIALTONE\r\n");
            assert_eq!(modem.end(Signal::TERM).code(), Some(0), "{}", modem.said());
            assert!(modem.said().contains("4 lines, 0 in a call"), "{}", modem.said());
        } else {
            println!("skipped: {}", modem.said());
        }
    }
}

pub(crate) fn a_bank_that_cannot_be_is_refused_with_a_reason() {
    let files = folder();
    let dir = files.path().to_str().expect("ASCII");
    for (arguments, code, reason) in [
        (&["--bank", "4"][..], 2, "--dir"),
        (&["--bank", "1", "--dir", dir], 2, "2..=1000"),
        (&["--bank", "4", "--dir", "/nowhere/at/all"], 2, "/nowhere/at/all/0"),
        (&["--bank", "900", "--dir", dir], 1, "900 lines are too many for one CPU"),
        (&["--bank", "100", "--dir", dir, "--reserve", "1ms/20ms"], 1, "reserv"),
        (&["--bank", "4", "--dir", dir, "--tty", "x"], 2, "--tty"),
    ] {
        let output = run(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
    assert_eq!(fs::read_dir(files.path()).expect("ours").count(), 0, "links are left");
}
