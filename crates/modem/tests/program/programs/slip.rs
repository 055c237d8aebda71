//! An IP link: two network namespaces, a call between them, `examples/slip.py` at both ends, and a
//! web server from which a page is fetched.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::started::{Modem, eventually, folder};
use super::{Killed, installed, run};

const PUMP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/slip.py");

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
