//! Thousands of channels on one server: each is opened and carries a message, and everything is
//! given back.

use std::path::Path;

use punctual_channel::client::Sending;
use punctual_client::GrantedChannel;
use punctual_client::want::WantedChannel;
use punctual_linux::clock;
use punctual_model::Duration;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use system_tests::live;

use crate::host::{Broker, alone, arrivals, listener, number_of, numbered, open_sending};

/// The number of channels where there are enough descriptors.
const MANY: u64 = 10_000;

/// The descriptors of a channel at the server, which has more of them than the client: a bell, a
/// doorbell, a socket, and the descriptor that holds its pages.
const DESCRIPTORS: u64 = 4;
const OF_SERVER: usize = DESCRIPTORS as usize;

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
    queue_memory = "1GiB"
    allow = ["channels"]
"#;

/// The descriptor limit of this process, restored when dropped. A server inherits the limit at its
/// start.
struct Descriptors(Rlimit);

impl Descriptors {
    /// Raises the limit as far as the kernel allows without privilege.
    fn raise() -> Self {
        let before = getrlimit(Resource::Nofile);
        let most = Rlimit { current: before.maximum, maximum: before.maximum };
        setrlimit(Resource::Nofile, most).expect("up to the hard limit");
        Self(before)
    }

    /// Returns how many channels fit beside the other open files.
    fn channels(&self) -> u64 {
        let room = self.0.maximum.map_or(u64::MAX, |most| most.saturating_sub(500));
        (room / DESCRIPTORS).min(MANY)
    }
}

impl Drop for Descriptors {
    fn drop(&mut self) {
        let _ = setrlimit(Resource::Nofile, self.0);
    }
}

#[test]
fn thousands_of_channels_carry_a_message_each() {
    let Some(_alone) = alone() else { return };
    let descriptors = Descriptors::raise();
    let many = descriptors.channels();
    println!("{many} channels of {MANY}");
    // In memory like /run, where a server's ledger is: on a disk each admission would wait for the
    // disk. An error means that the place was chosen already.
    if Path::new("/dev/shm").is_dir() {
        let _ = tempfile::env::override_temp_dir(Path::new("/dev/shm"));
    }
    let broker = Broker::start(CONFIG);
    let (nothing, mapped) = (broker.descriptors(), broker.mappings());
    let mut connection = broker.connect();
    let (socket, address) = listener();
    let second = Some(Duration::from_secs(1));
    let want = WantedChannel::sending("one of many", arrivals(64, 1_000_000, 1), second, address);
    let mut open: Vec<(GrantedChannel, Sending)> = Vec::new();
    for _ in 0..many {
        open.push(open_sending(&mut connection, &want));
    }
    let taken = broker.descriptors() - nothing;
    assert!(taken <= OF_SERVER * open.len() + 4, "{taken} descriptors");
    let totals = broker.channels().totals.expect("channels");
    assert_eq!(u64::from(totals.channels), many);
    let mut came = vec![0; open.len()];
    let mut buffer = [0; 100];
    // No more messages in transit than a socket buffers.
    for (at, some) in open.chunks_mut(50).enumerate() {
        for (number, (_, sending)) in some.iter_mut().enumerate() {
            sending.send(&numbered((at * 50 + number) as u32, 64)).expect("a server");
        }
        for _ in 0..some.len() {
            let bytes = socket.recv(&mut buffer).expect("sent");
            came[number_of(&buffer[..bytes]) as usize] += 1;
        }
    }
    assert!(came.iter().all(|times| *times == 1), "each once");
    for (granted, sending) in open {
        drop(sending);
        connection.release_channel(granted).expect("ours");
    }
    drop(connection);
    let left = || (broker.descriptors(), broker.mappings());
    // Thousands take a while: it is enough that the number keeps falling. A check stops the
    // broker's memory for a moment (proc(5), maps), so it is not made all the time.
    let (mut last, mut until) = (left(), clock::now() + live::PATIENCE);
    while last.0 > nothing + 4 || last.1 > mapped + 64 {
        assert!(clock::now() < until, "{last:?}, and there were {nothing} and {mapped}");
        clock::sleep(Duration::from_millis(50));
        if left() < last {
            (last, until) = (left(), clock::now() + live::PATIENCE);
        }
    }
}
