//! Network namespaces without names (network_namespaces(7)): private networks for experiments that
//! would disturb the host's. A namespace ends, with its interfaces, when its last descriptor,
//! thread and socket do, however they end, so nothing is left behind.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic;
use std::thread;

use rustix::io::Errno;
use rustix::thread::LinkNameSpaceType;
use thiserror::Error;

use super::interface::{Interface, InterfaceError};
use super::raw;

/// The reason a namespace cannot be made or entered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NamespaceError {
    /// EPERM.
    #[error("a network namespace takes CAP_SYS_ADMIN: run as root")]
    Forbidden,
    /// EINVAL, ENOSPC.
    #[error(
        "this kernel makes no network namespace ({0}): it needs CONFIG_NET_NS, and room below user.max_net_namespaces"
    )]
    Unsupported(Errno),
    /// No thread could be made, or /proc is not mounted.
    #[error("no thread could be moved into a network namespace: {0}")]
    Thread(Errno),
    /// Its loopback could not be brought up.
    #[error(transparent)]
    Loopback(#[from] InterfaceError),
}

impl NamespaceError {
    fn of(errno: Errno) -> Self {
        match errno {
            Errno::PERM | Errno::ACCESS => Self::Forbidden,
            errno => Self::Unsupported(errno),
        }
    }
}

/// A network namespace, held by a descriptor.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
}

impl Namespace {
    /// Makes a namespace with only a loopback, which is up. Takes some milliseconds.
    ///
    /// # Errors
    /// Mostly for lack of privilege.
    pub fn make() -> Result<Self, NamespaceError> {
        // The thread that makes it is in it; no other thread of this process is.
        let made = spawned(|| {
            raw::unshare_network().map_err(NamespaceError::of)?;
            let fd = open_current()?;
            Interface::named("lo")?.set_up(true)?;
            Ok(Self { fd })
        });
        made.unwrap_or_else(|errno| Err(NamespaceError::Thread(errno)))
    }

    /// Returns the namespace of the calling thread.
    ///
    /// # Errors
    /// If /proc is not mounted.
    pub fn current() -> Result<Self, NamespaceError> {
        Ok(Self { fd: open_current()? })
    }

    /// Moves the calling thread into it, with the processes that it starts from now on. Sockets
    /// stay where they were opened.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        rustix::thread::move_into_link_name_space(self.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(NamespaceError::of)
    }

    /// Runs `work` inside, on a thread of its own that ends with it; passes a panic on.
    ///
    /// # Errors
    /// If `work` did not run: no thread, or no privilege.
    ///
    /// ```
    /// use punctual_linux::net::interface::Interface;
    /// use punctual_linux::net::namespace::{Namespace, NamespaceError};
    ///
    /// match Namespace::make() {
    ///     Ok(network) => assert!(network.run(|| Interface::named("lo"))??.up),
    ///     Err(NamespaceError::Forbidden) => println!("skipped: not root"),
    ///     Err(other) => return Err(other.into()),
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NamespaceError> {
        spawned(|| self.enter().map(|()| work()))
            .unwrap_or_else(|errno| Err(NamespaceError::Thread(errno)))
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn open_current() -> Result<OwnedFd, NamespaceError> {
    let file = File::open("/proc/thread-self/ns/net");
    file.map(OwnedFd::from)
        .map_err(|error| NamespaceError::Thread(Errno::from_io_error(&error).unwrap_or(Errno::IO)))
}

/// Runs `work` on a thread of its own, so that the caller's namespace does not change.
fn spawned<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Errno> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("network".to_owned()).spawn_scoped(scope, work);
        let thread =
            thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        Ok(thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
    })
}
