//! `punctual serve` and `punctual status` as users and service managers start them.
//!
//! Each broker has a folder of its own and is killed when its test ends. The tests check answers,
//! never times. The tests in tests/tests/broker check what a broker grants.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

mod common;

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use common::{PROFILE, PUNCTUAL, punctual, text};
use punctual_client::wire::Listener;
use punctual_linux::process::{Signal, die_with_parent, send};
use punctual_linux::sched::{self, Class};
use serde_json::Value;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::Builder::new().prefix("punctual-serve").tempdir().expect("a folder")
}

/// Returns whether a broker can work here, and prints the reason if not.
fn can_serve() -> bool {
    let tried = sched::try_out(Class::Fifo { priority: 1 });
    tried.inspect_err(|refused| println!("skipped: {refused}")).is_ok()
}

/// Polls until `found` returns a value, for up to twenty seconds.
fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1_000 {
        if let Some(found) = found() {
            return found;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("not within twenty seconds: {what}");
}

/// A broker with its own folder. Killed when dropped.
struct Serving {
    folder: TempDir,
    child: Child,
}

impl Serving {
    /// Starts a shell that runs `before` and then becomes the broker. `prepare` may change the
    /// command.
    fn start(before: &str, prepare: impl FnOnce(&Path, &mut Command)) -> Self {
        let folder = folder();
        fs::write(folder.path().join("broker.toml"), "").expect("ours");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{before} exec \"$0\" \"$@\""), PUNCTUAL, "serve"]);
        for (option, file) in
            [("--config", "broker.toml"), ("--socket", "socket"), ("--state", "state")]
        {
            command.arg(option).arg(folder.path().join(file));
        }
        let log = File::create(folder.path().join("log")).expect("ours");
        command.env(PROFILE, "ideal").stdin(Stdio::null()).stderr(log);
        prepare(folder.path(), &mut command);
        die_with_parent(&mut command);
        let child = command.spawn().expect("there is a shell");
        Self { folder, child }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.path("log")).expect("ours")
    }

    fn status(&self, options: &[&str]) -> Output {
        let socket = self.path("socket");
        let mut arguments = vec!["status", "--broker", socket.to_str().expect("UTF-8")];
        arguments.extend(options);
        punctual(&arguments)
    }

    /// Returns the status as JSON, once the broker answers.
    fn json(&self) -> Value {
        let answer = eventually("the broker answers", || {
            Some(self.status(&["--json"])).filter(|output| output.status.code() == Some(0))
        });
        serde_json::from_slice(&answer.stdout).expect("JSON")
    }

    /// Ends the broker as a service manager does, and returns its exit code.
    fn terminate(&mut self) -> Option<i32> {
        send(&self.child, Signal::TERM).expect("our child");
        let ended = || self.child.try_wait().expect("our child");
        eventually("it ends", ended).code()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if thread::panicking() {
            println!("the broker's log:\n{}", self.log());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_configuration_is_checked_without_serving() {
    let folder = folder();
    let packaged = folder.path().join("broker.toml");
    fs::write(&packaged, include_str!("../../../packaging/broker.toml")).expect("ours");
    let packaged = packaged.to_str().expect("UTF-8");
    let right = punctual(&["serve", "--check", "--config", packaged]);
    assert_eq!(
        (right.status.code(), text(&right.stdout)),
        (Some(0), format!("{packaged}: right\n"))
    );

    let file = folder.path().join("bad.toml");
    fs::write(&file, "[default]\nallow = [\"upcall\"]\n").expect("ours");
    let file = file.to_str().expect("UTF-8");
    for arguments in [&["serve", "--check", "--config", file][..], &["serve", "--config", file]] {
        let wrong = punctual(arguments);
        let said = text(&wrong.stderr);
        assert_eq!(wrong.status.code(), Some(2), "{said}");
        assert!(said.contains(&format!("{file}:2:10: ")), "{said}");
        assert!(said.contains("did you mean \"upcalls\"?"), "{said}");
    }
    let missing = folder.path().join("missing.toml");
    let missing = missing.to_str().expect("UTF-8");
    let none = punctual(&["serve", "--check", "--config", missing]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains(missing));
}

#[test]
fn without_a_broker_status_says_where_it_looked() {
    let folder = folder();
    let socket = folder.path().join("socket");
    let socket = socket.to_str().expect("UTF-8");
    let answer = punctual(&["status", "--socket", socket]);
    let said = text(&answer.stderr);
    assert_eq!(answer.status.code(), Some(3), "{said}");
    assert!(said.contains(socket) && said.contains("punctual serve"), "{said}");
    assert!(answer.stdout.is_empty());
}

#[test]
fn a_ledger_that_others_may_write_is_told_with_the_option_for_its_folder() {
    if !can_serve() {
        return;
    }
    let mut serving = Serving::start("mkdir -m 777 \"$SHARED\";", |folder, command| {
        command.env("SHARED", folder.join("state"));
    });
    let ended = || serving.child.try_wait().expect("our child");
    assert_eq!(eventually("it gives up", ended).code(), Some(3));
    let said = serving.log();
    assert!(said.contains("others may write it") && said.contains("--state"), "{said}");
}

#[test]
fn it_serves_until_a_signal_ends_it() {
    if !can_serve() {
        return;
    }
    let mut serving = Serving::start("", |_, _| ());
    let status = serving.json();
    let totals = &status["totals"];
    assert_eq!((&totals["grants"], &totals["granted_ppm"]), (&0.into(), &0.into()));
    assert!(totals["cpus"].as_u64() >= Some(1));
    // Nothing was measured here, and a broker does not promise on the assumption of free switches.
    assert_eq!(totals["context_switch_ns"], 5_000);
    let page = text(&serving.status(&[]).stdout);
    assert!(page.contains("0.0 % of ") && page.contains("A switch is charged 5us"), "{page}");

    let socket = serving.path("socket");
    let other_state = serving.path("other");
    let second = punctual(&[
        "serve",
        "--socket",
        socket.to_str().expect("UTF-8"),
        "--state",
        other_state.to_str().expect("UTF-8"),
    ]);
    let said = text(&second.stderr);
    assert_eq!(second.status.code(), Some(3), "{said}");
    assert!(said.contains("another broker"), "{said}");

    assert_eq!(serving.terminate(), Some(0));
    // The socket's file may stay where only root can remove it, but no broker listens there.
    assert_eq!(serving.status(&[]).status.code(), Some(3));
}

#[test]
fn a_reload_takes_a_valid_file_and_ignores_an_invalid_one() {
    if !can_serve() {
        return;
    }
    let serving = Serving::start("", |_, _| ());
    let quota = || serving.json()["totals"]["quota_ppm"].as_u64();
    assert_eq!(quota(), Some(100_000));
    let reload = |config: &str| {
        fs::write(serving.path("broker.toml"), config).expect("ours");
        send(&serving.child, Signal::HUP).expect("our child");
    };
    reload("[default]\nshare = \"30%\"\n[host]\ncontext_switch = \"7us\"\n");
    eventually("the new quota holds", || (quota() == Some(300_000)).then_some(()));
    let totals = &serving.json()["totals"];
    assert_eq!(totals["context_switch_ns"], 7_000);
    assert_eq!(totals["context_switch_from"], "the configuration");
    reload("[default]\nshare = 30\n");
    eventually("the log says where it is wrong", || {
        serving.log().contains("broker.toml:2:9").then_some(())
    });
    assert_eq!(quota(), Some(300_000));
}

/// Passes a socket that listens before the broker runs and after it has ended (sd_listen_fds(3)).
#[test]
fn a_service_manager_can_pass_the_socket() {
    if !can_serve() {
        return;
    }
    let manager = folder();
    let socket = manager.path().join("socket");
    let listener = Listener::bind(&socket).expect("ours");
    let pass = |_: &Path, command: &mut Command| {
        let copy = listener.as_fd().try_clone_to_owned().expect("a descriptor");
        command.stdin(Stdio::from(copy));
    };
    let answer = || punctual(&["status", "--broker", socket.to_str().expect("UTF-8")]);
    for _ in 0..2 {
        // The broker looks for descriptor 3, and exec keeps the process id in LISTEN_PID.
        let before = "exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$;";
        let mut serving = Serving::start(before, pass);
        // The client connects at once, and is answered when the broker runs.
        let answer = answer();
        assert_eq!(answer.status.code(), Some(0), "{}", text(&answer.stderr));
        assert!(!serving.path("socket").exists(), "it makes none of its own");
        assert_eq!(serving.terminate(), Some(0));
        assert!(socket.exists(), "it is the manager's");
    }
}

/// Checks the protocols of sd_notify(3) and sd_watchdog_enabled(3).
#[test]
fn the_service_manager_is_notified_of_the_state() {
    if !can_serve() {
        return;
    }
    let manager = folder();
    let path = manager.path().join("notify");
    let heard = UnixDatagram::bind(&path).expect("ours");
    // The broker has another user id by then, so the socket must be writable as a service manager's
    // is.
    for (of, mode) in [(manager.path(), 0o755), (&*path, 0o666)] {
        fs::set_permissions(of, fs::Permissions::from_mode(mode)).expect("ours");
    }
    heard.set_read_timeout(Some(Duration::from_millis(50))).expect("not zero");
    let hear = |what: &str| {
        eventually(what, || {
            let mut message = [0; 512];
            match heard.recv(&mut message) {
                Ok(length) => {
                    let said = String::from_utf8_lossy(&message[..length]);
                    said.lines().any(|line| line == what).then_some(())
                }
                Err(none) if matches!(none.kind(), ErrorKind::WouldBlock) => None,
                Err(other) => panic!("{other}"),
            }
        });
    };
    let before = "export WATCHDOG_USEC=200000 WATCHDOG_PID=$$;";
    let mut serving = Serving::start(before, |_, command| {
        command.env("NOTIFY_SOCKET", &path);
    });
    hear("READY=1");
    hear("WATCHDOG=1");
    send(&serving.child, Signal::HUP).expect("our child");
    hear("RELOADING=1");
    hear("READY=1");
    assert_eq!(serving.terminate(), Some(0));
    hear("STOPPING=1");
}

/// Sends messages to and from this host through channels. The trace has each message once,
/// complete, in time or not.
#[test]
fn each_message_is_in_the_trace() {
    use punctual_channel::client::{Receiving, Sending};
    use punctual_client::Broker;
    use punctual_client::want::WantedChannel;
    use punctual_model::Duration as Time;
    use punctual_model::channel::{Framing, LinearBounded};
    use punctual_trace::file::{Block, Reader, Step};
    use punctual_trace::{Kind, SubjectKind};

    const MESSAGES: usize = 20;
    if !can_serve() {
        return;
    }
    let mut serving = Serving::start("", |folder, command| {
        let config =
            "[channels]\nlink = \"100mbit/s\"\n[default]\nshare = \"60%\"\nlink = \"90%\"\n";
        fs::write(folder.join("broker.toml"), config).expect("ours");
        command.arg("--trace").arg(folder.join("trace"));
    });
    serving.json();
    let mut broker = Broker::connect_to(&serving.path("socket")).expect("it answers");
    let port = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    let to = port.expect("an address");
    let arrivals = LinearBounded::fixed(500, Time::from_millis(2), 4).expect("valid");
    let bound = Some(Time::from_millis(50));
    let open = |broker: &mut Broker, want: WantedChannel| {
        let want = WantedChannel { framing: Framing::Datagram, ..want };
        broker.open_channel(&want).expect("fits")
    };
    let granted = open(&mut broker, WantedChannel::receiving("in", arrivals, bound, to));
    let mut receiving: Receiving = broker.attach_channel(&granted).expect("its queue");
    let granted = open(&mut broker, WantedChannel::sending("out", arrivals, bound, to));
    let mut sending: Sending = broker.attach_channel(&granted).expect("its queue");
    for number in 0..MESSAGES {
        sending.send(&[number as u8; 500]).expect("sent");
        assert_eq!(receiving.receive(&mut [0; 500]).expect("received").bytes, 500);
    }
    drop((sending, receiving, broker));
    assert_eq!(serving.terminate(), Some(0), "{}", serving.log());

    let bytes = fs::read(serving.path("trace")).expect("written");
    let (mut reader, mut subjects, mut events, mut ended) = (Reader::new(), vec![], vec![], false);
    while let Step::Block(block) = reader.step(&bytes).expect("whole") {
        match block {
            Block::Subject(number, subject) => subjects.push((number, subject)),
            Block::Events(some) => events.extend(some),
            Block::Lost(lost) => panic!("{lost:?}"),
            Block::End(_) => ended = true,
            _ => {}
        }
    }
    assert!(ended);
    for (name, begins) in [("in", 0), ("out", MESSAGES)] {
        let (number, subject) = subjects.iter().find(|(_, it)| it.name == name).expect("declared");
        assert_eq!(
            (subject.kind, subject.promise.relative_deadline),
            (SubjectKind::Channel, bound)
        );
        let of = |kind| {
            let all = events.iter().filter(|it| it.job.task == *number && it.kind == kind);
            all.map(|it| it.job.index).collect::<Vec<_>>()
        };
        let done = of(Kind::Complete);
        assert_eq!((done.len(), of(Kind::Start).len()), (MESSAGES, begins), "{name}");
        assert!(done.windows(2).all(|pair| pair[0] < pair[1]), "{done:?}");
    }
}
