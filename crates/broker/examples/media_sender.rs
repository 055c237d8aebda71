//! A media sender: fifty packets a second of 160 to 1200 bytes, each promised to leave within 10
//! ms.
//!
//! ```sh
//! media_sender 192.0.2.7:4000 [SECONDS [SOCKET]]
//! ```
//!
//! It takes the first counter-offer, goes on with the next broker when one is restarted, and prints
//! the bound that its channel was promised. Its exit codes are those of `punctual`: 1 refused, 2
//! bad usage, 3 this host cannot.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use punctual_channel::client::{SendError, Sending};
use punctual_client::SOCKET;
use punctual_client::want::WantedChannel;
use punctual_client::{Broker, ChannelError, GrantedChannel};
use punctual_linux::clock;
use punctual_model::Duration;
use punctual_model::channel::LinearBounded;

const PERIOD: Duration = Duration::from_millis(20);
const BOUND: Duration = Duration::from_millis(10);
const GRACE: Duration = Duration::from_millis(5_000);

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let address = arguments.next().and_then(|address| address.parse().ok());
    let seconds = arguments.next().map_or(Some(5), |text| text.parse::<u64>().ok());
    let (Some(address), Some(seconds)) = (address, seconds) else {
        eprintln!("usage: media_sender ADDRESS:PORT [SECONDS [SOCKET]]");
        return ExitCode::from(2);
    };
    let path = arguments.next().map_or_else(|| SOCKET.into(), PathBuf::from);
    let arrivals = LinearBounded::new(160, 1_200, PERIOD, 2).expect("a valid contract");
    let want = WantedChannel::sending("media", arrivals, Some(BOUND), address);
    match send(&path, &want, seconds * 50) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            let refused =
                why.downcast_ref().is_some_and(|why| matches!(why, ChannelError::Refused(_)));
            ExitCode::from(if refused { 1 } else { 3 })
        }
    }
}

fn send(path: &Path, want: &WantedChannel, packets: u64) -> Result<(), Box<dyn Error>> {
    let mut broker = Broker::connect_to(path)?;
    let mut granted = match broker.open_channel(want) {
        Err(ChannelError::Refused(refused)) => broker.accept_channel_offer(&refused)?,
        answer => answer?,
    };
    let mut sending: Sending = broker.attach_channel(&granted)?;
    if let Some(bound) = granted.delay_bound() {
        println!("{}: promised within {bound}", granted.want());
    }
    let most = granted.want().arrivals.max_message() as usize;
    let mut frame = vec![0; most];
    let start = clock::now();
    for number in 0..packets {
        clock::sleep_until(start + PERIOD * number);
        // A real sender would put encoded sound here.
        frame[..8].copy_from_slice(&number.to_be_bytes());
        let length = 160 + (number as usize * 37) % (most - 160 + 1);
        loop {
            match sending.send(&frame[..length]) {
                Ok(()) => break,
                Err(SendError::ServerGone) => broker = rejoin(path, &mut granted, &mut sending)?,
                Err(why) => return Err(why.into()),
            }
        }
    }
    sending.drain_until(clock::now() + GRACE)?;
    println!("{packets} packets sent");
    broker.release_channel(granted)?;
    Ok(())
}

/// Goes on with the next broker, and with all messages that had not left, so that nothing is lost.
fn rejoin(
    path: &Path,
    granted: &mut GrantedChannel,
    sending: &mut Sending,
) -> Result<Broker, Box<dyn Error>> {
    let until = clock::now() + GRACE;
    loop {
        match Broker::connect_to(path) {
            Ok(mut broker) => {
                broker.resume_channel(granted)?;
                broker.reattach_channel(granted, sending)?;
                return Ok(broker);
            }
            Err(why) if clock::now() >= until => return Err(why.into()),
            Err(_) => clock::sleep(Duration::from_millis(100)),
        }
    }
}
