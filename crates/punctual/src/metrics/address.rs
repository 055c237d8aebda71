//! The address for metrics: a port on this host only, or a Unix socket.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use thiserror::Error;

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A loopback address and a port.
    Port(SocketAddr),
    /// The path of a Unix socket; its permissions decide which clients may connect.
    Path(PathBuf),
}

/// The reason why an address is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AddressError {
    /// The text is neither of the two.
    #[error("it is no address and port, such as 127.0.0.1:9464, and no path that begins with /")]
    Neither,
    /// Any host on the network could connect.
    #[error(
        "{0} is not a loopback address: metrics name users and programs, and are not encrypted; \
         listen on 127.0.0.1 or [::1], behind a proxy that authenticates its clients"
    )]
    NotLoopback(SocketAddr),
}

/// The error of listening.
#[derive(Debug, Error)]
#[error("{address}: cannot listen for metrics: {error}; choose another address")]
pub struct ListenError {
    /// The address.
    address: Address,
    /// The kernel's reason.
    #[source]
    error: io::Error,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.starts_with('/') {
            return Ok(Self::Path(text.into()));
        }
        let port: SocketAddr = text.parse().map_err(|_| AddressError::Neither)?;
        if port.ip().is_loopback() {
            Ok(Self::Port(port))
        } else {
            Err(AddressError::NotLoopback(port))
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Port(port) => port.fmt(f),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

impl Address {
    /// Binds and listens.
    ///
    /// # Errors
    /// If the address is in use or may not be used.
    pub fn listen(&self) -> Result<OwnedFd, ListenError> {
        self.bind().map_err(|error| ListenError { address: self.clone(), error })
    }

    fn bind(&self) -> io::Result<OwnedFd> {
        match self {
            Self::Port(port) => Ok(TcpListener::bind(port)?.into()),
            Self::Path(path) => {
                remove_stale_socket(path);
                let listener = UnixListener::bind(path)?;
                // The owner and the group may connect: a collector of metrics is put into that
                // group.
                fs::set_permissions(path, fs::Permissions::from_mode(0o660))?;
                Ok(listener.into())
            }
        }
    }
}

/// Removes a socket at which no process accepts any more, such as that of a killed process. Any
/// other file at the path stays.
fn remove_stale_socket(path: &Path) {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|one| one.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(refused) {
        // If it cannot be removed, bind(2) reports an error.
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_host_may_ask() {
        for good in ["127.0.0.1:9464", "127.3.2.1:1", "[::1]:9464", "/run/punctual/metrics.sock"] {
            let address: Address = good.parse().expect("good");
            assert_eq!(address.to_string(), good);
        }
        for (bad, words) in [
            ("0.0.0.0:9464", "not a loopback"),
            ("[::]:9464", "not a loopback"),
            ("192.0.2.7:80", "not a loopback"),
            ("localhost:9464", "no address and port"),
            ("9464", "no address and port"),
            ("metrics.sock", "no address and port"),
            ("", "no address and port"),
        ] {
            let why = bad.parse::<Address>().expect_err(bad).to_string();
            assert!(why.contains(words), "{bad}: {why}");
        }
    }

    #[test]
    fn a_stale_socket_is_replaced_and_no_other_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("metrics.sock");
        let address = Address::Path(path.clone());
        let first = address.listen().expect("ours");
        assert_eq!(address.bind().expect_err("it lives").kind(), io::ErrorKind::AddrInUse);
        drop(first);
        let mode = fs::metadata(&path).expect("it is left").permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        drop(address.listen().expect("a remnant"));
        fs::remove_file(&path).expect("ours");
        fs::write(&path, "a file").expect("ours");
        assert_eq!(address.bind().expect_err("no socket").kind(), io::ErrorKind::AddrInUse);
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "a file");
    }
}
