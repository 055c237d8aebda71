use punctual_linux::pass::Heard;
use punctual_model::Instant;
use punctual_ring::frames::{Geometry, Wake};

use super::{Passed, RingError, client, server};

fn geometry() -> Geometry {
    Geometry::new(4, 100).expect("valid")
}

#[test]
fn a_queue_goes_on_with_the_next_server() {
    let (mut puts, memory) = client::sending(geometry()).expect("memory");
    for server in 0..3_u64 {
        let (bell, passed) = memory.pass().expect("descriptors");
        let mut takes = server::takes(passed.frames, passed.page, geometry()).expect("as granted");
        for message in 0..2 {
            let mut slot = puts.claim().expect("sound").expect("room");
            slot.write(0, &[(server * 2 + message) as u8]);
            slot.push(1, 0);
            assert_eq!(puts.publish(), Wake::Nobody);
        }
        // Taken, and released by nobody: the next server has it again.
        let frame = takes.take().expect("sound").expect("published");
        let mut byte = [0];
        frame.read(0, &mut byte);
        assert_eq!((u64::from(byte[0]), takes.released()), (server, server));
        assert_eq!(takes.release(1), Wake::Nobody);
        takes.take().expect("sound").expect("published");
        drop(passed.bell);
        assert_eq!(bell.wait(Instant::MAX), Ok(Heard::Gone));
    }
}

#[test]
fn a_queue_to_the_client_is_there_before_the_server() {
    let (takes, memory) = client::receiving(geometry()).expect("memory");
    assert!(takes.take().expect("sound").is_none());
    let (_bell, passed) = memory.pass().expect("descriptors");
    let mut puts = server::puts(passed.frames, passed.page, geometry()).expect("as granted");
    puts.claim().expect("sound").expect("room").push(7, 1);
    assert_eq!(puts.publish(), Wake::Nobody);
    assert_eq!(takes.take().expect("sound").expect("published").len(), 7);
}

#[test]
fn what_is_not_as_granted_is_refused() {
    let (_puts, memory) = client::sending(geometry()).expect("memory");
    let passed = || memory.pass().expect("descriptors").1;
    // As many bytes, cut otherwise.
    let other = Geometry::new(4, 101).expect("valid");
    let refused = server::takes(passed().frames, passed().page, other).err();
    assert!(matches!(refused, Some(RingError::OtherGeometry { bytes: 100, .. })), "{refused:?}");
    let larger = Geometry::new(8, 4_000).expect("valid");
    let refused = server::takes(passed().frames, passed().page, larger).err();
    assert!(matches!(refused, Some(RingError::Sparse { .. })), "{refused:?}");
    // The client's own part is not for the server to write.
    let refused = server::puts(passed().frames, passed().page, geometry()).err();
    assert!(matches!(refused, Some(RingError::Memory(_))), "{refused:?}");
    let two = Vec::from(passed().into_descriptors()).into_iter().take(2).collect();
    assert_eq!(Passed::of(two).map_err(|two| two.len()).err(), Some(2));
}
