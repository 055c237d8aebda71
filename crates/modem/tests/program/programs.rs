//! Third-party programs as clients of a modem: ZMODEM by `sz` and `rz`, a terminal (`minicom`), a
//! modem in software (`minimodem`), and IP over the line (SLIP). Each test skips, with the reason
//! printed, if its program is not installed.

use std::ffi::OsStr;
use std::fs;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use punctual_linux::process::{Signal, die_with_parent};

use super::client::{bytes, call};
use super::pair::pair;
use super::started::{Modem, eventually, folder};

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

/// The name, and the mark and space of the answering end and of the calling end, in Hz.
const MODES: [(&str, [&str; 2], [&str; 2]); 2] =
    [("V21", ["1650", "1850"], ["980", "1180"]), ("B103", ["2225", "2025"], ["1270", "1070"])];

const PUMP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/slip.py");

/// A child process that ends with its test.
struct Killed(Child);

impl Killed {
    fn start(mut command: Command) -> Self {
        die_with_parent(&mut command);
        Self(command.spawn().expect("it is there"))
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns true if all of these programs are installed; prints a missing one.
fn installed(programs: &[(&str, &str)]) -> bool {
    programs.iter().all(|(program, package)| {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null());
        let is_there = !matches!(command.output(), Err(why) if why.kind() == ErrorKind::NotFound);
        if !is_there {
            println!("skipped: no {program} (apt-get install {package})");
        }
        is_there
    })
}

/// Runs a program to its end. Returns whether it succeeded, and its output and errors.
fn run(program: &str, arguments: &[impl AsRef<OsStr>]) -> (bool, String) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|why| panic!("{program}: {why}"));
    let both = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&both).into_owned())
}

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

/// A network namespace that is removed with its test.
struct Namespace(String);

impl Namespace {
    fn new(end: &str) -> Result<Self, String> {
        let name = format!("punctual-{end}-{}", std::process::id());
        match run("ip", &["netns", "add", &name]) {
            (true, _) => Ok(Self(name)),
            (false, why) => Err(why),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0]).args(words).stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) {
        let output = self.command(words).output().expect("ip is there");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = run("ip", &["netns", "del", &self.0]);
    }
}

/// Starts the transfer of packets between a tty and a network device with the address `own`.
fn pump(
    namespace: &Namespace,
    tty: &Path,
    says: &Path,
    role: &[&str],
    [own, far]: [&str; 2],
) -> Killed {
    let tty = tty.to_str().expect("ASCII");
    let mut command = namespace.command(&[&["python3", PUMP, tty, "line"], role].concat());
    let file = File::create(says).expect("ours");
    command.stdout(file.try_clone().expect("ours")).stderr(file);
    let pump = Killed::start(command);
    eventually("a device", || {
        let said = fs::read_to_string(says).expect("ours");
        assert!(!said.contains("Error"), "{said}");
        said.contains("is there").then_some(())
    });
    namespace.run(&["ip", "addr", "add", own, "peer", far, "dev", "line"]);
    namespace.run(&["ip", "link", "set", "line", "mtu", "296", "up"]);
    pump
}

pub(crate) fn a_page_is_fetched_over_a_call() {
    if !installed(&[("ip", "iproute2"), ("python3", "python3")]) {
        return;
    }
    if !Path::new("/dev/net/tun").exists() {
        println!("skipped: no /dev/net/tun: the kernel needs CONFIG_TUN");
        return;
    }
    let [near, far] = match ["near", "far"].map(Namespace::new) {
        [Ok(near), Ok(far)] => [near, far],
        [near, far] => {
            let why = near.err().or(far.err()).unwrap_or_default();
            println!("skipped: no network namespace can be made: {}", why.trim());
            return;
        }
    };
    let files = folder();
    let page = "<p>What a soft modem can carry.</p>\n".repeat(40);
    fs::write(files.path().join("page.html"), &page).expect("ours");
    let modem = Modem::start(&["--pair", "a", "b"]);
    for name in ["a", "b"] {
        let mut client = modem.client(name);
        // The settings outlive the client, because there is no call to hang up.
        client.command("AT+MS=V22B,0");
    }
    let says = files.path().join("near");
    let answers = pump(
        &far,
        &modem.path("b"),
        &files.path().join("far"),
        &["--answer"],
        ["10.7.0.2", "10.7.0.1"],
    );
    let calls = pump(&near, &modem.path("a"), &says, &["--dial", "1"], ["10.7.0.1", "10.7.0.2"]);
    eventually("a call", || {
        fs::read_to_string(&says).expect("ours").contains("packets pass").then_some(())
    });
    let mut command = far.command(&["python3", "-m", "http.server", "--bind", "10.7.0.2", "8080"]);
    command.current_dir(files.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Killed::start(command);
    let fetch = "import urllib.request as r; \
                 print(r.urlopen('http://10.7.0.2:8080/page.html', timeout=60).read().decode(), end='')";
    let mut fetched = String::new();
    for _ in 0..5 {
        // The server may not listen yet.
        let output = near.command(&["python3", "-c", fetch]).output().expect("ip is there");
        fetched = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() {
            break;
        }
    }
    assert!(fetched == page, "{fetched:?}");
    drop((server, calls, answers));
}
