//! Makes the open files that a drawn action uses.

use std::fs;
use std::io::Error;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::time::Duration as Time;

use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};

use super::action::File;
use crate::hostile::calls::user_fault;
use crate::hostile::files::Lingering;
use crate::hostile::raw::{self, Raw};

/// How long the last close of a lingering socket takes: longer than any answer may.
const LINGER: Time = Time::from_secs(3);

impl File {
    /// Makes a file, and the descriptors that must stay open for it to do harm.
    pub(super) fn make(
        self,
        socket: &Path,
        shared: Option<&OwnedFd>,
    ) -> std::io::Result<(OwnedFd, Option<OwnedFd>)> {
        let file = match self {
            Self::Lingering => {
                let (file, peer) = Lingering::new(LINGER)?.into_parts();
                return Ok((file, Some(peer)));
            }
            Self::Nested => {
                let (inner, peer) = Lingering::new(LINGER)?.into_parts();
                let stream = SocketType::STREAM;
                let flags = SocketFlags::CLOEXEC;
                let (ours, theirs) = socketpair(AddressFamily::UNIX, stream, flags, None)?;
                raw::send(&ours, &[1], &[inner.as_fd()])?;
                return Ok((theirs, Some(peer)));
            }
            Self::PipeReader => std::io::pipe()?.0.into(),
            Self::PipeWriter => std::io::pipe()?.1.into(),
            Self::Memory { pages, seals } => memory(pages, seals)?,
            Self::Event => eventfd(0, EventfdFlags::CLOEXEC)?,
            Self::Epoll => epoll::create(epoll::CreateFlags::CLOEXEC)?,
            Self::Directory => fs::File::open("/")?.into(),
            Self::Null => fs::File::open("/dev/null")?.into(),
            Self::Broker => Raw::connect(socket)?.as_fd().try_clone_to_owned()?,
            Self::Pidfd => pidfd_open(getpid(), PidfdFlags::empty())?,
            Self::UserFault => user_fault()?,
            Self::Timer => timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?,
            Self::Listener => TcpListener::bind("127.0.0.1:0")?.into(),
            Self::Shared => shared.ok_or_else(|| Error::other("no channel"))?.try_clone()?,
        };
        Ok((file, None))
    }
}

/// Makes a memory file of `pages` pages with these seals.
pub(super) fn memory(pages: u32, seals: u32) -> std::io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = memfd_create("hostile", flags)?;
    ftruncate(&memory, u64::from(pages) * 4_096)?;
    fcntl_add_seals(&memory, SealFlags::from_bits_retain(seals))?;
    Ok(memory)
}
