//! Watches the threads of a program that another user started.
//!
//! A server counts what its group uses on one CPU, and looks at each thread when a budget begins and
//! when it ends. A program can take itself out of the first, because every thread may choose its CPUs,
//! and make the second long with many threads. Both are seen here, by a thread above the program's.

use punctual_linux::cgroup::IdList;
use punctual_linux::cgroup::freezer::Freezer;
use punctual_linux::process;
use punctual_linux::thread::{self, Tid};

use super::error::Refused;

/// The most threads of a program: a look at one takes about a microsecond, above every server.
pub const MOST_THREADS: usize = 256;

/// The way in which a program broke out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakout {
    /// A thread may run on another CPU than the server's, where nothing counts its time.
    Moved(Tid),
    /// It has more than [`MOST_THREADS`] threads.
    TooManyThreads,
}

/// The threads of a program, and the CPU to which they are confined. It allocates nothing and takes no
/// lock.
#[derive(Debug)]
pub struct Confined {
    threads: IdList,
    cpu: usize,
}

impl Confined {
    pub(super) fn to(freezer: &Freezer, cpu: usize) -> Result<Self, Refused> {
        Ok(Self { threads: IdList::open(&freezer.group().threads_file())?, cpu })
    }

    /// Returns how the program broke out, if it did. `buffer` is room to read in.
    pub fn breakout(&self, buffer: &mut [u8]) -> Option<Breakout> {
        let (mut count, mut moved) = (0, None);
        let look = |tid| {
            count += 1;
            if moved.is_none() && thread::is_pinned_to(tid, self.cpu) == Some(false) {
                moved = Some(tid);
            }
        };
        // A group that is gone has no threads.
        let _ = self.threads.each(buffer, look);
        match moved {
            Some(tid) => Some(Breakout::Moved(tid)),
            None => (count > MOST_THREADS).then_some(Breakout::TooManyThreads),
        }
    }

    /// Makes all threads ordinary ones.
    pub fn lower(&self, buffer: &mut [u8]) {
        let _ = self.threads.each(buffer, |tid| _ = process::lower(tid));
    }
}
