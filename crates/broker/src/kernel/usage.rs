//! What a thread has used, by the scheduler's own books.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use punctual_linux::thread::Tid;
use punctual_model::{Duration, Instant, Service};

/// Reads a thread's processor time (`/proc/PID/task/TID/schedstat`, readable by all).
///
/// The file stays open: it is the thread's own for ever, and reading it again saves
/// opening it.
#[derive(Debug)]
pub struct Meter {
    file: File,
    /// Begin of the present window.
    since: Instant,
    used: Service,
    last_ppm: Option<u64>,
}

/// What a window held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Processor time.
    pub used: Service,
    /// Its length.
    pub length: Duration,
}

impl Window {
    /// Of a CPU, in parts per million.
    pub fn ppm(self) -> u64 {
        let scaled = u128::from(self.used.as_nanos()) * 1_000_000;
        u64::try_from(scaled / u128::from(self.length.as_nanos().max(1))).unwrap_or(u64::MAX)
    }

    /// Whether it held more than `share_ppm` of its length, and `burst` beside it.
    pub fn exceeds(self, share_ppm: u64, burst: Service) -> bool {
        let share = u128::from(self.length.as_nanos()) * u128::from(share_ppm) / 1_000_000;
        u128::from(self.used.as_nanos()) > share + u128::from(burst.as_nanos())
    }
}

impl Meter {
    /// Opens it; the first window begins `now`.
    pub fn open(pid: i32, thread: Tid, now: Instant) -> io::Result<Self> {
        let file = File::open(format!("/proc/{pid}/task/{thread}/schedstat"))?;
        let used = read(&file)?;
        Ok(Self { file, since: now, used, last_ppm: None })
    }

    /// The window, if it is at least `least` long; the next one begins then. An error if the thread
    /// has ended.
    pub fn look(&mut self, now: Instant, least: Duration) -> io::Result<Option<Window>> {
        let length = now.saturating_since(self.since);
        if length < least {
            return Ok(None);
        }
        let used = read(&self.file)?;
        let window = Window { used: used.saturating_sub(self.used), length };
        (self.since, self.used) = (now, used);
        self.last_ppm = Some(window.ppm());
        Ok(Some(window))
    }

    /// Whether it says of a thread that runs that it never did.
    pub fn is_blind(&self) -> bool {
        self.used.is_zero()
    }

    /// Of a CPU, in the last whole window.
    pub fn last_ppm(&self) -> Option<u64> {
        self.last_ppm
    }
}

fn read(file: &File) -> io::Result<Service> {
    let mut text = [0; 64];
    let length = file.read_at(&mut text, 0)?;
    parse_used(&text[..length]).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Reads the first number of such a file: nanoseconds on a CPU.
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
        let pid = std::process::id() as i32;
        let mut meter = Meter::open(pid, thread::current(), clock::now()).expect("we live");
        let until = clock::thread_cpu_time() + Service::from_millis(20);
        while clock::thread_cpu_time() < until {}
        assert_eq!(meter.look(clock::now(), Duration::MAX).expect("we live"), None);
        let window = meter.look(clock::now(), Duration::ZERO).expect("we live").expect("long");
        assert!(window.used >= Service::from_millis(10), "{window:?}");
        assert_eq!(meter.last_ppm(), Some(window.ppm()));
    }

    #[test]
    fn a_share_and_a_burst_are_within_the_contract() {
        let window = Window { used: Service::from_millis(300), length: Duration::from_secs(1) };
        assert_eq!(window.ppm(), 300_000);
        assert!(!window.exceeds(300_000, Service::ZERO));
        assert!(window.exceeds(299_000, Service::ZERO));
        assert!(!window.exceeds(200_000, Service::from_millis(100)));
    }
}
