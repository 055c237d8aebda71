//! Ten thousand channels on one server: they open, each carries a message, and all is given back.

use std::path::Path;

use punctual_broker::client::GrantedChannel;
use punctual_broker::want::WantedChannel;
use punctual_channel::client::Sending;
use punctual_model::Duration;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use system_tests::live;

use crate::host::{Broker, alone, arrivals, listener, numbered, open_sending};

/// With nothing else open; a channel has at most four descriptors at its client, and as many at its
/// server.
const MANY: u32 = 10_000;
const DESCRIPTORS: u64 = 50_000;

const CONFIG: &str = r#"
    [broker]
    grace = "3s"
    [channels]
    link = "1gbit/s"
    cpu = "300ms/1s"
    per_packet = "5us"
    room = 10100
    [default]
    share = "60%"
    link = "100%"
    max_grants = 10100
    allow = ["channels"]
"#;

/// What this process could open before; the server inherits what it can at its start.
struct Descriptors(Rlimit);

impl Descriptors {
    /// `None`, with the reason printed, where there cannot be as many.
    fn raise() -> Option<Self> {
        let before = getrlimit(Resource::Nofile);
        let more = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
        if before.current.is_none_or(|most| most >= DESCRIPTORS) {
            return Some(Self(before));
        }
        match setrlimit(Resource::Nofile, more) {
            Ok(()) => Some(Self(before)),
            Err(why) => {
                println!("skipped: {DESCRIPTORS} descriptors cannot be had: {why}");
                None
            }
        }
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Nofile, self.0.clone());
    }
}

#[test]
fn ten_thousand_channels_carry_a_message_each() {
    let Some(_alone) = alone() else { return };
    let Some(_descriptors) = Descriptors::raise() else { return };
    // As /run, where a server's ledger is: on a disk each of ten thousand would wait for that. An error
    // says that it was chosen already.
    if Path::new("/dev/shm").is_dir() {
        let _ = tempfile::env::override_temp_dir(Path::new("/dev/shm"));
    }
    let broker = Broker::start(CONFIG);
    let (nothing, mapped) = (broker.descriptors(), broker.mappings());
    let mut connection = broker.connect();
    let (socket, address) = listener();
    let second = Some(Duration::from_secs(1));
    let want = WantedChannel::sending("one of many", arrivals(64, 1_000_000, 1), second, address);
    let mut open: Vec<(GrantedChannel, Sending)> = Vec::with_capacity(MANY as usize);
    for _ in 0..MANY {
        open.push(open_sending(&mut connection, &want));
    }
    let totals = broker.channels().totals.expect("channels");
    assert_eq!(totals.channels, MANY);
    let mut came = vec![0; MANY as usize];
    let mut buffer = [0; 100];
    // No more on the way than a socket keeps.
    for (at, some) in open.chunks_mut(50).enumerate() {
        for (number, (_, sending)) in some.iter_mut().enumerate() {
            sending.send(&numbered((at * 50 + number) as u32, 64)).expect("a server");
        }
        for _ in 0..some.len() {
            let bytes = socket.recv(&mut buffer).expect("sent");
            came[crate::host::number_of(&buffer[..bytes]) as usize] += 1;
        }
    }
    assert!(came.iter().all(|times| *times == 1), "each once");
    // All at once, as a client that ends does: nothing of ten thousand is left.
    drop(open);
    drop(connection);
    let left = || (broker.descriptors(), broker.mappings());
    let few = || left().0 <= nothing + 4 && left().1 <= mapped + 64;
    assert!(live::eventually(few), "{:?}, and there were {nothing} and {mapped}", left());
}
