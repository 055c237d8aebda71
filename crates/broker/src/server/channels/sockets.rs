//! The sockets by which channels send.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use punctual_linux::net::{OpenError, Setup, UdpSocket};
use punctual_model::channel::Framing;

use punctual_client::want::WantedChannel;

/// The sockets that several channels may share.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    shared: BTreeMap<Key, Weak<UdpSocket>>,
}

/// The user, the destination, and whether a bound is promised: so that no channel waits for room
/// behind another user's, nor behind best effort.
type Key = (u32, SocketAddr, bool);

impl Sockets {
    /// Returns a socket for a channel. Fragments name their channel, so those of one user share a
    /// socket; a datagram is distinguished from another channel's only by its port, so that channel
    /// has its own.
    pub(super) fn to(
        &mut self,
        uid: u32,
        want: &WantedChannel,
        setup: &Setup,
    ) -> Result<Arc<UdpSocket>, OpenError> {
        if want.framing == Framing::Datagram {
            return UdpSocket::open(setup).map(Arc::new);
        }
        let shared = self.shared.entry(key(uid, want)).or_default();
        if let Some(socket) = shared.upgrade() {
            return Ok(socket);
        }
        let socket = Arc::new(UdpSocket::open(setup)?);
        *shared = Arc::downgrade(&socket);
        Ok(socket)
    }

    /// Forgets a closed channel.
    pub(super) fn forget(&mut self, uid: u32, want: &WantedChannel) {
        let key = key(uid, want);
        if self.shared.get(&key).is_some_and(|socket| socket.strong_count() == 0) {
            self.shared.remove(&key);
        }
    }
}

fn key(uid: u32, want: &WantedChannel) -> Key {
    (uid, want.address, want.delay_bound.is_some())
}

#[cfg(test)]
mod tests {
    use punctual_model::Duration;
    use punctual_model::channel::LinearBounded;

    use super::*;

    #[test]
    fn only_fragments_of_one_user_to_one_destination_share_a_socket() {
        let to = "127.0.0.1:9".parse().expect("an address");
        let setup = Setup::to(to);
        let second = Duration::from_secs(1);
        let arrivals = LinearBounded::fixed(64, second, 1).expect("valid");
        let datagrams = WantedChannel::sending("d", arrivals, Some(second), to);
        let fragments = WantedChannel { framing: Framing::Fragments, ..datagrams.clone() };
        let best_effort = WantedChannel { delay_bound: None, ..fragments.clone() };
        let elsewhere = WantedChannel {
            address: "127.0.0.1:10".parse().expect("an address"),
            ..fragments.clone()
        };
        let mut sockets = Sockets::default();
        let mut open = |uid, want| sockets.to(uid, want, &setup).expect("a socket");
        let first = open(1, &fragments);
        assert!(Arc::ptr_eq(&first, &open(1, &fragments)));
        for (uid, other) in [(1, &datagrams), (1, &best_effort), (1, &elsewhere), (2, &fragments)] {
            assert!(!Arc::ptr_eq(&first, &open(uid, other)), "{other:?}");
        }
        assert!(!Arc::ptr_eq(&open(1, &datagrams), &open(1, &datagrams)));
        sockets.forget(1, &fragments);
        assert!(sockets.shared.contains_key(&key(1, &fragments)), "it is open");
        drop(first);
        sockets.forget(1, &fragments);
        assert!(!sockets.shared.contains_key(&key(1, &fragments)));
    }
}
