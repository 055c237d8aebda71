//! Honest clients, which record how long they wait and what happens to their messages.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Time;

use punctual_channel::client::Sending;
use punctual_client::want::{Want, WantedChannel};
use punctual_client::{Broker, RequestError};
use punctual_linux::clock;
use punctual_linux::net::{Inbox, Readiness, Setup, Stamps, UdpSocket, WallOffset};
use punctual_model::channel::LinearBounded;
use punctual_model::{Duration, Instant, Service, Upcall, UpcallSpec};
use serde_json::{Value, json};

use super::person::{Person, say, wait_for_word};

/// Longer than any attack of a test, so that a late answer is measured and not given up.
const PATIENCE: Time = Time::from_secs(60);

/// The same limit in the other type.
const LONG: Duration = Duration::from_secs(60);

/// The time between two pings.
const PACE: Duration = Duration::from_millis(5);

/// The number of pings for each request of a grant: with [`PACE`] this is well below the rate
/// allowed to one user.
const PINGS_A_REQUEST: u64 = 40;

/// The report of an honest client that made requests throughout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequesterReport {
    /// The number of answers.
    pub answered: u64,
    /// The longest wait for an answer, in milliseconds.
    pub worst_ms: u64,
    /// The part of that wait in which the client itself waited for a CPU, behind ordinary work of other users.
    pub own_part_ms: u64,
    /// The median wait, in microseconds.
    pub median_us: u64,
    /// The number of grants given and taken back.
    pub granted: u64,
    /// The number of refused requests.
    pub refused: u64,
    /// Everything else that happened instead of an answer.
    pub problems: Vec<String>,
}

/// An honest client that makes requests throughout and reports at the end.
#[derive(Debug)]
pub struct Requester(Person);

impl Requester {
    /// Starts a client as `uid`.
    pub fn start(uid: u32, socket: &Path) -> Self {
        Self(Person::start(uid, "requester", socket))
    }

    /// Ends the client after its last answer, and returns its report.
    pub fn end(mut self) -> RequesterReport {
        let told: Value = serde_json::from_str(&self.0.ask("end")).expect("JSON");
        let number = |name: &str| told[name].as_u64().expect("a number");
        RequesterReport {
            answered: number("answered"),
            worst_ms: number("worst_ms"),
            own_part_ms: number("own_part_ms"),
            median_us: number("median_us"),
            granted: number("granted"),
            refused: number("refused"),
            problems: texts(&told["problems"]),
        }
    }

    /// Returns the id of its process.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }
}

fn texts(value: &Value) -> Vec<String> {
    let all = value.as_array().map(Vec::as_slice).unwrap_or_default();
    all.iter().filter_map(|one| Some(one.as_str()?.to_owned())).collect()
}

/// Returns a flag that is set once the parent process writes a line, or ends.
fn end_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&flag);
    std::thread::spawn(move || {
        wait_for_word();
        set.store(true, Ordering::Release);
    });
    flag
}

/// Runs in the client's process.
pub(super) fn ask_throughout(socket: &Path) {
    let mut asked = RequesterReport::default();
    let (mut waits, mut worst) = (Vec::new(), Duration::ZERO);
    let end = end_flag();
    let mut broker = Broker::connect_to(socket).expect("it runs");
    broker.set_patience(PATIENCE);
    say("ready");
    while !end.load(Ordering::Acquire) {
        let (began, waited_before) = (clock::now(), waited_for_a_cpu());
        let is_request = (waits.len() as u64).is_multiple_of(PINGS_A_REQUEST);
        let outcome = if is_request { request(&mut broker, &mut asked) } else { ping(&mut broker) };
        let wait = clock::now().saturating_since(began);
        waits.push(wait.as_nanos());
        if wait > worst {
            worst = wait;
            asked.own_part_ms = waited_for_a_cpu().saturating_sub(waited_before) / 1_000_000;
        }
        match outcome {
            Ok(()) => asked.answered += 1,
            Err(problem) => {
                asked.problems.push(problem);
                // The next connection may do better.
                if let Ok(mut again) = Broker::connect_to(socket) {
                    again.set_patience(PATIENCE);
                    broker = again;
                }
            }
        }
        clock::sleep(PACE);
    }
    waits.sort_unstable();
    asked.worst_ms = worst.as_nanos() / 1_000_000;
    asked.median_us = waits.get(waits.len() / 2).map_or(0, |median| median / 1_000);
    asked.problems.truncate(20);
    let RequesterReport { answered, worst_ms, own_part_ms, median_us, granted, refused, problems } =
        asked;
    say(&json!({
        "answered": answered, "worst_ms": worst_ms, "own_part_ms": own_part_ms, "median_us": median_us,
        "granted": granted, "refused": refused, "problems": problems,
    })
    .to_string());
}

/// Returns how long this thread has been ready to run without a CPU so far, in nanoseconds
/// (`/proc/thread-self/schedstat`, second number).
fn waited_for_a_cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux 3.17");
    let second = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    second.expect("three numbers")
}

fn ping(broker: &mut Broker) -> Result<(), String> {
    broker.ping().map_err(|why| format!("ping: {why}"))
}

/// Requests a small grant, and gives it back.
fn request(broker: &mut Broker, asked: &mut RequesterReport) -> Result<(), String> {
    let upcall = Upcall::new(UpcallSpec {
        name: "a little".into(),
        period: Duration::from_millis(20),
        batch: 1,
        quantum: 1,
        time_per_pdu: Service::from_micros(100),
    });
    match broker.request(&Want::upcalls(vec![upcall.expect("valid")])) {
        Ok(granted) => {
            asked.granted += 1;
            granted.release(broker).map_err(|why| format!("release: {why}"))
        }
        Err(RequestError::Refused(_)) => {
            asked.refused += 1;
            Ok(())
        }
        Err(other) => Err(format!("request: {other}")),
    }
}

/// The size of an honest message.
const MESSAGE: usize = 200;

/// The promised time between two messages.
const SPACING: Duration = Duration::from_millis(2);

/// The actual time between two messages: in between, the server has nothing to do for the channel.
const APART: Duration = Duration::from_millis(3);

/// The delay bound of the honest channel.
pub const DELAY_BOUND: Duration = Duration::from_millis(100);

/// The report of an honest sender and its receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SenderReport {
    /// The number of messages that were put into the queue.
    pub sent: u64,
    /// The number of messages that arrived.
    pub arrived: u64,
    /// The number of messages that arrived out of order or more than once.
    pub disordered: u64,
    /// The longest time from handing a message over to its arrival at the receiver's socket, in
    /// milliseconds. It leaves out stalls of the sender and the receiver, which are not the
    /// channel's fault on a busy host.
    pub delay_ms: u64,
    /// The broker's verdict on the channel.
    pub verdict: String,
    /// Everything else that went wrong.
    pub problems: Vec<String>,
}

/// An honest client that sends a message every three milliseconds to a socket of its own.
#[derive(Debug)]
pub struct Sender(Person);

impl Sender {
    /// Starts a client as `uid`. Its channel carries messages when this returns.
    pub fn start(uid: u32, socket: &Path) -> Self {
        Self(Person::start(uid, "sender", socket))
    }

    /// Ends the client and returns its report.
    pub fn end(mut self) -> SenderReport {
        let told: Value = serde_json::from_str(&self.0.ask("end")).expect("JSON");
        let number = |name: &str| told[name].as_u64().expect("a number");
        SenderReport {
            sent: number("sent"),
            arrived: number("arrived"),
            disordered: number("disordered"),
            delay_ms: number("delay_ms"),
            verdict: told["verdict"].as_str().expect("text").to_owned(),
            problems: texts(&told["problems"]),
        }
    }
}

/// What the receiving thread observed.
#[derive(Default)]
struct Received {
    arrived: u64,
    disordered: u64,
    delay: Duration,
}

/// Runs in the client's process.
pub(super) fn send_throughout(socket: &Path) {
    let mut broker = Broker::connect_to(socket).expect("it runs");
    broker.set_patience(PATIENCE);
    let setup = Setup::at(([127, 0, 0, 1], 0).into());
    let listener = UdpSocket::open(&setup).expect("a socket");
    listener.set_stamps(Stamps { receive: true, ..Stamps::default() }).expect("Linux 4.0");
    let address = listener.local_address().expect("an address");
    let arrivals = LinearBounded::fixed(MESSAGE as u32, SPACING, 8).expect("valid");
    let want = WantedChannel::sending("honest", arrivals, Some(DELAY_BOUND), address);
    let (granted, mut sending) = open_sending(&mut broker, &want);
    let done = AtomicBool::new(false);
    let end = end_flag();
    let (mut sent, mut problems) = (0_u64, Vec::new());
    let heard = std::thread::scope(|scope| {
        let hearing = scope.spawn(|| receive(&listener, &done));
        let mut next = clock::now();
        say("ready");
        while !end.load(Ordering::Acquire) {
            let mut message = [0; MESSAGE];
            message[..8].copy_from_slice(&sent.to_be_bytes());
            message[8..16].copy_from_slice(&clock::now().as_nanos().to_be_bytes());
            match sending.send_until(&message, clock::now() + LONG) {
                Ok(()) => sent += 1,
                Err(why) => {
                    problems.push(format!("send: {why}"));
                    break;
                }
            }
            next = (next + APART).max(clock::now());
            clock::sleep_until(next);
        }
        if let Err(why) = sending.drain_until(clock::now() + LONG) {
            problems.push(format!("drain: {why}"));
        }
        clock::sleep(Duration::from_millis(50));
        done.store(true, Ordering::Release);
        hearing.join().expect("no panic")
    });
    let verdict = match broker.channels() {
        Ok(all) => {
            let ours = all.channels.into_iter().find(|one| one.grant == granted.id());
            ours.map_or_else(|| "no such channel".into(), |ours| ours.verdict)
        }
        Err(why) => format!("status: {why}"),
    };
    say(&json!({
        "sent": sent, "arrived": heard.arrived, "disordered": heard.disordered,
        "delay_ms": heard.delay.as_nanos() / 1_000_000, "verdict": verdict, "problems": problems,
    })
    .to_string());
}

/// Asks for a channel and opens it.
fn open_sending(
    broker: &mut Broker,
    want: &WantedChannel,
) -> (punctual_client::GrantedChannel, Sending) {
    let granted = broker.open_channel(want).expect("there is room");
    let sending = broker.attach_channel(&granted).expect("as granted");
    (granted, sending)
}

/// Receives until `done` is set.
fn receive(socket: &UdpSocket, done: &AtomicBool) -> Received {
    let mut heard = Received::default();
    let mut next = 0;
    let offset = WallOffset::measure();
    let mut inbox = Inbox::new(64, 2 * MESSAGE);
    loop {
        let soon = clock::now() + Duration::from_millis(20);
        let came = socket.wait(Readiness::Readable, soon).expect("a socket");
        if !came && done.load(Ordering::Acquire) {
            return heard;
        }
        while socket.receive(&mut inbox).expect("a socket") > 0 {
            for datagram in inbox.datagrams() {
                let word = |at: usize| {
                    let bytes = datagram.bytes.get(at..at + 8)?;
                    bytes.try_into().ok().map(u64::from_be_bytes)
                };
                let (MESSAGE, Some(number), Some(sent)) = (datagram.bytes.len(), word(0), word(8))
                else {
                    heard.disordered += 1;
                    continue;
                };
                // Without a stamp if the kernel had not begun to make them.
                let stamp = datagram.arrival.stamp.and_then(|stamp| offset.monotonic(stamp));
                let arrived = stamp.unwrap_or_else(clock::now);
                heard.delay = heard.delay.max(arrived.saturating_since(Instant::from_nanos(sent)));
                heard.arrived += 1;
                heard.disordered += u64::from(number < next);
                next = next.max(number + 1);
            }
        }
    }
}
