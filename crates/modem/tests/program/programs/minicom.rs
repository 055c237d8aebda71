//! `minicom`, dialling from a script in its own language.

use std::fs;
use std::process::{Command, Stdio};

use super::super::pair::pair;
use super::super::started::{eventually, folder};
use super::{Killed, installed};

const SCRIPT: &str = "\
timeout 100
verbose off
send \"ATE0+MS=V21,0\"
expect {
    \"OK\" break
    timeout 20 goto failed
}
send \"ATDT5551\"
expect {
    \"CONNECT 300\" break
    timeout 60 goto failed
}
sleep 1
send \"typed by minicom\"
expect {
    \"heard it\" break
    timeout 30 goto failed
}
! echo done > outcome
exit
failed:
! echo failed > outcome
exit
";

pub(crate) fn minicom_dials_from_a_script_and_talks() {
    if !installed(&[("minicom", "minicom"), ("script", "bsdutils")]) {
        return;
    }
    let (modem, a, mut b) = pair();
    drop(a);
    b.command("ATE0S0=1+MS=V21,0");
    let files = folder();
    fs::write(files.path().join("dial"), SCRIPT).expect("ours");
    // It needs a terminal for its screen: `script` provides one.
    let mut command = Command::new("script");
    let minicom = format!("minicom -o -D {} -S dial", modem.path("a").display());
    command.args(["-q", "-e", "-c", &minicom, "/dev/null"]).current_dir(files.path());
    command.env("TERM", "vt100").env("HOME", files.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _minicom = Killed::start(command);
    b.until("CONNECT 300");
    b.until("typed by minicom");
    b.types("heard it\r\n");
    let outcome = eventually("its script ends", || {
        fs::read_to_string(files.path().join("outcome")).ok().filter(|text| text.ends_with('\n'))
    });
    assert_eq!(outcome, "done\n");
}
