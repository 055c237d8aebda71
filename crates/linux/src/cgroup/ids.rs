//! Lists of ids as the kernel writes them: one a line.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::Path;

use super::CgroupError;
use crate::thread::Tid;

pub(super) fn ids(path: &Path) -> Vec<i32> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| line.trim().parse().ok()).collect()
}

/// A list of ids that can be read repeatedly without allocation.
#[derive(Debug)]
pub struct IdList {
    file: File,
}

impl IdList {
    /// Opens a file such as [`Group::threads_file`](super::Group::threads_file).
    pub fn open(path: &Path) -> Result<Self, CgroupError> {
        let file = File::open(path).map_err(CgroupError::file("opening", path))?;
        Ok(Self { file })
    }

    /// Reads the list into `buffer` and passes the ids one by one. If `buffer` is too small for
    /// all, further calls of read(2) follow; no id is lost.
    pub fn each(&self, buffer: &mut [u8], mut with: impl FnMut(Tid)) -> io::Result<()> {
        rustix::fs::seek(self.file.as_fd(), rustix::fs::SeekFrom::Start(0))?;
        let mut file = &self.file;
        let mut ids = Ids::default();
        loop {
            let read = file.read(buffer)?;
            if read == 0 {
                return Ok(());
            }
            ids.take(&buffer[..read], &mut with);
        }
    }
}

/// A parser of such a list in pieces of any length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ids {
    /// The number that the digits of the current line give so far; `None` if it is too large or
    /// there is none yet.
    id: Option<i32>,
    is_other: bool,
}

impl Ids {
    /// Passes the ids of the lines that end in `piece`. Skips lines that are not an id.
    pub fn take(&mut self, piece: &[u8], mut with: impl FnMut(Tid)) {
        for byte in piece {
            match byte {
                b'0'..=b'9' => {
                    let digit = i32::from(byte - b'0');
                    let id = self.id.unwrap_or(0).checked_mul(10);
                    self.id = id.and_then(|id| id.checked_add(digit));
                    self.is_other |= self.id.is_none();
                }
                b'\n' => {
                    let Self { id, is_other } = std::mem::take(self);
                    if let Some(tid) = id.filter(|_| !is_other).and_then(Tid::from_raw) {
                        with(tid);
                    }
                }
                _ => self.is_other = true,
            }
        }
    }
}
