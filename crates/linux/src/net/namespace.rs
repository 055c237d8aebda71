//! Network namespaces without names (network_namespaces(7)): a network of one's own in which to try
//! what would disturb the host's. It ends, with its interfaces, when its last descriptor, thread and
//! socket do, however they end; so nothing can be left behind.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic;
use std::thread;

use rustix::io::Errno;
use rustix::thread::LinkNameSpaceType;
use thiserror::Error;

use super::interface::{Interface, InterfaceError};
use super::raw;

/// Why there is no namespace, or no way into it.
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
    /// Its loopback could not be taken up.
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
    /// Makes one with nothing but a loopback, which is up. Takes some milliseconds.
    ///
    /// # Errors
    /// Mostly for want of privilege.
    pub fn make() -> Result<Self, NamespaceError> {
        // The thread that makes it is in it, and no other thread of this process is.
        let made = spawned(|| {
            raw::unshare_network().map_err(NamespaceError::of)?;
            let fd = open_current()?;
            Interface::named("lo")?.set_up(true)?;
            Ok(Self { fd })
        });
        made.unwrap_or_else(|errno| Err(NamespaceError::Thread(errno)))
    }

    /// That of the calling thread.
    ///
    /// # Errors
    /// If /proc is not mounted.
    pub fn current() -> Result<Self, NamespaceError> {
        Ok(Self { fd: open_current()? })
    }

    /// Moves the calling thread into it, and the processes that it starts from here on. Sockets stay
    /// where they were opened.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN.
    pub fn enter(&self) -> Result<(), NamespaceError> {
        rustix::thread::move_into_link_name_space(self.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(NamespaceError::of)
    }

    /// Runs `work` inside, on a thread of its own that ends with it; a panic is passed on.
    ///
    /// # Errors
    /// `work` did not run: no thread, or no privilege.
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

/// On a thread of its own: the caller's namespace does not change.
fn spawned<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Errno> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("network".to_owned()).spawn_scoped(scope, work);
        let thread =
            thread.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        Ok(thread.join().unwrap_or_else(|panicked| panic::resume_unwind(panicked)))
    })
}
