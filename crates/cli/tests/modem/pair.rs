//! Two modems that one process joins.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use punctual_linux::process::{Signal, die_with_parent};

use super::client::{Client, bytes, call};
use super::started::{Modem, eventually, folder};

fn pair() -> (Modem, Client, Client) {
    let modem = Modem::start(&["--pair", "a", "b"]);
    let (a, b) = (modem.client("a"), modem.client("b"));
    (modem, a, b)
}

fn no_links_are_left(modem: &Modem) {
    for name in ["a", "b"] {
        assert!(fs::symlink_metadata(modem.path(name)).is_err(), "{name} is left");
    }
}

#[test]
fn a_call_carries_bytes_both_ways_and_ends_for_both() {
    let (mut modem, mut a, mut b) = pair();
    call(&mut a, &mut b);
    let sent = [bytes(1, 600), bytes(2, 400)];
    a.types(&sent[0]);
    b.types(&sent[1]);
    assert!(b.bytes(sent[0].len()) == sent[0], "what A sent is not what B has");
    assert!(a.bytes(sent[1].len()) == sent[1], "what B sent is not what A has");
    a.escape();
    a.command("ATH");
    // The far end gets the escape sequence as well: nobody knew yet that it was one.
    assert_eq!(b.until("NO CARRIER\r\n"), "+++\r\nNO CARRIER\r\n");
    b.command("AT");
    assert_eq!(modem.end(Signal::TERM).code(), Some(0), "{}", modem.said());
    no_links_are_left(&modem);
}

#[test]
fn a_client_that_goes_ends_the_call_and_the_next_can_dial() {
    let (mut modem, mut a, mut b) = pair();
    call(&mut a, &mut b);
    drop(a);
    b.until("NO CARRIER\r\n");
    let mut a = modem.client("a");
    a.types("ATDT1\r");
    b.until("RING\r\n");
    // While it rings, and with both ttys open.
    assert_eq!(modem.end(Signal::INT).code(), Some(0), "{}", modem.said());
    no_links_are_left(&modem);
}

/// A child that ends with its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program with a tty for its standard input and output.
fn on(tty: &Path, program: &str, arguments: &[&str], place: &Path) -> Killed {
    let open = || File::options().read(true).write(true).open(tty).expect("a tty");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(place);
    command.stdin(open()).stdout(open()).stderr(Stdio::null());
    die_with_parent(&mut command);
    Killed(command.spawn().expect("it is there"))
}

#[test]
fn sz_and_rz_move_a_file() {
    for program in ["sz", "rz"] {
        if Command::new(program).arg("--version").output().is_err() {
            println!("skipped: no {program} (apt-get install lrzsz)");
            return;
        }
    }
    let (modem, mut a, mut b) = pair();
    call(&mut a, &mut b);
    let (from, to) = (folder(), folder());
    let file = bytes(3, 600);
    fs::write(from.path().join("file"), &file).expect("ours");
    // Both keep the ttys open, so that the call stays when a program is through with them.
    let mut receives = on(&modem.path("b"), "rz", &["--binary", "--quiet"], to.path());
    let mut sends = on(&modem.path("a"), "sz", &["--binary", "--quiet", "file"], from.path());
    for child in [&mut sends, &mut receives] {
        let ended = eventually("the file is across", || child.0.try_wait().expect("it is ours"));
        assert!(ended.success(), "{ended}");
    }
    assert!(fs::read(to.path().join("file")).expect("received") == file, "another file arrived");
    // The call is still there, and nothing of the transfer is left in it.
    a.types("after");
    b.until("after");
}
