//! Telemetry: a publisher of readings ten times a second, and a receiver, each with a channel.
//!
//! ```sh
//! telemetry receive 127.0.0.1:4001 [SECONDS [SOCKET]] &
//! telemetry publish 127.0.0.1:4001 [SECONDS [SOCKET]]
//! ```
//!
//! The receiver prints how many readings came, and how long they lay on this host before they were
//! read.

use std::env;
use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use punctual_channel::client::{ReceiveError, Receiving, Sending};
use punctual_client::SOCKET;
use punctual_client::want::WantedChannel;
use punctual_client::{Broker, ChannelError};
use punctual_linux::clock;
use punctual_model::Duration;
use punctual_model::channel::LinearBounded;

const PERIOD: Duration = Duration::from_millis(100);
const BOUND: Duration = Duration::from_millis(20);
const READING: usize = 64;

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let what = arguments.next();
    let address = arguments.next().and_then(|address| address.parse().ok());
    let seconds = arguments.next().map_or(Some(5), |text| text.parse().ok());
    let path = arguments.next().map_or_else(|| SOCKET.into(), PathBuf::from);
    let done = match (what.as_deref(), address, seconds) {
        (Some("publish"), Some(to), Some(seconds)) => publish(&path, to, seconds),
        (Some("receive"), Some(at), Some(seconds)) => receive(&path, at, seconds),
        _ => {
            eprintln!("usage: telemetry publish|receive ADDRESS:PORT [SECONDS [SOCKET]]");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            let refused =
                why.downcast_ref().is_some_and(|why| matches!(why, ChannelError::Refused(_)));
            ExitCode::from(if refused { 1 } else { 3 })
        }
    }
}

fn arrivals() -> LinearBounded {
    LinearBounded::fixed(READING as u32, PERIOD, 1).expect("a valid contract")
}

fn publish(path: &Path, to: SocketAddr, seconds: u64) -> Result<(), Box<dyn Error>> {
    let mut broker = Broker::connect_to(path)?;
    let want = WantedChannel::sending("telemetry", arrivals(), Some(BOUND), to);
    let granted = broker.open_channel(&want)?;
    let mut sending: Sending = broker.attach_channel(&granted)?;
    let start = clock::now();
    for number in 0..seconds * 10 {
        clock::sleep_until(start + PERIOD * number);
        // Written in place, as a real publisher would write its readings.
        let mut batch = sending.batch();
        if let Some(mut slot) = batch.claim()? {
            slot.write(0, &number.to_be_bytes());
            slot.write(8, &[0; READING - 8]);
            slot.push(READING);
        }
    }
    sending.drain_until(clock::now() + Duration::from_millis(1_000))?;
    println!("{} readings published", seconds * 10);
    broker.release_channel(granted)?;
    Ok(())
}

fn receive(path: &Path, at: SocketAddr, seconds: u64) -> Result<(), Box<dyn Error>> {
    let mut broker = Broker::connect_to(path)?;
    let want = WantedChannel::receiving("telemetry", arrivals(), Some(BOUND), at);
    let granted = broker.open_channel(&want)?;
    let mut receiving: Receiving = broker.attach_channel(&granted)?;
    println!("ready");
    let until = clock::now() + Duration::from_millis(seconds * 1_000);
    let (mut count, mut longest, mut reading) = (0_u64, Duration::ZERO, [0; READING]);
    loop {
        match receiving.receive_until(&mut reading, until) {
            Ok(received) => {
                count += 1;
                longest = longest.max(clock::now().saturating_since(received.arrived));
            }
            Err(ReceiveError::TimedOut) => break,
            Err(why) => return Err(why.into()),
        }
    }
    println!("{count} readings received; the longest lay here for {longest}");
    broker.release_channel(granted)?;
    Ok(())
}
