//! The processor time of a thread, from the scheduler's accounting.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use punctual_linux::thread::Tid;
use punctual_model::Service;

/// Reads a thread's processor time (`/proc/PID/task/TID/schedstat`, readable by all).
///
/// The file stays open: it belongs to this thread for ever, and reading it again saves opening it.
#[derive(Debug)]
pub struct Meter {
    file: File,
}

impl Meter {
    /// Opens the account of a thread.
    pub fn open(pid: i32, thread: Tid) -> io::Result<Self> {
        Ok(Self { file: File::open(format!("/proc/{pid}/task/{thread}/schedstat"))? })
    }

    /// Returns the processor time that the thread has received since it began. An error if it has
    /// ended.
    pub fn used(&self) -> io::Result<Service> {
        let mut text = [0; 64];
        let length = self.file.read_at(&mut text, 0)?;
        parse_used(&text[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// Parses the first number of such a file: nanoseconds on a CPU.
pub fn parse_used(schedstat: &[u8]) -> Option<Service> {
    let first = schedstat.split(|byte| byte.is_ascii_whitespace()).next()?;
    str::from_utf8(first).ok()?.parse().ok().map(Service::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;
    use punctual_linux::{clock, thread};

    #[test]
    fn use_is_seen() {
        let meter = Meter::open(std::process::id() as i32, thread::current()).expect("we live");
        let before = meter.used().expect("we live");
        let until = clock::thread_cpu_time() + Service::from_millis(20);
        while clock::thread_cpu_time() < until {}
        let used = meter.used().expect("we live").saturating_sub(before);
        assert!(used >= Service::from_millis(10), "{used}");
    }

    #[test]
    fn a_thread_that_has_ended_has_no_account() {
        let thread = std::thread::spawn(|| {
            Meter::open(std::process::id() as i32, thread::current()).expect("we live")
        });
        let meter = thread.join().expect("no panic");
        // The kernel may take a moment to remove it.
        while meter.used().is_ok() {
            clock::sleep(punctual_model::Duration::from_millis(1));
        }
    }
}
