//! Sets of channels that are drawn from a seed, granted by a broker with the host's own
//! calibration, filled in the largest allowed bursts, and compared with the bounds that the broker
//! proved.

use std::net::UdpSocket;
use std::path::Path;
use std::thread;
use std::time::Duration as Time;

use punctual_channel::client::Sending;
use punctual_client::want::WantedChannel;
use punctual_client::{Broker, ChannelError, GrantedChannel};
use punctual_linux::clock;
use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::Kept;

/// How long a message may be in transit before the run is given up.
const LONG: Duration = Duration::from_secs(10);

/// The first delay bound that is requested; each further one is half as long again.
const SHORTEST: Duration = Duration::from_micros(50);

/// The last delay bound that is requested.
const LONGEST: Duration = Duration::from_millis(100);

/// A drawn channel.
struct Drawn {
    bytes: u32,
    spacing: Duration,
    burst: u32,
}

fn draw(rng: &mut ChaCha8Rng) -> Drawn {
    let spacing = Duration::from_micros(rng.random_range(2_000..40_000));
    Drawn { bytes: rng.random_range(40..=1_400), spacing, burst: rng.random_range(1..=4) }
}

/// A granted channel with both of its ends.
struct Open {
    drawn: Drawn,
    granted: GrantedChannel,
    sending: Sending,
    socket: UdpSocket,
}

/// Draws the set of `seed`, one to eight channels, and sends on those that the broker grants for
/// `length`. All bursts begin at the same instant. Returns `None` if the broker grants no
/// channel.
///
/// # Errors
/// Fails with a sentence if a message was late, lost, or above its bound, or the run could not be
/// judged.
pub fn hold(seed: u64, length: Duration, socket: &Path) -> Result<Option<Kept>, String> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut broker = Broker::connect_to(socket).map_err(|error| error.to_string())?;
    let mut open = Vec::new();
    for _ in 0..rng.random_range(1..=8) {
        open.extend(open_one(&mut broker, draw(&mut rng))?);
    }
    if open.is_empty() {
        return Ok(None);
    }
    let start = clock::now() + Duration::from_millis(100);
    let end = start + length;
    let sent: Vec<(Open, u64)> = thread::scope(|scope| {
        let running: Vec<_> =
            open.into_iter().map(|open| scope.spawn(move || send(open, start, end))).collect();
        running.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Result<_, _>>()
    })
    .map_err(|why| format!("seed {seed}: {why}"))?;
    let status = broker.channels().map_err(|error| error.to_string())?;
    let mut kept = Kept { jobs: 0, worst_permille: 0 };
    for (Open { drawn, granted, .. }, sent) in sent {
        let found = status.channels.iter().find(|one| one.grant == granted.id());
        let (Some(found), Some(bound)) = (found, granted.delay_bound()) else {
            return Err(format!("seed {seed}: the broker does not tell of {}", granted.id()));
        };
        let counts = found.counts.clone().unwrap_or_default();
        let worst = Duration::from_nanos(counts.worst_delay_ns);
        let Drawn { bytes, spacing, burst, .. } = drawn;
        if found.verdict != "kept" || counts.done != sent || worst > bound {
            return Err(format!(
                "seed {seed}: {bytes} B every {spacing}, bursts of {burst}, within {bound}: {}; \
                 {} of {sent} messages, {} late, the worst after {worst}",
                found.verdict, counts.done, counts.late
            ));
        }
        kept.jobs += sent;
        let permille = worst.as_nanos() * 1_000 / bound.as_nanos();
        kept.worst_permille = kept.worst_permille.max(permille);
        broker.release_channel(granted).map_err(|error| error.to_string())?;
    }
    Ok(Some(kept))
}

/// Requests a channel to a socket of this process, with the shortest bound that is granted. Returns
/// `None` if it is refused.
fn open_one(broker: &mut Broker, drawn: Drawn) -> Result<Option<Open>, String> {
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    socket.set_read_timeout(Some(Time::from_secs(10))).map_err(|error| error.to_string())?;
    let address = socket.local_addr().map_err(|error| error.to_string())?;
    let arrivals = LinearBounded::fixed(drawn.bytes, drawn.spacing, drawn.burst)
        .map_err(|error| error.to_string())?;
    let mut bound = SHORTEST;
    let granted = loop {
        let want = WantedChannel::sending("strict", arrivals, Some(bound), address);
        match broker.open_channel(&want) {
            Ok(granted) => break granted,
            Err(ChannelError::Refused(_)) if bound < LONGEST => bound = bound * 3 / 2,
            Err(ChannelError::Refused(_)) => return Ok(None),
            Err(other) => return Err(other.to_string()),
        }
    };
    let sending = broker.attach_channel(&granted).map_err(|error| error.to_string())?;
    Ok(Some(Open { drawn, granted, sending, socket }))
}

/// Sends bursts and receives each of their messages, in order. Returns how many there were.
fn send(mut open: Open, start: Instant, end: Instant) -> Result<(Open, u64), String> {
    let Drawn { bytes, spacing, burst, .. } = open.drawn;
    let (mut message, mut back) = (vec![0; bytes as usize], vec![0; bytes as usize + 1]);
    let (mut sent, mut at) = (0_u64, start);
    while at < end {
        clock::sleep_until(at);
        let first = sent;
        for _ in 0..burst {
            message[..8].copy_from_slice(&sent.to_be_bytes());
            let until = clock::now() + LONG;
            open.sending.send_until(&message, until).map_err(|error| error.to_string())?;
            sent += 1;
        }
        for number in first..sent {
            let length = open.socket.recv(&mut back).map_err(|error| error.to_string())?;
            if length != message.len() || back[..8] != number.to_be_bytes() {
                return Err(format!("message {number} did not arrive as it was sent"));
            }
        }
        at += spacing * u64::from(burst);
    }
    open.sending.drain_until(clock::now() + LONG).map_err(|error| error.to_string())?;
    Ok((open, sent))
}
