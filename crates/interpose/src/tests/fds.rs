use crate::fds::{Fds, Known};

#[test]
fn an_unknown_descriptor_is_nothing() {
    let fds = Fds::<4>::new();
    for fd in [-1, 0, 3, 4, i32::MAX, i32::MIN] {
        assert_eq!((fds.known(fd, 0), fds.is_socket(fd)), (Known::Nothing, false), "{fd}");
        // Changes to a number beyond the table, or to an unknown descriptor, have no effect.
        fds.reconnected(fd);
        fds.forget(fd);
        assert!(!fds.is_still(fd, Some(1)));
        assert_eq!(fds.known(fd, 0), Known::Nothing);
    }
    fds.made(4, 9);
    assert!(!fds.is_socket(4), "beyond the table");
}

#[test]
fn a_number_that_is_something_else_by_now_is_forgotten() {
    let fds = Fds::<4>::new();
    fds.made(2, 100);
    assert!(fds.is_still(2, Some(100)) && fds.is_socket(2));
    for other in [Some(101), None] {
        fds.made(2, 100);
        assert!(!fds.is_still(2, other));
        assert!(!fds.is_socket(2));
    }
}

#[test]
fn a_peer_is_known_until_the_socket_is_connected_again() {
    let fds = Fds::<4>::new();
    fds.made(1, 100);
    assert_eq!(fds.known(1, 7), Known::Socket);
    fds.connected(1, 7, true);
    assert_eq!(fds.known(1, 7), Known::ToDestination);
    fds.reconnected(1);
    assert_eq!(fds.known(1, 7), Known::Socket);
    fds.connected(1, 7, false);
    assert_eq!(fds.known(1, 7), Known::Elsewhere);
    // A child's channel may lead elsewhere.
    assert_eq!(fds.known(1, 8), Known::Socket);
}

#[test]
fn a_copy_is_the_same_socket() {
    let fds = Fds::<8>::new();
    fds.made(1, 100);
    fds.connected(1, 7, true);
    fds.copied(1, 5);
    assert_eq!(fds.known(5, 7), Known::Socket);
    assert!(fds.is_still(5, Some(100)));
    // A copy of another file replaces a socket.
    fds.copied(0, 5);
    assert_eq!(fds.known(5, 7), Known::Nothing);
    fds.copied(1, -1);
}
