use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use punctual_model::time::{Duration, Instant};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData};
use rustix::fs::OFlags;

use super::*;
use crate::clock;
use crate::memfd::{Others, Readable, Writable};

fn sockets() -> (UnixStream, UnixStream) {
    UnixStream::pair().expect("sockets")
}

#[test]
fn memory_is_passed() {
    let (ours, theirs) = sockets();
    let (ours_too, memory) = Writable::create("test", 4096, Others::Read).expect("memory");
    ours_too.words()[1].store(9, std::sync::atomic::Ordering::Relaxed);
    send(&ours, b"hello", &[memory.as_fd(), ours.as_fd()]).expect("sent");
    let mut bytes = [0; 16];
    let (count, mut descriptors) = receive(&theirs, &mut bytes, 2).expect("received");
    assert_eq!((&bytes[..count], descriptors.len()), (&b"hello"[..], 2));
    let seen = Readable::of(descriptors.remove(0), 4096).expect("the memory");
    assert_eq!(seen.load(1), 9);
    // A received descriptor is closed when a program is executed.
    let flags = rustix::io::fcntl_getfd(&descriptors[0]).expect("open");
    assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    // The second is the sender's end of the socket.
    let mut other = UnixStream::from(descriptors.remove(0));
    other.write_all(b"!").expect("open");
    (&theirs).read_exact(&mut bytes[..1]).expect("a byte");
    assert_eq!(bytes[0], b'!');
}

#[test]
fn too_many_descriptors_are_refused_and_closed() {
    let (ours, theirs) = sockets();
    let (mut pipe, mut end) = std::io::pipe().expect("a pipe");
    for count in [2, MOST] {
        send(&ours, b"x", &vec![end.as_fd(); count]).expect("sent");
        let refused = receive(&theirs, &mut [0; 8], 1).expect_err("too many");
        assert_eq!(refused, PassError::Truncated { bytes: 8, descriptors: 1 });
    }
    for count in [0, MOST + 1] {
        let refused = send(&ours, b"x", &vec![end.as_fd(); count]).expect_err("a wrong number");
        assert_eq!(refused, PassError::Count { count, most: MOST });
    }
    assert_eq!(send(&ours, b"", &[end.as_fd()]), Err(PassError::NoBytes));
    // No other copy of the pipe's end is open.
    end.write_all(b"y").expect("open");
    drop(end);
    let mut rest = Vec::new();
    pipe.read_to_end(&mut rest).expect("the end");
    assert_eq!(rest, b"y");
}

#[test]
fn a_message_without_descriptors_differs_from_an_end() {
    let (mut ours, theirs) = sockets();
    theirs.set_nonblocking(true).expect("a socket");
    assert_eq!(receive(&theirs, &mut [0; 8], 1).err(), Some(PassError::WouldWait));
    ours.write_all(b"abc").expect("room");
    let mut bytes = [0; 8];
    let (count, descriptors) = receive(&theirs, &mut bytes, 1).expect("bytes");
    assert_eq!((count, descriptors.len()), (3, 0));
    drop(ours);
    assert_eq!(receive(&theirs, &mut bytes, 1).err(), Some(PassError::Gone));
    assert_eq!(send(&theirs, b"x", &[theirs.as_fd()]), Err(PassError::Gone));
}

#[test]
fn a_ring_is_heard_before_and_after_the_wait_begins() {
    let (ours, theirs) = Bell::pair().expect("sockets");
    let soon = clock::now() + Duration::from_millis(3);
    assert_eq!(ours.wait(soon), Ok(WaitOutcome::TimedOut));
    assert!(clock::now() >= soon);
    for _ in 0..3 {
        theirs.ring().expect("we are here");
    }
    assert_eq!(ours.wait(Instant::MAX), Ok(WaitOutcome::Rung));
    assert_eq!(ours.wait(clock::now()), Ok(WaitOutcome::TimedOut), "all of them were silenced");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| ours.wait(Instant::MAX));
        theirs.ring().expect("we are here");
        assert_eq!(waiter.join().expect("no panic"), Ok(WaitOutcome::Rung));
    });
    theirs.ring().expect("we are here");
    ours.silence().expect("they are here");
    assert_eq!(ours.wait(clock::now()), Ok(WaitOutcome::TimedOut));
}

#[test]
fn the_end_of_the_other_side_is_heard_after_its_last_ring() {
    let (ours, theirs) = Bell::pair().expect("sockets");
    theirs.ring().expect("we are here");
    drop(theirs);
    assert_eq!(ours.wait(Instant::MAX), Ok(WaitOutcome::Rung));
    assert_eq!(ours.wait(Instant::MAX), Ok(WaitOutcome::Closed));
    assert_eq!((ours.ring(), ours.silence()), (Err(PassError::Gone), Err(PassError::Gone)));
}

#[test]
fn a_peer_that_never_listens_and_changes_its_flags_makes_no_call_wait() {
    let (ours, theirs) = Bell::pair().expect("sockets");
    // The peer's own end, and ours as if it had got a copy.
    for end in [&ours, &theirs] {
        rustix::fs::fcntl_setfl(end, OFlags::empty()).expect("open");
    }
    for _ in 0..5_000 {
        ours.ring().expect("it is there");
    }
    ours.silence().expect("it is there");
    assert_eq!(ours.wait(clock::now()), Ok(WaitOutcome::TimedOut));
    // Its many rings are silenced in few calls.
    assert_eq!(theirs.wait(Instant::MAX), Ok(WaitOutcome::Rung));
}

#[test]
fn a_descriptor_that_is_not_a_bell_is_refused() {
    let (reader, _writer) = std::io::pipe().expect("a pipe");
    assert!(Bell::of(reader.into()).is_err());
    let tcp = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    assert!(Bell::of(tcp.into()).is_err());
    let (ours, theirs) = Bell::pair().expect("sockets");
    let theirs = Bell::of(OwnedFd::from(theirs)).expect("one");
    theirs.ring().expect("we are here");
    assert!(ours.as_fd().as_raw_fd() >= 0);
    assert_eq!(ours.wait(Instant::MAX), Ok(WaitOutcome::Rung));
}

/// Returns the number of events in the set right now.
fn events_waiting(epoll: &OwnedFd) -> usize {
    let mut events = Vec::with_capacity(8);
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), Some(&at_once))
        .expect("an epoll")
}

fn watched() -> (OwnedFd, Doorbell, Doorbell) {
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
    let bell = Doorbell::new().expect("a descriptor");
    bell.watch(&epoll, EventData::new_u64(7)).expect("an eventfd");
    let theirs = Doorbell::of(bell.copy().expect("a descriptor"));
    (epoll, bell, theirs)
}

/// The eventfd is never read in between: this lets the watcher leave it alone.
#[test]
fn each_ring_of_a_doorbell_is_reported_once() {
    let (epoll, bell, theirs) = watched();
    for _ in 0..1_000 {
        assert_eq!(events_waiting(&epoll), 0);
        theirs.ring().expect("room");
        assert_eq!(events_waiting(&epoll), 1);
    }
    // Rings between two waits cause one event.
    for _ in 0..3 {
        theirs.ring().expect("room");
    }
    assert_eq!((events_waiting(&epoll), events_waiting(&epoll)), (1, 0));
    bell.unwatch(&epoll).expect("watched");
    theirs.ring().expect("room");
    assert_eq!(events_waiting(&epoll), 0);
}

/// No action of another holder of a doorbell delays its watcher.
#[test]
fn a_hostile_holder_of_a_doorbell_harms_only_its_own_rings() {
    let (epoll, _bell, theirs) = watched();
    let event = OwnedFd::from(theirs);
    // It waits in its own calls: the flags belong to the open file, and so to every holder.
    rustix::fs::fcntl_setfl(&event, OFlags::empty()).expect("open");
    rustix::io::write(&event, &1_u64.to_ne_bytes()).expect("room");
    assert_eq!(events_waiting(&epoll), 1);
    rustix::fs::fcntl_setfl(&event, OFlags::NONBLOCK).expect("open");
    // It is full: no more events come, and waiting for them takes no time.
    let all = u64::MAX - 2;
    rustix::io::write(&event, &all.to_ne_bytes()).expect("room");
    assert_eq!(events_waiting(&epoll), 1);
    Doorbell::of(event.try_clone().expect("a descriptor")).ring().expect("does not wait");
    assert_eq!(events_waiting(&epoll), 0);
    // The holder takes its own ring back before the watcher looks: then there was none.
    rustix::io::read(&event, &mut [0; 8]).expect("full");
    rustix::io::write(&event, &1_u64.to_ne_bytes()).expect("room");
    rustix::io::read(&event, &mut [0; 8]).expect("rung");
    assert_eq!(events_waiting(&epoll), 0);
    // The holder waits for it in many places, and keeps copies.
    let sets: Vec<OwnedFd> = (0..200)
        .map(|_| {
            let set = epoll::create(epoll::CreateFlags::CLOEXEC).expect("a descriptor");
            epoll::add(&set, &event, EventData::new_u64(0), epoll::EventFlags::IN).expect("added");
            set
        })
        .collect();
    rustix::io::write(&event, &1_u64.to_ne_bytes()).expect("room");
    assert_eq!(events_waiting(&epoll), 1);
    drop((sets, event));
    assert_eq!(events_waiting(&epoll), 0, "that another holder is gone is no ring");
}
