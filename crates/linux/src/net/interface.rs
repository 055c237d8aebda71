//! Network interfaces of the calling thread's namespace.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use thiserror::Error;

/// IFNAMSIZ with its final zero (netdevice(7)).
const NAME: usize = 16;

/// The reason an interface's state is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InterfaceError {
    /// ENODEV.
    #[error(
        "there is no interface {name} in this network namespace: `ip link` shows those there are"
    )]
    None {
        /// Its name.
        name: String,
    },
    /// Any other error.
    #[error("{call} failed: {errno}")]
    Failed {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
}

/// The state of an interface when it was read; [`super::watch`] reports changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// The longest packet in bytes, IP's header included.
    pub mtu: u32,
    /// True if it is administratively up (IFF_UP).
    pub up: bool,
    /// True if it has a carrier: a peer at the other end of the cable (IFF_RUNNING).
    pub carrier: bool,
}

impl Interface {
    /// Reads the state of an interface.
    ///
    /// # Errors
    /// If there is none of that name.
    ///
    /// ```
    /// use punctual_linux::net::interface::Interface;
    ///
    /// assert_eq!(Interface::named("lo")?.index, 1);
    /// assert!(Interface::named("no such").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn named(name: &str) -> Result<Self, InterfaceError> {
        let socket = any_socket()?;
        let none = || InterfaceError::None { name: name.to_owned() };
        let index = rustix::net::netdevice::name_to_index(&socket, name).map_err(|_| none())?;
        let mut request = Request::of(name).ok_or_else(none)?;
        request.ioctl(&socket, libc::SIOCGIFMTU)?;
        let mtu = u32::from_ne_bytes(request.first());
        request.ioctl(&socket, libc::SIOCGIFFLAGS)?;
        let [low, high, ..] = request.first();
        let flags = i32::from(u16::from_ne_bytes([low, high]));
        let is = |flag| flags & flag != 0;
        let (up, carrier) = (is(libc::IFF_UP), is(libc::IFF_RUNNING));
        Ok(Self { name: name.to_owned(), index, mtu, up, carrier })
    }

    /// Brings it up, or down.
    ///
    /// # Errors
    /// Without CAP_NET_ADMIN, or if it is gone.
    pub fn set_up(&self, up: bool) -> Result<(), InterfaceError> {
        let socket = any_socket()?;
        let none = || InterfaceError::None { name: self.name.clone() };
        let mut request = Request::of(&self.name).ok_or_else(none)?;
        request.ioctl(&socket, libc::SIOCGIFFLAGS)?;
        // IFF_UP is in the lowest byte.
        let [low, high, ..] = request.first();
        let others = u16::from_ne_bytes([low, high]) & !(libc::IFF_UP as u16);
        let flags = if up { others | libc::IFF_UP as u16 } else { others };
        request.bytes[NAME..NAME + 2].copy_from_slice(&flags.to_ne_bytes());
        request.ioctl(&socket, libc::SIOCSIFFLAGS)
    }

    /// Returns the name of its driver, as `ethtool -i` shows it; `None` if the driver does not
    /// report one.
    ///
    /// # Errors
    /// If it is gone.
    pub fn driver(&self) -> Result<Option<String>, InterfaceError> {
        let socket = any_socket()?;
        let none = || InterfaceError::None { name: self.name.clone() };
        let mut request = Request::of(&self.name).ok_or_else(none)?;
        let mut answer = DriverInfo { words: [0; DRIVER_INFO] };
        answer.words[0] = ETHTOOL_GDRVINFO;
        let at = (&raw mut answer).expose_provenance();
        request.bytes[NAME..NAME + size_of::<usize>()].copy_from_slice(&at.to_ne_bytes());
        match request.ioctl(&socket, libc::SIOCETHTOOL) {
            Ok(()) => {}
            Err(InterfaceError::Failed { errno: Errno::OPNOTSUPP, .. }) => return Ok(None),
            Err(why) => return Err(why),
        }
        let name: Vec<u8> = answer.words[1..9].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        Ok(Some(String::from_utf8_lossy(&name[..end]).into_owned()))
    }
}

/// The command that reads the driver's name (linux/ethtool.h).
const ETHTOOL_GDRVINFO: u32 = 3;

/// The length of `ethtool_drvinfo` in words (linux/ethtool.h): the command, then the driver's name
/// in 32 bytes.
const DRIVER_INFO: usize = 49;

#[repr(C)]
struct DriverInfo {
    words: [u32; DRIVER_INFO],
}

/// Opens a socket for requests about interfaces; any socket would do.
fn any_socket() -> Result<OwnedFd, InterfaceError> {
    rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| InterfaceError::Failed { call: "socket(2)", errno })
}

/// `ifreq` (netdevice(7)): a name and the request's data; 40 bytes on 64-bit hosts, fewer
/// elsewhere.
#[repr(C, align(8))]
struct Request {
    bytes: [u8; 40],
}

impl Request {
    fn of(name: &str) -> Option<Self> {
        let mut bytes = [0; 40];
        bytes.get_mut(..NAME - 1)?.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(Self { bytes })
    }

    /// Returns the first four bytes of the data.
    fn first(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.bytes[NAME..] else { return [0; 4] };
        [a, b, c, d]
    }

    fn ioctl(&mut self, socket: &impl AsFd, what: libc::c_ulong) -> Result<(), InterfaceError> {
        let fd = socket.as_fd().as_raw_fd();
        // SAFETY: these requests read and write one `ifreq`, which is at most as long as `bytes`
        // and aligned no more strictly. The request of `driver` also writes to the address in it: a
        // whole `ethtool_drvinfo` that outlives the call and whose address was exposed.
        if unsafe { libc::ioctl(fd, what as _, self.bytes.as_mut_ptr()) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        Err(InterfaceError::Failed { call: "ioctl of an interface", errno })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_no_driver_name() {
        let lo = Interface::named("lo").expect("always there");
        assert_eq!(lo.driver(), Ok(None));
    }
}
