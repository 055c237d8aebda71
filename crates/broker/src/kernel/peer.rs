//! The process at the other end of a socket.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;

use nix::sys::socket::{getsockopt, sockopt};
pub use punctual_linux::process::{parse_start, start_of};
use punctual_linux::procfs;
use punctual_linux::thread::Tid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use thiserror::Error;

use crate::ledger::ProcessId;

/// A process that is alive, or that has ended while its id still belongs to it.
#[derive(Debug)]
pub struct Process {
    /// Distinguishes it from a later process with the same id.
    pub id: ProcessId,
    /// Readable once the process has ended (pidfd_open(2)).
    pidfd: OwnedFd,
}

/// The reason why the process at the other end is not known.
#[derive(Debug, Error)]
pub enum PeerError {
    /// It has ended, or nothing can be read about it.
    #[error("the broker cannot identify the client: {0}")]
    Unknown(#[from] io::Error),
    /// One user can have many ids there.
    #[error(
        "process {pid} is in another user namespace than the broker, where one user can go by many \
         ids, so no quota would hold: ask from outside of it"
    )]
    OtherNamespace {
        /// The process that connected.
        pid: i32,
    },
}

impl From<Errno> for PeerError {
    fn from(errno: Errno) -> Self {
        Self::Unknown(errno.into())
    }
}

/// A process and its user.
#[derive(Debug)]
pub struct Peer {
    /// The process.
    pub process: Process,
    /// The effective user when it connected.
    pub uid: u32,
    /// All its groups, the effective one first.
    pub gids: Vec<u32>,
}

impl Peer {
    /// Returns the process that connected `socket`, as the kernel states it (SO_PEERCRED and
    /// SO_PEERPIDFD, unix(7)): the client's own statement counts for nothing.
    ///
    /// Only a process in the broker's own user namespace is accepted, as far as /proc/PID/uid_map
    /// tells (user_namespaces(7)).
    pub fn of(socket: impl AsFd) -> Result<Self, PeerError> {
        let credentials = rustix::net::sockopt::socket_peercred(&socket)?;
        let pid = credentials.pid;
        let pidfd = match getsockopt(&socket, sockopt::PeerPidfd) {
            Ok(pidfd) => pidfd,
            // Before Linux 6.5 there is no SO_PEERPIDFD. Between connect(2) and here the id may
            // have passed to another process. Then the owner of /proc/PID, compared below, is very
            // likely another user; but a process that starts with our user's id can get what that
            // user may have.
            Err(nix::errno::Errno::ENOPROTOOPT) => pidfd_open(pid, PidfdFlags::empty())?,
            Err(other) => return Err(io::Error::from(other).into()),
        };
        let raw = pid.as_raw_nonzero().get();
        let start = start_of(raw, raw).ok_or_else(gone)?;
        let status = procfs::text(format!("/proc/{raw}/status"))?;
        let process = Process { id: ProcessId { pid: raw, start }, pidfd };
        let same_users = has_our_users(raw)?;
        // Only now it is certain that what was read belongs to this process.
        if process.has_ended() {
            return Err(gone().into());
        }
        if !same_users {
            return Err(PeerError::OtherNamespace { pid: raw });
        }
        let mut gids = vec![credentials.gid.as_raw()];
        gids.extend(groups(&status));
        Ok(Self { process, uid: credentials.uid.as_raw(), gids })
    }
}

impl Peer {
    /// Returns the living process with this identity, its effective user and its groups, for a
    /// connection that asks on its behalf.
    pub fn find(id: ProcessId) -> Result<Self, PeerError> {
        let process = Process::find(id).ok_or_else(gone)?;
        let status = procfs::text(format!("/proc/{}/status", id.pid))?;
        let same_users = has_our_users(id.pid)?;
        let (uids, mut gids) = (ids(&status, "Uid:"), ids(&status, "Gid:"));
        // Only now it is certain that what was read belongs to this process.
        if process.has_ended() {
            return Err(gone().into());
        }
        if !same_users {
            return Err(PeerError::OtherNamespace { pid: id.pid });
        }
        let (Some(&uid), true) = (uids.get(1), gids.len() > 1) else { return Err(gone().into()) };
        gids = vec![gids[1]];
        gids.extend(groups(&status));
        Ok(Self { process, uid, gids })
    }
}

fn gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "the process has ended")
}

/// Returns whether the process is in our user namespace.
pub(super) fn has_our_users(pid: i32) -> io::Result<bool> {
    let map = |of: &str| procfs::text(format!("/proc/{of}/uid_map"));
    Ok(map(&pid.to_string())? == map("self")?)
}

/// Returns the real, effective, saved and file system user in /proc/PID/status.
pub fn users(status: &str) -> Vec<u32> {
    ids(status, "Uid:")
}

/// Returns the supplementary groups in /proc/PID/status.
pub fn groups(status: &str) -> Vec<u32> {
    ids(status, "Groups:")
}

fn ids(status: &str, of: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix(of)).unwrap_or("");
    line.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

impl Process {
    /// Returns the process with this identity, if it is still alive.
    pub fn find(id: ProcessId) -> Option<Self> {
        let pidfd = pidfd_open(Pid::from_raw(id.pid)?, PidfdFlags::empty()).ok()?;
        let process = Self { id, pidfd };
        // In this order: while the pidfd's process is alive, its id belongs to it.
        let same = start_of(id.pid, id.pid) == Some(id.start);
        (same && !process.has_ended()).then_some(process)
    }

    /// Returns whether the process has ended (all its threads).
    pub fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An error can only be a lack of memory: then the caller asks again later.
        poll(&mut fds, Some(&now)).is_ok_and(|ready| ready > 0)
    }

    /// Returns whether the process runs as this user alone: a setuid program of another user, or a
    /// process that has changed its user, does not.
    pub fn belongs_to(&self, uid: u32) -> bool {
        let status = procfs::text(format!("/proc/{}/status", self.id.pid));
        status.is_ok_and(|status| users(&status) == [uid; 4]) && !self.has_ended()
    }

    /// Returns the start of `thread`, if it is a thread of this process.
    pub fn thread_start(&self, thread: Tid) -> Option<u64> {
        self.thread(thread).map(|found| found.start)
    }

    /// Returns `thread`, if it is a thread of this process.
    pub fn thread(&self, thread: Tid) -> Option<Thread> {
        let found = Thread::open(self.id.pid, thread.as_raw())?;
        (!self.has_ended()).then_some(found)
    }

    /// Returns whether a thread of this process has not ended.
    pub fn still_has(&self, thread: &Thread) -> bool {
        thread.stat.read_at(&mut [0], 0).is_ok_and(|length| length > 0) && !self.has_ended()
    }
}

impl AsFd for Process {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// A thread, which may have ended.
///
/// Its file of /proc stays open. It belongs to this thread for ever: it cannot be read when the
/// thread has ended, even if another one has got its id. Reading it again saves opening it.
#[derive(Debug)]
pub struct Thread {
    /// Its start, in clock ticks since the boot.
    pub start: u64,
    stat: File,
}

impl Thread {
    fn open(pid: i32, thread: i32) -> Option<Self> {
        let stat = File::open(format!("/proc/{pid}/task/{thread}/stat")).ok()?;
        // The 22 fields up to the start have fewer bytes, and come in one piece.
        let mut text = [0; 1024];
        let length = stat.read_at(&mut text, 0).ok()?;
        let start = parse_start(&String::from_utf8_lossy(&text[..length]))?;
        Some(Self { start, stat })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_linux::thread;

    #[test]
    fn we_are_found_and_others_threads_are_not_ours() {
        let pid = std::process::id() as i32;
        let start = start_of(pid, pid).expect("we live");
        let us = Process::find(ProcessId { pid, start }).expect("we live");
        assert!(us.thread_start(thread::current()).is_some());
        assert_eq!(us.thread_start(Tid::from_raw(1).expect("init")), None);
        assert!(Process::find(ProcessId { pid, start: start + 1 }).is_none());
    }

    #[test]
    fn an_ended_thread_is_known_to_have_ended() {
        let pid = std::process::id() as i32;
        let start = start_of(pid, pid).expect("we live");
        let us = Process::find(ProcessId { pid, start }).expect("we live");
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            tell.send(thread::current()).expect("waited for");
            let _ = ended.recv();
        });
        let seen = us.thread(told.recv().expect("it says")).expect("it lives");
        assert!(us.still_has(&seen));
        drop(end);
        other.join().expect("no panic");
        // The kernel may take a moment to remove it.
        while us.still_has(&seen) {
            punctual_linux::clock::sleep(punctual_model::Duration::from_millis(1));
        }
    }

    #[test]
    fn an_ended_process_is_known_to_have_ended() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = child.id() as i32;
        let start = start_of(pid, pid).expect("it lives");
        let process = Process::find(ProcessId { pid, start }).expect("it lives");
        assert!(!process.has_ended());
        child.kill().expect("our child");
        child.wait().expect("our child");
        assert!(process.has_ended());
        assert!(Process::find(ProcessId { pid, start }).is_none());
    }

    #[test]
    fn a_process_belongs_to_a_user_only_with_all_its_ids() {
        assert_eq!(users("Name:\tx\nUid:\t1000\t0\t0\t0\n"), [1_000, 0, 0, 0]);
        let pid = std::process::id() as i32;
        let us = Process::find(ProcessId { pid, start: start_of(pid, pid).expect("we live") });
        let us = us.expect("we live");
        let uid = rustix::process::geteuid().as_raw();
        assert!(us.belongs_to(uid) && !us.belongs_to(uid + 1));
    }

    #[test]
    fn another_user_namespace_is_seen() {
        assert!(has_our_users(std::process::id() as i32).expect("we live"));
        let child = std::process::Command::new("unshare").args(["-U", "sleep", "60"]).spawn();
        let Ok(mut child) = child else { return println!("skipped: there is no unshare(1)") };
        let pid = child.id() as i32;
        let (mut seen, mut ended) = (false, None);
        for _ in 0..500 {
            ended = child.try_wait().expect("our child");
            seen = ended.is_none() && !has_our_users(pid).unwrap_or(true);
            if seen || ended.is_some() {
                break;
            }
            punctual_linux::clock::sleep(punctual_model::Duration::from_millis(10));
        }
        let _ = child.kill();
        let _ = child.wait();
        if ended.is_some() {
            return println!("skipped: this host lets nobody make a user namespace");
        }
        assert!(seen);
    }

    #[test]
    fn a_peer_that_is_named_is_as_the_one_that_connects() {
        let pid = std::process::id() as i32;
        let start = start_of(pid, pid).expect("we live");
        let named = Peer::find(ProcessId { pid, start }).expect("we live");
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let connected = Peer::of(&ours).expect("we live");
        assert_eq!(named.process.id, connected.process.id);
        assert_eq!((named.uid, named.gids), (connected.uid, connected.gids));
        assert!(Peer::find(ProcessId { pid, start: start + 1 }).is_err());
    }

    #[test]
    fn groups_are_read() {
        assert_eq!(groups("Name:\tx\nGroups:\t4 24 1000 \nMore:\t7"), [4, 24, 1_000]);
        assert_eq!(groups("Groups:\t \n"), Vec::<u32>::new());
    }
}
