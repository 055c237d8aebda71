//! The process whose thread is to be changed, and the user who asks.
//!
//! The bus states who asks. Until the bus also pins that process, its id is only a number, so
//! everything that is read about it counts only if the process is then still the same.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use punctual_client::wire::Holder;
use punctual_linux::process::start_of;
use punctual_linux::procfs;
use punctual_linux::thread::Tid;
use punctual_model::text_file::printable;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use zbus::Connection;
use zbus::fdo::{ConnectionCredentials, Error};
use zbus::message::Header;
use zbus::names::UniqueName;

/// A process that is alive, or that has ended while its id still belongs to it.
#[derive(Debug)]
pub(crate) struct Process {
    /// Distinguishes it from a later process with the same id.
    pub(crate) holder: Holder,
    /// Its effective user.
    pub(crate) uid: u32,
    /// Its name, of printable characters (proc_pid_comm(5)). The process may change it.
    pub(crate) comm: String,
    pidfd: OwnedFd,
}

impl Process {
    /// Returns the process that has this id now.
    ///
    /// # Errors
    /// If it has ended, or nothing can be read about it.
    pub(crate) fn open(pid: i32) -> io::Result<Self> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "the process has ended");
        let id = Tid::from_raw(pid).and_then(|id| Pid::from_raw(id.as_raw())).ok_or_else(gone)?;
        let pidfd = pidfd_open(id, PidfdFlags::empty())?;
        let start = start_of(pid, pid).ok_or_else(gone)?;
        let status = procfs::text(format!("/proc/{pid}/status"))?;
        let comm = procfs::text(format!("/proc/{pid}/comm"))?;
        let process = Self {
            holder: Holder { pid, start },
            uid: effective_uid(&status).ok_or_else(gone)?,
            comm: printable(comm.trim_end_matches('\n')).clone(),
            pidfd,
        };
        // While the pidfd's process is alive, its id belongs to it.
        if process.has_ended() { Err(gone()) } else { Ok(process) }
    }

    /// Returns whether all its threads have ended.
    pub(crate) fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An error can only be a lack of memory: then the caller asks again later.
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Returns the start of `thread`, if it is a thread of this process.
    pub(crate) fn thread_start(&self, thread: Tid) -> Option<u64> {
        let start = start_of(self.holder.pid, thread.as_raw())?;
        (!self.has_ended()).then_some(start)
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Returns the effective user in /proc/PID/status.
fn effective_uid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the process that sent a message or, if `named`, the one that it names, which must run as
/// the sender's user.
///
/// # Errors
/// `UnixProcessIdUnknown` if the process is gone, `AccessDenied` if it is another user's.
pub(crate) async fn of(
    bus: &Connection,
    header: &Header<'_>,
    named: Option<u64>,
) -> Result<Process, Error> {
    let sender = sender_in(header)?;
    let credentials = credentials(bus, sender).await?;
    let uid = user_of(&credentials)?;
    let process = match named {
        Some(pid) => opened(i32::try_from(pid).unwrap_or(-1), pid)?,
        None => sender_of(bus, sender, &credentials).await?,
    };
    if process.uid != uid {
        return Err(Error::AccessDenied(format!(
            "process {} runs as user {}, and you are user {uid}: ask as its own user",
            process.holder.pid, process.uid
        )));
    }
    Ok(process)
}

/// Checks that a message comes from root or from this service's own user.
///
/// # Errors
/// `AccessDenied` if it does not.
pub(crate) async fn check_administrator(
    bus: &Connection,
    header: &Header<'_>,
) -> Result<(), Error> {
    let uid = user_of(&credentials(bus, sender_in(header)?).await?)?;
    if uid == 0 || uid == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    Err(Error::AccessDenied(format!("you are user {uid}, and only root may ask this")))
}

fn sender_in<'a>(header: &'a Header<'_>) -> Result<&'a UniqueName<'a>, Error> {
    header.sender().ok_or_else(|| Error::Failed("a message without sender".into()))
}

fn user_of(credentials: &ConnectionCredentials) -> Result<u32, Error> {
    let uid = credentials.unix_user_id();
    uid.ok_or_else(|| Error::AuthFailed("the bus does not know your user".into()))
}

/// Returns the process that connected to the bus as `sender`.
async fn sender_of(
    bus: &Connection,
    sender: &UniqueName<'_>,
    first: &ConnectionCredentials,
) -> Result<Process, Error> {
    let unknown = || Error::UnixProcessIdUnknown("the bus does not know your process".into());
    let id = first.process_id().ok_or_else(unknown)?;
    let process = opened(i32::try_from(id).unwrap_or(-1), id.into())?;
    // The id still belonged to the sender when the process was opened if the sender has not ended by
    // now. A bus that pins the sender states that for certain (ProcessFD, since dbus 1.15.8); with
    // others it follows from a connection that is still open, unless a child has inherited it.
    let is_alive = match first.process_fd() {
        Some(pidfd) => {
            let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ended| ended == 0)
        }
        None => credentials(bus, sender).await?.process_id() == Some(id),
    };
    if is_alive { Ok(process) } else { Err(unknown()) }
}

async fn credentials(
    bus: &Connection,
    of: &UniqueName<'_>,
) -> Result<ConnectionCredentials, Error> {
    const BUS: &str = "org.freedesktop.DBus";
    let answer = bus
        .call_method(Some(BUS), "/org/freedesktop/DBus", Some(BUS), "GetConnectionCredentials", of)
        .await?;
    Ok(answer.body().deserialize()?)
}

fn opened(pid: i32, shown: u64) -> Result<Process, Error> {
    Process::open(pid).map_err(|why| {
        let why = format!("there is no process {shown} that this service can see: {why}");
        Error::UnixProcessIdUnknown(why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn we_are_found_and_the_ended_are_not() {
        let us = Process::open(std::process::id() as i32).expect("we live");
        assert_eq!(us.uid, rustix::process::geteuid().as_raw());
        assert!(!us.comm.is_empty() && !us.has_ended());
        assert!(us.thread_start(punctual_linux::thread::current()).is_some());
        assert_eq!(us.thread_start(Tid::from_raw(1).expect("init")), None);
        let mut child = std::process::Command::new("true").spawn().expect("true");
        let pid = child.id() as i32;
        child.wait().expect("our child");
        for pid in [pid, 0, -1] {
            assert!(Process::open(pid).is_err(), "{pid}");
        }
    }

    #[test]
    fn the_effective_user_is_the_second() {
        assert_eq!(effective_uid("Name:\tx\nUid:\t1000\t7\t0\t0\n"), Some(7));
        assert_eq!(effective_uid("Name:\tx\n"), None);
    }
}
