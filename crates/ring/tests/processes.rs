//! Tests of a queue between processes that are killed.
//!
//! Each test starts this program again as its peer, with a socket as its standard input.

use std::env;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use punctual_linux::clock;
use punctual_linux::memfd::{Others, Readable, Writable};
use punctual_linux::pass::{Bell, WaitOutcome, receive, send};
use punctual_model::{Duration, Instant};
use punctual_ring::frames::{Consumer, Geometry, Producer, Rest, Wake, Words};

/// The environment variable that says which part the peer plays.
const PART: &str = "PUNCTUAL_TEST_FRAMES_PART";
const SLOTS: u32 = 16;
const MAX_MESSAGE: u32 = 200;

struct View(Readable);

impl Words for View {
    fn count(&self) -> usize {
        self.0.count()
    }

    fn load(&self, at: usize) -> u64 {
        self.0.load(at)
    }
}

fn geometry() -> Geometry {
    Geometry::new(SLOTS, MAX_MESSAGE).expect("a good one")
}

fn view(memory: OwnedFd, bytes: usize) -> View {
    View(Readable::of(memory, bytes).expect("sealed memory"))
}

fn producer(own: Writable, page: OwnedFd) -> Producer<Writable, View> {
    Producer::create(geometry(), own, view(page, Geometry::CONSUMER_BYTES)).expect("zeroes")
}

fn consumer(own: Writable, memory: OwnedFd) -> Consumer<Writable, View> {
    Consumer::attach(own, view(memory, geometry().producer_bytes())).expect("a queue")
}

/// Returns the content of message `n`.
fn content(n: u64) -> Vec<u8> {
    vec![n as u8; (n % u64::from(MAX_MESSAGE)) as usize]
}

fn push(producer: &mut Producer<Writable, View>, n: u64) -> Option<Wake> {
    let mut slot = producer.claim().expect("honest")?;
    let content = content(n);
    slot.write(0, &content);
    slot.push(content.len(), n);
    Some(producer.publish())
}

/// Takes the next message, which must be whole.
fn take(consumer: &Consumer<Writable, View>) -> Option<u64> {
    let frame = consumer.take().expect("honest")?;
    let mut bytes = vec![0; frame.len()];
    frame.read(0, &mut bytes);
    assert_eq!(bytes, content(frame.user()), "message {} in parts", frame.user());
    Some(frame.user())
}

/// Returns a deadline that is late enough for any machine.
fn patience() -> Instant {
    clock::now() + Duration::from_millis(20_000)
}

/// A peer process, which is killed when this is dropped.
struct Peer {
    process: Child,
    socket: UnixStream,
}

impl Peer {
    fn start(part: &str) -> Self {
        let (socket, theirs) = UnixStream::pair().expect("sockets");
        let limit = std::time::Duration::from_secs(20);
        socket.set_read_timeout(Some(limit)).expect("a socket");
        let process = Command::new(env::current_exe().expect("this program"))
            .args(["--exact", "plays_its_part", "--nocapture"])
            .env(PART, part)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .expect("this program starts");
        Self { process, socket }
    }

    fn kill(&mut self) {
        // Fails only if it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn descriptor(of: &impl AsFd) -> OwnedFd {
    of.as_fd().try_clone_to_owned().expect("a descriptor")
}

/// Not a test by itself: the peer of the others.
#[test]
fn plays_its_part() {
    let Ok(part) = env::var(PART) else { return };
    let socket = UnixStream::from(descriptor(&std::io::stdin()));
    let (_, mut passed) = receive(&socket, &mut [0; 1], 3).expect("what was passed");
    let bell = Bell::of(passed.remove(0)).expect("a bell");
    match part.as_str() {
        "produce" => produces_for_ever(&socket, &bell, passed.remove(0)),
        _ => consumes_for_ever(&socket, &bell, passed.remove(0), passed.remove(0)),
    }
}

fn produces_for_ever(socket: &UnixStream, bell: &Bell, page: OwnedFd) {
    let (own, memory) =
        Writable::create("test", geometry().producer_bytes(), Others::Read).expect("memory");
    let mut producer = producer(own, page);
    send(socket, b"m", &[memory.as_fd()]).expect("passed");
    let mut n = 0;
    loop {
        match push(&mut producer, n) {
            Some(wake) => {
                n += 1;
                if wake == Wake::Ring && bell.ring().is_err() {
                    return;
                }
            }
            None if producer.rest() == Ok(Rest::Sleep) => {
                if bell.wait(patience()) != Ok(WaitOutcome::Rung) {
                    return;
                }
                producer.rise();
            }
            None => {}
        }
    }
}

/// Reports what it has taken before it releases it.
fn consumes_for_ever(mut socket: &UnixStream, bell: &Bell, own: OwnedFd, memory: OwnedFd) {
    let own = Writable::of(own, Geometry::CONSUMER_BYTES).expect("to be written");
    let mut consumer = consumer(own, memory);
    loop {
        if let Some(n) = take(&consumer) {
            socket.write_all(&n.to_ne_bytes()).expect("a listener");
            if consumer.release(1) == Wake::Ring && bell.ring().is_err() {
                return;
            }
        } else if consumer.rest() == Ok(Rest::Sleep) {
            if bell.wait(patience()) != Ok(WaitOutcome::Rung) {
                return;
            }
            consumer.rise();
        }
    }
}

#[test]
fn of_a_producer_that_is_killed_every_published_message_is_taken() {
    for least in [0, 1, 100, 5_000] {
        let mut peer = Peer::start("produce");
        let (own, page) =
            Writable::create("test", Geometry::CONSUMER_BYTES, Others::Read).expect("memory");
        let (ours, theirs) = Bell::pair().expect("sockets");
        send(&peer.socket, b"p", &[theirs.as_fd(), page.as_fd()]).expect("passed");
        // Otherwise our own copy would keep the bell's other end alive.
        drop(theirs);
        let (_, mut passed) = receive(&peer.socket, &mut [0; 1], 1).expect("its memory");
        let mut consumer = consumer(own, passed.remove(0));
        let mut taken = 0;
        while taken < least {
            if let Some(n) = take(&consumer) {
                assert_eq!(n, taken);
                taken += 1;
                if consumer.release(1) == Wake::Ring {
                    ours.ring().expect("it lives");
                }
            } else if consumer.rest().expect("honest") == Rest::Sleep {
                assert_eq!(ours.wait(patience()), Ok(WaitOutcome::Rung));
                consumer.rise();
            }
        }
        peer.kill();
        // First the rings that it sent, then its end: no consumer sleeps for ever.
        while ours.wait(patience()).expect("a bell") == WaitOutcome::Rung {}
        assert_eq!(ours.wait(patience()), Ok(WaitOutcome::Closed));
        let left: Vec<u64> = std::iter::from_fn(|| take(&consumer)).collect();
        assert!(left.into_iter().eq(taken..taken + consumer.held()), "in order, none missing");
        assert!(consumer.held() <= SLOTS.into());
        let _ = consumer.release(consumer.held());
        assert_eq!(take(&consumer), None);
    }
}

#[test]
fn the_next_consumer_goes_on_where_one_was_killed() {
    let (own, memory) =
        Writable::create("test", geometry().producer_bytes(), Others::Read).expect("memory");
    // The page of the consumers: it outlives each of them.
    let (_, page) =
        Writable::create("test", Geometry::CONSUMER_BYTES, Others::Write).expect("memory");
    let mut producer = producer(own, descriptor(&page));
    let (mut pushed, mut expected) = (0u64, 0u64);
    for consumer in 0..3 {
        let mut peer = Peer::start("consume");
        let (bell, theirs) = Bell::pair().expect("sockets");
        send(&peer.socket, b"c", &[theirs.as_fd(), page.as_fd(), memory.as_fd()]).expect("passed");
        drop(theirs);
        let mut reported = expected;
        let read = |socket: &mut UnixStream| {
            let mut bytes = [0; 8];
            socket.read_exact(&mut bytes).ok().map(|()| u64::from_ne_bytes(bytes))
        };
        // A message that was taken and perhaps not released is taken again: one at most.
        let first = if pushed == 0 { None } else { read(&mut peer.socket) };
        if let Some(first) = first {
            assert!(
                (expected.saturating_sub(1)..=expected).contains(&first),
                "{first}: {expected}"
            );
            reported = first + 1;
        }
        let until = pushed + 500;
        while pushed < until || reported < pushed {
            match if pushed < until { push(&mut producer, pushed) } else { None } {
                Some(wake) => {
                    pushed += 1;
                    if wake == Wake::Ring {
                        bell.ring().expect("it lives");
                    }
                }
                None => {
                    assert_eq!(read(&mut peer.socket), Some(reported), "consumer {consumer}");
                    reported += 1;
                }
            }
        }
        peer.kill();
        expected = reported;
        // There is no consumer: the producer finds the queue full, and its bell says why.
        let room = (0..).map_while(|n| push(&mut producer, pushed + n)).take(100).count();
        assert!((1..=SLOTS as usize).contains(&room), "{room}");
        pushed += room as u64;
        while bell.wait(patience()).expect("a bell") == WaitOutcome::Rung {}
        assert_eq!(producer.rest(), Ok(Rest::Sleep), "full");
        producer.rise();
    }
}
