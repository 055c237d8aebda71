//! ZMODEM: `sz` and `rz`.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::client::{bytes, call};
use super::super::pair::pair;
use super::super::started::{eventually, folder};
use super::{Killed, installed};

/// Starts a program with a tty as its standard input and output.
fn on(tty: &Path, program: &str, arguments: &[&str], place: &Path) -> Killed {
    let open = || File::options().read(true).write(true).open(tty).expect("a tty");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(place);
    command.stdin(open()).stdout(open()).stderr(Stdio::null());
    Killed::start(command)
}

pub(crate) fn sz_and_rz_move_a_file_each_way() {
    if !installed(&[("sz", "lrzsz"), ("rz", "lrzsz")]) {
        return;
    }
    let (modem, mut a, mut b) = pair();
    call(&mut a, &mut b);
    // Both clients keep the ttys open, so that the call stays when a program ends.
    for (seed, from, to) in [(3, "a", "b"), (4, "b", "a")] {
        let (sent, received) = (folder(), folder());
        let file = bytes(seed, 600);
        fs::write(sent.path().join("file"), &file).expect("ours");
        let receives = on(&modem.path(to), "rz", &["--binary", "--quiet"], received.path());
        let mut sends = on(&modem.path(from), "sz", &["--binary", "--quiet", "file"], sent.path());
        let ended = eventually("sz ends", || sends.0.try_wait().expect("it is ours"));
        assert!(ended.success(), "{ended}");
        let came = eventually("the file is across", || {
            fs::read(received.path().join("file")).ok().filter(|came| came.len() >= file.len())
        });
        assert!(came == file, "another file arrived");
        // rz may wait another 40 s for a final message that it has discarded.
        drop(receives);
        for client in [&mut a, &mut b] {
            client.quiet();
        }
    }
    // The call still stands, and has no bytes left from the transfers.
    a.types("after");
    b.until("after");
}
