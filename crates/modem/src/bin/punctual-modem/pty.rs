//! A pseudo-terminal with a name of our choice, and the transfer of bytes between it and a modem.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use punctual_frontend::exit::Failure;
use punctual_model::Instant;
use punctual_modem::station::Station;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

/// The master side of a tty. Dropping it removes the link to the tty.
pub(crate) struct Pty {
    ours: OwnedFd,
    tty: String,
    link: PathBuf,
}

impl Pty {
    /// Creates a tty, and a link to it with that name. An existing file is left alone, unless it is
    /// a link to a tty that is gone.
    pub(crate) fn open(link: &Path) -> Result<Self, Failure> {
        let cannot = |what: &str, why: io::Error| {
            Failure::cannot_here(format!("{}: {what}: {why}", link.display()))
        };
        let dangling = fs::read_link(link).is_ok_and(|to| to.starts_with("/dev/pts"))
            && !fs::exists(link).unwrap_or(true);
        if dangling {
            fs::remove_file(link).map_err(|why| cannot("an old link cannot be replaced", why))?;
        }
        let (ours, tty) =
            tty().map_err(|why| cannot("no pseudo-terminal is to be had", why.into()))?;
        std::os::unix::fs::symlink(&tty, link).map_err(|why| {
            Failure::bad_input(format!(
                "{}: {why}; name a place where a link can be made",
                link.display()
            ))
        })?;
        Ok(Self { ours, tty, link: link.into() })
    }

    /// Returns the tty's own name.
    pub(crate) fn tty(&self) -> &str {
        &self.tty
    }
}

impl Drop for Pty {
    fn drop(&mut self) {
        if fs::read_link(&self.link).is_ok_and(|to| to == Path::new(&self.tty)) {
            // There is no caller left to report an error to.
            let _ = fs::remove_file(&self.link);
        }
    }
}

fn tty() -> rustix::io::Result<(OwnedFd, String)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let tty = ptsname(&ours, Vec::new())?.to_string_lossy().into_owned();
    // A modem's tty passes bytes unchanged: the modem echoes, not the kernel.
    let mut settings = tcgetattr(&ours)?;
    settings.make_raw();
    tcsetattr(&ours, OptionalActions::Now, &settings)?;
    let flags = rustix::fs::fcntl_getfl(&ours)?;
    rustix::fs::fcntl_setfl(&ours, flags | OFlags::NONBLOCK)?;
    Ok((ours, tty))
}

/// A tty and the bytes that wait on either side of it.
pub(crate) struct Terminal {
    pty: Pty,
    /// Bytes read from the tty and not yet taken by the modem.
    typed: Vec<u8>,
    /// Bytes from the modem and not yet taken by the tty.
    said: Vec<u8>,
    is_open: bool,
}

/// The largest number of bytes read or written at once: as many as a line moves in many periods.
const PIECE: usize = 512;

impl Terminal {
    pub(crate) fn new(pty: Pty) -> Self {
        Self { pty, typed: Vec::new(), said: Vec::new(), is_open: false }
    }

    pub(crate) fn pty(&self) -> &Pty {
        &self.pty
    }

    /// Moves bytes both ways, as far as possible without waiting.
    pub(crate) fn serve(&mut self, now: Instant, station: &mut Station) -> io::Result<()> {
        let is_open = self.is_opened()?;
        let was_open = std::mem::replace(&mut self.is_open, is_open);
        // Input typed before the tty was closed is still executed.
        if self.typed.is_empty() {
            self.read()?;
        }
        let taken = station.terminal(now, &self.typed);
        self.typed.drain(..taken);
        if was_open && !self.is_open {
            self.typed.clear();
            self.said.clear();
            station.terminal_gone(now);
        }
        self.write(station)
    }

    fn is_opened(&self) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.pty.ours, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        Ok(!fds[0].revents().contains(PollFlags::HUP))
    }

    fn read(&mut self) -> io::Result<()> {
        let mut piece = [0; PIECE];
        match rustix::io::read(&self.pty.ours, &mut piece) {
            Ok(count) => self.typed.extend(&piece[..count]),
            // No input, or no program has the tty open.
            Err(Errno::AGAIN | Errno::INTR | Errno::IO) => {}
            Err(why) => return Err(why.into()),
        }
        Ok(())
    }

    fn write(&mut self, station: &mut Station) -> io::Result<()> {
        let mut piece = [0; PIECE];
        loop {
            if self.said.is_empty() {
                // Output to a closed tty is discarded, so that a later client does not find it.
                let count = station.take_output(&mut piece);
                if count == 0 {
                    return Ok(());
                }
                if !self.is_open {
                    continue;
                }
                self.said.extend(&piece[..count]);
            }
            match rustix::io::write(&self.pty.ours, &self.said) {
                Ok(count) => drop(self.said.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR | Errno::IO) => return Ok(()),
                Err(why) => return Err(why.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests;
