//! Cuts a broker and its clients.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration as Time;

use punctual_linux::clock;
use punctual_linux::net::interface::Interface;
use punctual_linux::net::namespace::Namespace;
use punctual_model::Duration;

use super::cutter::{Action, Cutter, Ended};
use super::holder::MESSAGE;
use super::{Cycle, Scenario, Sweep, Victim};
use crate::hostile::broker::{Broker, CONFIG, Holds};
use crate::hostile::kills::{bandwidth_is_back, is_ordinary_again, must, nothing_is_left};
use crate::hostile::person::{FIRST_USER, Person};
use crate::live;

/// The share that is requested first, and the one it is changed to, in thousandths of a CPU.
const FIRST: u64 = 30;
const SECOND: u64 = 50;

/// On a busy host a client may reconnect late. Only a client that holds something it was never told
/// of waits for this grace period.
const GRACE: &str = "grace = \"3s\"";

/// The grants that can be in force as far as a client knows: shares in parts per million, or
/// `None`.
type Belief = BTreeSet<Option<u64>>;

/// A broker that outlives cuts of its clients and is restarted after its own.
struct Stage {
    sweep: Sweep,
    broker: Broker,
    before: Holds,
    cutter: Cutter,
    users: u32,
}

pub(super) fn prepare(sweep: Sweep) -> Result<Cycle, String> {
    if sweep.action == Action::Unplug {
        // A network namespace for this thread and all processes that it starts; the host's network
        // is left alone.
        let network = Namespace::make().and_then(|network| network.enter());
        network.map_err(|why| why.to_string())?;
    }
    let broker = Broker::start(&CONFIG.replace("grace = \"500ms\"", GRACE));
    let before = broker.holds_with_no_client();
    let mut stage = Stage { sweep, broker, before, cutter: Cutter::start(), users: 0 };
    Ok(match sweep.scenario {
        Scenario::Upcalls => Box::new(move |at| stage.grant("upcalls", at)),
        Scenario::Reservation => Box::new(move |at| stage.grant("reservation", at)),
        Scenario::Priority => Box::new(move |at| stage.grant("priority", at)),
        Scenario::Channel => Box::new(move |at| stage.channel(at)),
        Scenario::Teardown => Box::new(move |at| stage.teardown(at)),
        Scenario::Recovery => Box::new(move |at| stage.recovery(at)),
        Scenario::Message => Box::new(move |at| stage.message(at)),
        other => return Err(format!("{other:?} has no broker")),
    })
}

impl Stage {
    /// Starts a client of another user each time, because each user may send only so many requests
    /// in a second.
    fn client(&mut self) -> (u32, Person) {
        self.users = (self.users + 1) % 90;
        let uid = FIRST_USER + self.users;
        (uid, Person::start(uid, "holder", &self.broker.socket()))
    }

    fn arm(&mut self, client: &Person, at: u64) -> Result<(), String> {
        let process = match self.sweep.victim {
            Victim::Broker => self.broker.processes()[0] as u32,
            Victim::Front => self.broker.part("front")?,
            Victim::Guard => self.broker.part("guard")?,
            Victim::Client => client.pid(),
            Victim::Program => return Err("no such program".into()),
        };
        self.cutter.arm(self.sweep.action, at, process, false)
    }

    /// Ends the pursuit and makes sure that a broker runs again.
    fn recover(&mut self) -> Result<Ended, String> {
        // Calls after the last answer are cut too.
        clock::sleep(Duration::from_millis(3));
        let ended = self.cutter.done();
        if matches!(ended, Ended::Whole(_)) || self.sweep.victim == Victim::Client {
            return Ok(ended);
        }
        if matches!(self.sweep.action, Action::Kill | Action::KillAtInstruction) {
            must("the broker has neither ended nor goes on", || self.broker.has_ended())?;
        }
        must("the broker neither ends nor answers", || {
            self.broker.has_ended() || self.broker.answers()
        })?;
        if self.broker.has_ended() {
            self.broker.restart();
        }
        Ok(ended)
    }

    /// Checks that no user has anything left.
    fn is_clean(&self) -> Result<(), String> {
        nothing_is_left(&self.broker, self.before)?;
        let status = self.broker.status();
        if !status.grants.is_empty() {
            return Err(format!("grants are left: {:?}", status.grants));
        }
        Ok(())
    }

    fn is_dead(&self, ended: &Ended) -> bool {
        self.sweep.victim == Victim::Client
            && matches!(self.sweep.action, Action::Kill | Action::KillAtInstruction)
            && matches!(ended, Ended::Cut(_))
    }

    fn grant(&mut self, kind: &str, at: u64) -> Result<Ended, String> {
        let (uid, mut client) = self.client();
        self.arm(&client, at)?;
        let watched = (self.sweep.victim == Victim::Client && self.sweep.action == Action::Stop)
            .then(|| Others::start(&self.broker));
        let belief = live_by_a_grant(&mut client, kind)?;
        watched.map_or(Ok(()), Others::were_served)?;
        let ended = self.recover()?;
        if self.is_dead(&ended) {
            client.kill();
        } else {
            self.holds_what_it_was_told(uid, &mut client, kind, &belief)
                .map_err(|why| format!("{why} (cut: {ended:?}; the client knows {belief:?})"))?;
            drop(client);
        }
        self.is_clean().map_err(|why| format!("{why} (cut: {ended:?})"))?;
        bandwidth_is_back()?;
        Ok(ended)
    }

    /// Checks that exactly what the client was told is true, and that it can make another request.
    fn holds_what_it_was_told(
        &self,
        uid: u32,
        client: &mut Person,
        kind: &str,
        belief: &Belief,
    ) -> Result<(), String> {
        expect(client, "connect", "done")?;
        let resumed = client.ask("resume");
        let is_held = resumed == "done";
        if !is_held && !belief.contains(&None) {
            return Err(format!("what was granted is gone: {resumed}"));
        }
        let shares = || {
            let all = self.broker.status().grants.into_iter();
            all.filter(|grant| grant.uid == uid).map(|grant| grant.share_ppm).collect::<Vec<_>>()
        };
        let class = match kind {
            "reservation" => "SCHED_DEADLINE",
            _ => "SCHED_FIFO",
        };
        if is_held {
            let shares = shares();
            if !matches!(shares[..], [share] if belief.contains(&Some(share))) {
                return Err(format!("the ledger has {shares:?}"));
            }
            expect(client, "class", class)?;
            expect(client, "release", "done")?;
        } else if kind == "reservation" {
            // The client may leave once the broker has taken back the unclaimed grants.
            must("it may not leave its class", || client.ask("leave") == "done")?;
        }
        must("", || shares().is_empty())
            .map_err(|_| format!("what nobody has stays in the ledger: {:?}", shares()))?;
        is_ordinary_again(client)?;
        expect(client, &format!("request {kind} {SECOND}"), "done")?;
        expect(client, "class", class)?;
        expect(client, "release", "done")?;
        is_ordinary_again(client)
    }

    fn channel(&mut self, at: u64) -> Result<Ended, String> {
        let receiver = Receiver::new();
        let (_, mut client) = self.client();
        self.arm(&client, at)?;
        let open = format!("open {}", receiver.port());
        let mut is_open = false;
        for step in ["connect", &open, "attach", "send 3", "send 3", "drain", "give-back"] {
            let said = client.try_ask(step);
            is_open = match (step, said.as_deref()) {
                (step, Some("done")) if *step == open => true,
                ("give-back", Some("done")) => false,
                _ => is_open,
            };
            if said.as_deref() != Some("done") {
                break;
            }
        }
        self.after_messages(client, &receiver, is_open)
    }

    /// Does the same, but cuts only while messages are in transit.
    fn message(&mut self, at: u64) -> Result<Ended, String> {
        let receiver = Receiver::new();
        let (_, mut client) = self.client();
        let open = format!("open {}", receiver.port());
        for step in ["connect", &open, "attach"] {
            expect(&mut client, step, "done")?;
        }
        self.arm(&client, at)?;
        for step in ["send 2", "drain"] {
            if client.try_ask(step).as_deref() != Some("done") {
                break;
            }
        }
        self.after_messages(client, &receiver, true)
    }

    /// Checks that every message that was put in leaves, whichever process was cut.
    fn after_messages(
        &mut self,
        mut client: Person,
        receiver: &Receiver,
        is_open: bool,
    ) -> Result<Ended, String> {
        let ended = self.recover()?;
        if self.is_dead(&ended) {
            client.kill();
            receiver.check_arrivals(None)?;
        } else {
            let was = format!("(cut: {ended:?})");
            must("the loopback stays down", loopback_is_up)?;
            goes_on(&mut client, is_open).map_err(|why| format!("{why} {was}"))?;
            let sent = client.ask("sent").parse().expect("a number");
            if self.sweep.action == Action::Unplug {
                let lost = receiver.misses_of(sent).map_err(|why| format!("{why} {was}"))?;
                let verdict = if is_open { client.ask("verdict") } else { "gone".into() };
                if lost > 0 && verdict.starts_with("kept") {
                    return Err(format!("{lost} of {sent} messages were lost: {verdict} {was}"));
                }
            } else {
                receiver.check_arrivals(Some(sent)).map_err(|why| format!("{why} {was}"))?;
            }
            if is_open {
                let given = client.ask("give-back");
                // Perhaps only the answer was lost.
                if given != "done" && !given.starts_with("refused") {
                    return Err(format!("give-back: {given} {was}"));
                }
            }
            drop(client);
        }
        self.is_clean().map_err(|why| format!("{why} (cut: {ended:?})"))?;
        Ok(ended)
    }

    fn teardown(&mut self, at: u64) -> Result<Ended, String> {
        let receiver = Receiver::new();
        let (_, mut client) = self.client();
        let open = format!("open {}", receiver.port());
        let request = format!("request upcalls {FIRST}");
        for step in ["connect", &request, &open, "attach", "send 3"] {
            expect(&mut client, step, "done")?;
        }
        self.arm(&client, at)?;
        client.kill();
        // Wait until the broker has finished with the client, or has ended.
        let promised = self.before.granted_ppm;
        let mut patience = 400;
        while patience > 0 && !self.broker.has_ended() {
            let done = self.broker.try_status().is_none_or(|status| {
                status.totals.granted_ppm <= promised && status.grants.is_empty()
            });
            patience = if done { patience.min(3) } else { patience } - 1;
            clock::sleep(Duration::from_millis(1));
        }
        let ended = self.recover()?;
        self.is_clean().map_err(|why| format!("{why} (cut: {ended:?})"))?;
        Ok(ended)
    }

    fn recovery(&mut self, at: u64) -> Result<Ended, String> {
        let receiver = Receiver::new();
        let (uid, mut client) = self.client();
        let open = format!("open {}", receiver.port());
        let request = format!("request upcalls {FIRST}");
        for step in ["connect", &request, &open, "attach", "send 3"] {
            expect(&mut client, step, "done")?;
        }
        let process = self.broker.restart_held();
        self.cutter.arm(self.sweep.action, at, process, true)?;
        live::eventually(|| self.broker.has_ended() || self.broker.answers());
        let ended = self.recover()?;
        if matches!(ended, Ended::Whole(_)) && self.broker.has_ended() {
            return Err("the broker has ended without a cut".into());
        }
        let was = |why| format!("{why} (cut: {ended:?})");
        // As every client does: first its connection ends, then everything that it holds.
        expect(&mut client, "connect", "done").map_err(was)?;
        expect(&mut client, "rejoin", "done").map_err(was)?;
        expect(&mut client, "drain", "done").map_err(was)?;
        receiver.check_arrivals(Some(3)).map_err(was)?;
        expect(&mut client, "give-back", "done").map_err(was)?;
        let belief = Belief::from([Some(1_000 * FIRST)]);
        self.holds_what_it_was_told(uid, &mut client, "upcalls", &belief).map_err(was)?;
        drop(client);
        self.is_clean().map_err(was)?;
        Ok(ended)
    }
}

/// Another client, which makes requests throughout.
struct Others {
    is_over: Arc<AtomicBool>,
    worst: JoinHandle<Result<Duration, String>>,
}

/// The longest that another client may wait while one stands still, even on a busy host.
const PATIENCE_OF_OTHERS: Duration = Duration::from_secs(1);

impl Others {
    fn start(broker: &Broker) -> Self {
        let mut connection = broker.connect();
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let worst = thread::spawn(move || {
            let mut worst = Duration::ZERO;
            while !told.load(Ordering::Acquire) {
                let asked = clock::now();
                connection.ping().map_err(|why| format!("another client: {why}"))?;
                worst = worst.max(clock::now().saturating_since(asked));
                clock::sleep(Duration::from_millis(2));
            }
            Ok(worst)
        });
        Self { is_over, worst }
    }

    fn were_served(self) -> Result<(), String> {
        self.is_over.store(true, Ordering::Release);
        let worst = self.worst.join().expect("no panic")?;
        let late = worst > PATIENCE_OF_OTHERS;
        if late { Err(format!("another client waited for {worst}")) } else { Ok(()) }
    }
}

/// Requests a grant, changes it and gives it back, up to the point where the broker or the client
/// is lost. Returns the grants that may be in force then.
fn live_by_a_grant(client: &mut Person, kind: &str) -> Result<Belief, String> {
    let (first, second) = (Some(1_000 * FIRST), Some(1_000 * SECOND));
    let steps = [
        ("connect".to_owned(), None),
        (format!("request {kind} {FIRST}"), first),
        (format!("change {kind} {SECOND}"), second),
        ("release".to_owned(), None),
    ];
    let mut known = Belief::from([None]);
    for (step, after) in steps {
        let before = known.clone();
        known.insert(after);
        match client.try_ask(&step).as_deref() {
            Some("done") => known = Belief::from([after]),
            // The client was told that nothing has changed.
            Some(refused) if refused.starts_with("refused") => return Ok(before),
            Some(lost) if lost.starts_with("lost") => return Ok(known),
            Some(other) => return Err(format!("{step}: {other}")),
            None => return Ok(known),
        }
    }
    Ok(known)
}

/// Checks that a client with a channel goes on with it, and that every message that it has put in
/// leaves.
fn goes_on(client: &mut Person, is_open: bool) -> Result<(), String> {
    expect(client, "connect", "done")?;
    match client.ask("rejoin").as_str() {
        "nothing" => Ok(()),
        "done" => expect(client, "drain", "done"),
        why if is_open && !why.starts_with("refused") => Err(format!("rejoin: {why}")),
        _ => Ok(()),
    }
}

fn expect(client: &mut Person, step: &str, wanted: &str) -> Result<(), String> {
    match client.try_ask(step) {
        Some(said) if said == wanted => Ok(()),
        said => Err(format!("{step}: {said:?}, and not {wanted:?}")),
    }
}

fn loopback_is_up() -> bool {
    Interface::named("lo").expect("every network has one").up
}

/// The socket at which messages arrive.
struct Receiver(UdpSocket);

impl Receiver {
    fn new() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        socket.set_read_timeout(Some(Time::from_millis(1))).expect("a socket");
        Self(socket)
    }

    fn port(&self) -> u16 {
        self.0.local_addr().expect("bound").port()
    }

    /// Checks that every message put in has arrived, in order, at most one of them twice: the one
    /// that was being handed over. If the number sent is unknown, the messages that arrived must be
    /// the first ones.
    fn check_arrivals(&self, sent: Option<u64>) -> Result<(), String> {
        let arrived = self.all_that_arrived(sent)?;
        let mut once = arrived.clone();
        once.dedup();
        let all = sent.unwrap_or(once.len() as u64);
        if once != (0..all).collect::<Vec<_>>() || arrived.len() > once.len() + 1 {
            return Err(format!("of {sent:?} messages {arrived:?} arrived"));
        }
        Ok(())
    }

    /// Returns how many of `sent` messages did not arrive. Checks that the others came in order, at
    /// most one of them twice.
    fn misses_of(&self, sent: u64) -> Result<u64, String> {
        let arrived = self.all_that_arrived(None)?;
        let mut once = arrived.clone();
        once.dedup();
        let in_order = once.is_sorted() && once.last().is_none_or(|last| *last < sent);
        if !in_order || arrived.len() > once.len() + 1 {
            return Err(format!("of {sent} messages {arrived:?} arrived"));
        }
        Ok(sent - once.len() as u64)
    }

    /// Returns the numbers of the messages that arrived. Waits for `expected` of them, even on a
    /// busy host.
    fn all_that_arrived(&self, expected: Option<u64>) -> Result<Vec<u64>, String> {
        let mut arrived = Vec::new();
        let mut buffer = [0; 2 * MESSAGE];
        loop {
            let silence = match expected {
                // Loopback is quick; on a busy host the sending thread may not be.
                Some(expected) if (arrived.len() as u64) < expected => 2_000,
                _ => 2,
            };
            self.0.set_read_timeout(Some(Time::from_millis(silence))).expect("a socket");
            let Ok(bytes) = self.0.recv(&mut buffer) else { return Ok(arrived) };
            if bytes != MESSAGE {
                return Err(format!("a message of {bytes} bytes arrived"));
            }
            arrived.push(u64::from_be_bytes(buffer[..8].try_into().expect("eight bytes")));
        }
    }
}
