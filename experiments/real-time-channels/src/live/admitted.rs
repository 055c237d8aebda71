//! Runs Figures 6 and 7: as many channels as admission accepts with this machine's costs, each with
//! its message every period, and checks the promise.

use std::cell::Cell;
use std::sync::Arc;

use punctual_analysis::Steps;
use punctual_analysis::channel::egress::Egress;
use punctual_channel::account::{Account, Recorder, Verdict};
use punctual_channel::rings::{Side, Takes};
use punctual_channel::server::ringer::Ringers;
use punctual_channel::server::sender::thread::{SenderThread, Setup};
use punctual_channel::server::sender::{Channel, Opening, Sender, Turn};
use punctual_channel::transport::{NullDevice, Wire};
use punctual_linux::sched::{self, Class};
use punctual_linux::{clock, host};
use punctual_model::channel::{
    Channel as Declared, Framing, LinearBounded, Link, Packetisation, TooEarly,
};
use punctual_model::{Duration, Instant, Rank, Service};
use punctual_policy::egress::{EgressScheduler, Promise, Terms};
use punctual_policy::queues::ServiceOrder;

use super::{Client, MESSAGE, PRIORITY, stolen_since};
use crate::host::{KB, PERIOD};
use crate::table::Table;

/// The processor time of a packet for admission: several times the actual one.
const PER_PACKET: Service = Service::from_micros(10);

/// The time that admission allows for the thread to wake up.
const ALLOWANCE: Duration = Duration::from_millis(1);

pub(crate) fn table(each: Duration) -> Table {
    let mut rows = Vec::new();
    for (packet_kb, per_block) in [(1, 1), (2, 1), (4, 1), (8, 1), (12, 1), (4, 2), (4, 4), (4, 8)]
    {
        eprintln!("S = {packet_kb} KB, P = {per_block}");
        let link = Link::new(Duration::from_micros(40), 50).expect("valid");
        let cut = Packetisation::new(packet_kb * KB, per_block).expect("valid");
        let count = most(link, cut);
        let before = host::stolen();
        let in_virtual_time = virtually(link, cut, count);
        let run = run(link, cut, count, each);
        rows.push(vec![
            packet_kb.to_string(),
            per_block.to_string(),
            count.to_string(),
            in_virtual_time.late.to_string(),
            millis(in_virtual_time.worst_delay),
            run.sent.to_string(),
            run.late.to_string(),
            millis(run.worst_delay),
            millis(PERIOD),
            run.kept.to_string(),
            stolen_since(before),
        ]);
    }
    Table {
        name: "live-admitted",
        caption: "Channels of 32 KB every 100 ms within 100 ms, 50 ns a byte, as many as are admitted; run",
        head: vec![
            "S in KB",
            "P",
            "admitted",
            "late in virtual time",
            "worst delay there in ms",
            "messages sent live",
            "late live",
            "worst delay live in ms",
            "promised in ms",
            "channels whose promise was kept",
            "stolen in ms",
        ],
        rows,
    }
}

fn arrivals() -> LinearBounded {
    LinearBounded::fixed(MESSAGE, PERIOD, 1).expect("valid")
}

/// Returns the greatest number of channels that are all in time.
fn most(link: Link, cut: Packetisation) -> usize {
    // All of a CPU, so nothing is paced.
    let whole = "1ms/1ms".parse().expect("valid");
    let egress = Egress::new(link, cut, PER_PACKET, whole, ALLOWANCE).expect("no slow link");
    let one = Declared::new("channel", &arrivals().into(), PERIOD).expect("valid");
    let fits =
        |count: &usize| egress.all_in_time(&vec![one.clone(); *count], &[], &mut Steps::default());
    (1..1_000).take_while(fits).count()
}

struct Run {
    sent: u64,
    late: u64,
    worst_delay: Duration,
    kept: usize,
}

fn millis(of: Duration) -> String {
    format!("{:.2}", of.as_nanos() as f64 / 1e6)
}

fn terms() -> Terms {
    let promise = Promise::RealTime { rank: Rank(0), delay_bound: PERIOD };
    Terms { arrivals: arrivals(), promise, too_early: TooEarly::Wait }
}

fn opening(key: u32, side: Side<Takes>, believed_from: Instant) -> Opening {
    Opening {
        terms: terms(),
        framing: Framing::Fragments,
        number: key,
        takes: side.end,
        bell: Ringers::default().enter(0, side.bell).expect("a thread"),
        doorbell: side.doorbell,
        recorder: Recorder::new(Some(PERIOD)),
        believed_from,
    }
}

/// Runs the same sender in virtual time: handing a packet over takes the time assumed by admission.
fn virtually(link: Link, cut: Packetisation, count: usize) -> Run {
    let room = count as u32;
    let egress = EgressScheduler::new(link, cut, ServiceOrder::Deadline, room);
    let packet = link.transmission_time(cut.packet_bytes());
    let queue = packet * u64::from(cut.packets_per_block());
    let mut sender = Sender::new(egress, cut, room, NullDevice::new(link, 1 << 20, queue, ()));
    let mut clients = Vec::new();
    let mut accounts = Vec::new();
    for key in 0..room {
        let (client, side) = Client::new();
        let opening = opening(key, side, Instant::ZERO);
        accounts.push(Arc::clone(opening.recorder.account()));
        sender.open(Instant::ZERO, key, Channel::new(opening)).expect("room");
        clients.push(client);
    }
    let now = Cell::new(0);
    let hand_over = Duration::from_nanos(PER_PACKET.as_nanos()).as_nanos();
    for period in 1..=20 {
        let release = PERIOD.as_nanos() * period;
        loop {
            let at = Instant::from_nanos(now.get());
            match sender.turn(at, || at) {
                Turn::Again => now.set(now.get() + hand_over),
                Turn::At(next) if next.as_nanos() < release => now.set(next.as_nanos()),
                Turn::At(_) | Turn::Idle => break,
            }
        }
        now.set(now.get().max(release));
        for (key, client) in (0..).zip(&mut clients) {
            client.put();
            sender.look(Instant::from_nanos(now.get()), key);
        }
    }
    outcome(&accounts, Instant::from_nanos(now.get()))
}

fn outcome(accounts: &[Arc<Account>], now: Instant) -> Run {
    let seen: Vec<_> = accounts.iter().map(|account| account.snapshot()).collect();
    Run {
        sent: seen.iter().map(|one| one.sent).sum(),
        late: seen.iter().map(|one| one.late).sum(),
        worst_delay: seen.iter().map(|one| one.worst_delay).max().unwrap_or(Duration::ZERO),
        kept: seen.iter().filter(|one| one.verdict(now) == Verdict::Kept).count(),
    }
}

fn run(link: Link, cut: Packetisation, count: usize, length: Duration) -> Run {
    let room = count as u32;
    let queue = Duration::from_micros(200);
    let wire = Wire::Null(NullDevice::new(link, 1 << 20, queue, ()));
    let (order, pace) = (ServiceOrder::Deadline, Duration::ZERO);
    let setup = Setup { link, cut, order, pace, room, wire, events: None };
    let mut thread = SenderThread::start(setup).expect("a thread");
    if let Err(why) = sched::set(thread.tid(), Class::Fifo { priority: PRIORITY }) {
        eprintln!("as an ordinary thread: {why}");
    }
    let mut clients = Vec::new();
    let mut accounts: Vec<Arc<Account>> = Vec::new();
    for key in 0..room {
        let (client, side) = Client::new();
        let opening = opening(key, side, clock::now());
        accounts.push(Arc::clone(opening.recorder.account()));
        thread.open(key, opening, None).expect("it keeps up");
        clients.push(client);
    }
    // All at once, which is the worst for the last of them.
    let mut release = clock::now().saturating_add(PERIOD);
    let end = release.saturating_add(length);
    super::to_the_front(0);
    while release < end {
        clock::sleep_until(release);
        for client in &mut clients {
            client.put();
        }
        release = release.saturating_add(PERIOD);
    }
    clock::sleep(PERIOD * 2);
    outcome(&accounts, clock::now())
}
