//! Judges a channel that a broker has granted to another client, by the broker's account.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_channel::client::Sending;
use punctual_client::Broker;
use punctual_client::want::WantedChannel;
use punctual_linux::clock;
use punctual_linux::process::{self, die_with_parent};
use punctual_model::Duration;
use punctual_model::channel::LinearBounded;
use tempfile::TempDir;

use super::{judged, promise, skipped, verify};

/// A broker that carries channels to nowhere. Killed when dropped.
struct Serving {
    folder: TempDir,
    child: Child,
}

impl Serving {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let config = "[channels]\nlink = \"100mbit/s\"\ntransport = \"null\"\n\
            [default]\nshare = \"40%\"\nlink = \"90%\"\nallow = [\"channels\"]\n";
        fs::write(folder.path().join("config"), config).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_punctual"));
        command.arg("serve").env("PUNCTUAL_HOST_PROFILE", "ideal").stdin(Stdio::null());
        for (option, file) in [("--config", "config"), ("--socket", "socket"), ("--state", "state")]
        {
            command.arg(option).arg(folder.path().join(file));
        }
        command.stderr(fs::File::create(folder.path().join("log")).expect("ours"));
        die_with_parent(&mut command);
        Self { child: command.spawn().expect("was built"), folder }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// Returns a client of the broker. Returns `None`, and prints the reason, where it cannot
    /// serve.
    fn client(&mut self) -> Option<Broker> {
        for _ in 0..300 {
            if let Ok(broker) = Broker::connect_to(&self.socket()) {
                return Some(broker);
            }
            if process::poll(&self.child).expect("ours").is_some() {
                let log = fs::read_to_string(self.folder.path().join("log"));
                println!("skipped: {}", log.expect("ours"));
                return None;
            }
            clock::sleep(Duration::from_millis(100));
        }
        panic!("nobody answers at {}", self.socket().display());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends messages on a channel, as the client that holds it, until `stop` is set.
fn send(broker: &mut Broker, stop: &AtomicBool) {
    let (spacing, bound) = (Duration::from_millis(20), Duration::from_millis(150));
    let arrivals = LinearBounded::fixed(160, spacing, 3).expect("valid");
    let to = "127.0.0.1:9".parse().expect("an address");
    let want = WantedChannel::sending("voice", arrivals, Some(bound), to);
    let granted = broker.open_channel(&want).expect("there is room");
    let mut sending: Sending = broker.attach_channel(&granted).expect("attached");
    while !stop.load(Ordering::Relaxed) {
        sending.send(&[0; 160]).expect("it is carried");
        clock::sleep(spacing);
    }
}

#[test]
fn a_channel_that_somebody_holds_is_judged_by_the_brokers_account() {
    let mut serving = Serving::start();
    let Some(mut broker) = serving.client() else { return };
    let stop = AtomicBool::new(false);
    let folder = tempfile::tempdir().expect("a folder");
    let contract = "[sending]\nbandwidth = \"160mbit/s\"\npacket = \"4KiB\"\n\
        [sending.costs]\nswitch = \"10us\"\ncache = \"15us\"\nfirst_packet = \"60us\"\n\
        packet = \"40us\"\nlink_scheduling = \"10us\"\n\
        [[channel]]\nname = \"voice\"\nmax_message = \"160B\"\nmin_inter_arrival = \"20ms\"\n\
        max_burst = 3\ndelay_bound = \"150ms\"\n";
    let output = std::thread::scope(|scope| {
        scope.spawn(|| send(&mut broker, &stop));
        let socket = serving.socket();
        let socket = socket.to_str().expect("UTF-8");
        let output =
            verify(folder.path(), contract, &["--for", "3s", "--json", "--broker", socket]);
        stop.store(true, Ordering::Relaxed);
        output
    });
    if skipped(&output) {
        return;
    }
    let page = judged(&output);
    let voice = promise(&page, "voice");
    assert!(voice["jobs"].as_u64() >= Some(10), "{voice:#}");
    let evidence = voice["evidence"].as_array().expect("evidence");
    assert!(evidence.contains(&"broker".into()), "{voice:#}");
}
