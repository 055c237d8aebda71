//! Attacks that are written by hand. They run in the attacker's process, one line of text each.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as Time;

use punctual_linux::clock;
use punctual_linux::sched::{self, Class};
use punctual_linux::thread;
use punctual_model::{Duration, Service};
use rustix::fs::FallocateFlags;
use serde_json::{Value, json};

use super::calls::{run_only_when_idle, take_files_again};
use super::files::Lingering;
use super::person::say;
use super::queue::Queue;
use super::raw::Raw;

/// The connections left to one user (`max_connections`) after the one that the attacker already
/// has.
const MOST_CONNECTIONS: usize = 63;

/// How long the last close of a file lingers that an attacker hands over.
pub const LINGER: Time = Time::from_secs(8);

struct Attacker {
    socket: PathBuf,
    /// Keeps the broker busy for a moment.
    distraction: Raw,
    /// The descriptors that stay open for the attack to last.
    kept: Vec<OwnedFd>,
    connections: Vec<Raw>,
    channels: Vec<Queue>,
    busy: Arc<AtomicBool>,
}

/// Runs in the attacker's process.
pub(super) fn obey(socket: &Path) {
    let busy = Arc::new(AtomicBool::new(true));
    super::raw::may_be_real_time();
    let (kept, connections, channels) = Default::default();
    let distraction = Raw::greeted(socket).expect("it runs");
    let socket = socket.into();
    let mut attacker = Attacker { socket, distraction, kept, connections, channels, busy };
    say("ready");
    for line in std::io::stdin().lines() {
        let line = line.expect("readable");
        let words: Vec<&str> = line.split(' ').collect();
        let outcome = attacker.obey(&words);
        say(&outcome.unwrap_or_else(|why| format!("failed: {why}")));
    }
}

type Outcome = std::io::Result<String>;

fn number(word: &str) -> u64 {
    word.parse().expect("a number")
}

impl Attacker {
    fn obey(&mut self, words: &[&str]) -> Outcome {
        match words {
            ["hand_over", carriage] => self.hand_over(carriage),
            ["overuse", ppm, seconds] => self.overuse(number(ppm), number(seconds)),
            ["upcalls", ppm] => self.ask_for_upcalls(number(ppm)),
            ["renege", ppm] => self.renege(number(ppm)),
            ["open_channel", slots, bytes] => self.open_channel(number(slots), number(bytes)),
            ["ring_with_slow_files"] => self.ring_with_slow_files(),
            ["punch", hogs] => self.punch(number(hogs)),
            ["chatter", seconds] => self.chatter(number(seconds)),
            ["rest"] => {
                self.busy.store(false, Ordering::Release);
                Ok("resting".into())
            }
            _ => panic!("{words:?}"),
        }
    }

    /// Hands the broker a socket whose last close lingers, with a message that should carry no
    /// files, and keeps no copy.
    fn hand_over(&mut self, carriage: &str) -> Outcome {
        let (file, peer) = Lingering::new(LINGER)?.into_parts();
        self.kept.push(peer);
        let before = vec![br#"{"id":7,"ask":"ping"}"#.as_slice(); 16];
        let hello = br#"{"id":1,"ask":{"hello":{"version":1}}}"#.as_slice();
        let (first, message): (Vec<&[u8]>, Vec<u8>) = match carriage {
            "hello" => (vec![], hello.into()),
            "garbage" => (vec![], b"{".into()),
            "too_long" => (vec![], vec![b' '; 65_537]),
            // The broker closes the connection because of the first message, and the second one
            // with it.
            "behind_garbage" => (vec![b"{"], hello.into()),
            // Both ends may be closed before anything is read, or the broker turns the client away.
            "closed" | "turned_away" => (vec![], hello.into()),
            "ping" => ([vec![hello], before].concat(), br#"{"id":2,"ask":"ping"}"#.into()),
            "no_channel" => ([vec![hello], before].concat(), attach(1)),
            "queue" => (before, Vec::new()),
            other => panic!("{other}"),
        };
        let waits_for_its_queue = if carriage == "queue" {
            let mut raw = Raw::greeted(&self.socket)?;
            let id = open(&mut raw, 64, 200)?;
            Some((raw, attach(id)))
        } else {
            None
        };
        if carriage == "turned_away" {
            // As many connections as one user may have.
            for _ in 0..MOST_CONNECTIONS {
                self.connections.push(Raw::connect(&self.socket)?);
            }
        }
        // The broker must not accept the connection before this end is closed: then this end would
        // linger. It serves an earlier connection of this client first.
        for _ in 0..50 {
            self.distraction.tell(&json!({"status": {"after": null}}), &[]);
        }
        let (mut raw, message) = match waits_for_its_queue {
            Some(both) => both,
            None => (Raw::connect(&self.socket)?, message),
        };
        let hand = |raw: &Raw| {
            first.iter().for_each(|bytes| _ = raw.send(bytes, &[]));
            raw.send(&message, &[file.as_fd()])
        };
        let mut sent = hand(&raw);
        // A broker that was quick has closed the connection before the file was sent.
        let again = if matches!(carriage, "turned_away" | "behind_garbage") { 100 } else { 0 };
        for _ in 0..again {
            if sent {
                break;
            }
            raw = Raw::connect(&self.socket)?;
            sent = hand(&raw);
        }
        drop(file);
        if carriage != "closed" {
            self.connections.push(raw);
        }
        Ok(if sent { "handed over" } else { "refused" }.into())
    }

    /// Uses nine tenths of a CPU until the broker reports overuse, rests for a window, and begins
    /// again. Returns how many milliseconds of processor time this thread had in SCHED_FIFO.
    fn overuse(&mut self, ppm: u64, seconds: u64) -> Outcome {
        let mut raw = Raw::greeted(&self.socket)?;
        let answer = raw.ask(&request_of(ppm), &[]);
        if answer.as_ref().and_then(|answer| answer.get("granted")).is_none() {
            return Err(std::io::Error::other(format!("{answer:?}")));
        }
        let mut used = Service::ZERO;
        let until = clock::now() + Duration::from_secs(seconds);
        while clock::now() < until {
            let began = clock::thread_cpu_time();
            let end = clock::now() + Duration::from_millis(9);
            while clock::now() < end {}
            if is_fifo() {
                used += clock::thread_cpu_time().saturating_sub(began);
            }
            clock::sleep(Duration::from_micros(500));
            while let Some(said) = raw.read(Duration::ZERO) {
                if said.is_null() {
                    break;
                }
                if said.pointer("/event/event/broken").is_some() {
                    clock::sleep(Duration::from_millis(1_150));
                }
            }
        }
        self.connections.push(raw);
        Ok(format!("{}", used.as_nanos() / 1_000_000))
    }

    /// Asks for upcalls with a share of a CPU and returns the broker's answer.
    fn ask_for_upcalls(&mut self, ppm: u64) -> Outcome {
        let mut raw = Raw::greeted(&self.socket)?;
        let answer = raw.ask(&request_of(ppm), &[]);
        self.connections.push(raw);
        Ok(answer.map_or_else(|| "nothing".into(), |answer| answer.to_string()))
    }

    /// Gives a reservation back without leaving its class, asks for upcalls of the same thread, and
    /// returns the broker's answer.
    fn renege(&mut self, ppm: u64) -> Outcome {
        let mut raw = Raw::greeted(&self.socket)?;
        let this = thread::current().as_raw();
        let reservation = json!({"reservation": {"thread": this, "budget_ns": 1_000_000, "period_ns": 50_000_000}});
        let answer = raw.ask(&json!({"request": {"want": reservation}}), &[]);
        let id = answer.as_ref().and_then(|answer| answer.pointer("/granted/grant")?.as_u64());
        let id = id.ok_or_else(|| std::io::Error::other(format!("{answer:?}")))?;
        let released = raw.ask(&json!({"release": {"grant": id}}), &[]);
        let answer = raw.ask(&request_of(ppm), &[]);
        self.connections.push(raw);
        Ok(format!("{released:?}, then {answer:?}"))
    }

    /// Asks for a channel, opens it, and returns the broker's answer.
    fn open_channel(&mut self, slots: u64, bytes: u64) -> Outcome {
        let mut raw = Raw::greeted(&self.socket)?;
        let id = open(&mut raw, slots, bytes)?;
        let (queue, answer) = Queue::attach(&mut raw, id, slots, bytes)?;
        self.channels.push(queue);
        self.connections.push(raw);
        Ok(answer.to_string())
    }

    /// Rings the bell over every socket of a channel with files whose last close lingers, and
    /// continues until the server removes the rings.
    fn ring_with_slow_files(&mut self) -> Outcome {
        let mut sent = 0;
        let bells = || self.channels.iter().flat_map(Queue::bells);
        bells().for_each(|bell| _ = take_files_again(bell));
        for bell in bells() {
            let (file, peer) = Lingering::new(LINGER)?.into_parts();
            self.kept.push(peer);
            sent += u32::from(super::raw::send(bell, &[1], &[file.as_fd()]).is_ok());
            drop(file);
            for _ in 0..100 {
                let _ = super::raw::send(bell, &[1], &[]);
                clock::sleep(Duration::from_micros(200));
            }
        }
        Ok(format!("{sent} sent"))
    }

    /// Punches holes into the messages of its channels from SCHED_IDLE threads, which hardly ever
    /// run beside threads that always do, and has the server read them.
    fn punch(&mut self, hogs: u64) -> Outcome {
        let channels = std::mem::take(&mut self.channels);
        let started = channels.len();
        for queue in channels {
            let (memory, messages) = (queue.files[0].try_clone()?, queue.messages());
            let length = rustix::fs::fstat(&memory)?.st_size as u64 - messages;
            let busy = Arc::clone(&self.busy);
            std::thread::spawn(move || {
                run_only_when_idle();
                let (all, hole) = (FallocateFlags::empty(), FallocateFlags::PUNCH_HOLE);
                while busy.load(Ordering::Acquire) {
                    for how in [hole | FallocateFlags::KEEP_SIZE, all] {
                        let _ = rustix::fs::fallocate(&memory, how, messages, length);
                    }
                }
            });
            let busy = Arc::clone(&self.busy);
            std::thread::spawn(move || {
                while busy.load(Ordering::Acquire) {
                    queue.publish();
                    queue.ring();
                    clock::sleep(Duration::from_millis(100));
                }
            });
        }
        for _ in 0..hogs {
            let busy = Arc::clone(&self.busy);
            std::thread::spawn(move || while busy.load(Ordering::Acquire) {});
        }
        Ok(format!("{started} punch"))
    }

    /// Does everything that a broker may log, as often as it can.
    fn chatter(&mut self, seconds: u64) -> Outcome {
        let until = clock::now() + Duration::from_secs(seconds);
        let mut rounds = 0;
        let null = File::open("/dev/null")?;
        while clock::now() < until {
            rounds += 1;
            if let Ok(raw) = Raw::connect(&self.socket) {
                raw.send(b"{", &[null.as_fd()]);
            }
            if rounds % 8 == 0
                && let Ok(mut raw) = Raw::greeted(&self.socket)
            {
                // More than any quota.
                let _ = raw.ask(&request_of(990_000), &[]);
                let _ = raw.ask(&json!({"release": {"grant": 1}}), &[]);
                let _ = raw.ask(&request_of(1_000), &[]);
            }
        }
        Ok(format!("{rounds} rounds"))
    }
}

fn attach(id: u64) -> Vec<u8> {
    json!({"id": 2, "ask": {"attach_channel": {"grant": id, "first": 0}}}).to_string().into()
}

fn is_fifo() -> bool {
    let class = sched::get(thread::current()).ok().and_then(|now| now.class());
    matches!(class, Some(Class::Fifo { .. }))
}

/// Returns a request for one upcall every 20 ms on this thread, with `ppm` of a CPU.
fn request_of(ppm: u64) -> Value {
    json!({"request": {"want": {"upcalls": {
        "thread": thread::current().as_raw(),
        "upcalls": [{
            "name": "u", "period_ns": 20_000_000, "batch": 1, "quantum": 1,
            "time_per_pdu_ns": ppm * 20,
        }],
    }}}})
}

/// Asks for a channel to a port on which no socket listens, and returns its number.
fn open(raw: &mut Raw, slots: u64, bytes: u64) -> std::io::Result<u64> {
    let channel = json!({
        "name": "attacker", "direction": "send", "min_message": 1, "max_message": bytes,
        "spacing_ns": 20_000_000, "burst": 1, "delay_bound_ns": 100_000_000, "address": "127.0.0.1:9",
        "framing": "fragments", "too_early": "wait", "slots": slots,
    });
    let answer = raw.ask(&json!({"open_channel": {"channel": channel}}), &[]);
    let id = answer.as_ref().and_then(|answer| answer.pointer("/opened/grant")?.as_u64());
    id.ok_or_else(|| std::io::Error::other(format!("{answer:?}")))
}
