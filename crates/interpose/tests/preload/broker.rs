//! A broker in a process of its own, which is this program started again.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use punctual_broker::parts::Part;
use punctual_broker::server::{Options, Server};
use punctual_client::Broker as Connection;
use punctual_linux::process::die_with_parent;
use punctual_linux::{clock, sched};
use punctual_model::Duration;
use tempfile::TempDir;

const FOLDER: &str = "PUNCTUAL_TEST_BROKER";

const PART: &str = "PUNCTUAL_TEST_PART";

const CONFIG: &str = "
    [channels]
    link = \"100mbit/s\"
    [default]
    share = \"60%\"
    link = \"50%\"
    allow = [\"channels\"]
";

/// A broker's process, killed on drop.
pub(crate) struct Broker {
    folder: TempDir,
    child: Child,
}

impl Broker {
    /// Starts a broker; prints the reason and returns `None` if this host allows no reservation.
    pub(crate) fn start() -> Option<Self> {
        let reservation = "1ms/100ms".parse().expect("valid");
        let class = sched::Class::Deadline { reservation, reset_on_fork: true };
        for class in [class, sched::Class::Fifo { priority: 80 }] {
            if let Err(refused) = sched::try_out(class) {
                println!("skipped: {refused}");
                return None;
            }
        }
        let folder = TempDir::new().expect("a folder");
        fs::write(folder.path().join("broker.toml"), CONFIG).expect("ours");
        let child = spawn(folder.path());
        let mut broker = Self { folder, child };
        broker.wait_until_it_carries();
        Some(broker)
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
    }

    /// Starts the next broker, with the same ledger.
    pub(crate) fn start_again(&mut self) {
        self.child = spawn(self.folder.path());
        self.wait_until_it_carries();
    }

    fn wait_until_it_carries(&mut self) {
        for _ in 0..2_000 {
            let carries = Connection::connect_to(&self.socket())
                .and_then(|mut connection| connection.channels())
                .is_ok_and(|status| status.totals.is_some());
            if carries {
                return;
            }
            let ended = self.child.try_wait().expect("our child");
            assert_eq!(ended, None, "the broker has ended");
            clock::sleep(Duration::from_millis(10));
        }
        panic!("the broker does not answer within twenty seconds");
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }
}

/// Returns a command that starts this program with one test, which does what the environment says.
fn again() -> Command {
    let mut command = Command::new(env::current_exe().expect("the test has a path"));
    command.args(["--exact", "broker::serves", "--nocapture"]);
    command
}

fn spawn(folder: &Path) -> Child {
    let mut command = again();
    command.env(FOLDER, folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    die_with_parent(&mut command);
    command.spawn().expect("this program")
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves as the broker or a part of it, when started by other tests.
#[test]
fn serves() {
    if let Ok(name) = env::var(PART) {
        return Part::of_name(&name).expect("a part").run().expect("runs");
    }
    let Some(folder) = env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let options = Options {
        config: folder.join("broker.toml"),
        config_must_exist: true,
        socket: folder.join("socket"),
        state: folder.join("state"),
        measured: None,
        part: |part| {
            let mut command = again();
            command.env(PART, part.name());
            command
        },
    };
    Server::open(options).expect("opens").run().expect("runs");
}
