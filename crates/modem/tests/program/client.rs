//! A client that has opened a modem's tty.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

/// The time allowed for any step: a call takes some twelve seconds to set up.
const PATIENCE: Duration = Duration::from_secs(60);

/// The guard time around `+++`, with room for a late machine.
const GUARD: Duration = Duration::from_millis(1_500);

pub(crate) struct Client {
    tty: File,
    shown: Vec<u8>,
}

impl Client {
    pub(crate) fn open(path: &Path) -> Self {
        let flags = (OFlags::NOCTTY | OFlags::NONBLOCK).bits() as i32;
        let tty = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        Self { tty: tty.expect("a tty"), shown: Vec::new() }
    }

    /// Writes all bytes, and reads meanwhile.
    pub(crate) fn types(&mut self, bytes: impl AsRef<[u8]>) {
        let mut rest = bytes.as_ref();
        self.wait("the tty takes what is typed", |client| {
            match client.tty.write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                Err(why) => panic!("{why}"),
            }
            rest.is_empty().then_some(())
        });
    }

    /// Sends a command and waits for OK.
    pub(crate) fn command(&mut self, command: &str) {
        self.types(format!("{command}\r"));
        self.until("OK\r\n");
    }

    /// Returns to commands, with the call on hold.
    pub(crate) fn escape(&mut self) {
        thread::sleep(GUARD);
        self.types("+++");
        thread::sleep(GUARD);
        self.until("OK\r\n");
    }

    /// Waits until `text` has been shown. Returns the output up to and including it.
    pub(crate) fn until(&mut self, text: &str) -> String {
        let shown = self.wait(text, |client| {
            let at = client.shown.windows(text.len()).position(|w| w == text.as_bytes())?;
            Some(client.shown.drain(..at + text.len()).collect::<Vec<u8>>())
        });
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Waits until `count` bytes have been shown, and returns them.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        self.wait("bytes", |client| {
            (client.shown.len() >= count).then(|| client.shown.drain(..count).collect())
        })
    }

    /// Waits until there has been no output for two seconds, and discards the output.
    pub(crate) fn quiet(&mut self) {
        let (mut since, mut count) = (Instant::now(), 0);
        self.wait("silence", |client| {
            if client.shown.len() != count {
                (since, count) = (Instant::now(), client.shown.len());
            }
            (since.elapsed() >= Duration::from_secs(2)).then_some(())
        });
        self.shown.clear();
    }

    /// Waits until the tty's other end is closed.
    pub(crate) fn until_hung_up(&mut self) {
        let until = Instant::now() + PATIENCE;
        let mut piece = [0; 512];
        // The read does not block: it fails while the other end is open, and returns 0 once it is
        // closed.
        while !matches!(self.tty.read(&mut piece), Ok(0)) {
            assert!(Instant::now() < until, "the tty is still there");
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn wait<T>(&mut self, what: &str, mut found: impl FnMut(&mut Self) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            let mut piece = [0; 512];
            match self.tty.read(&mut piece) {
                Ok(count) => self.shown.extend(&piece[..count]),
                Err(why) if why.kind() == ErrorKind::WouldBlock => {}
                Err(why) => panic!("{why}"),
            }
            if let Some(found) = found(self) {
                return found;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("not within {PATIENCE:?}: {what:?}; {:?}", String::from_utf8_lossy(&self.shown))
    }
}

/// Lets A call and B answer, and waits until both are connected.
pub(crate) fn call(a: &mut Client, b: &mut Client) {
    a.types("ATDT5551\r");
    b.until("RING\r\n");
    b.types("ATA\r");
    for client in [a, b] {
        client.until("CONNECT");
        client.until("\r\n");
    }
}

/// Returns random bytes of every value; a `+++` among them has no silence around it.
pub(crate) fn bytes(seed: u8, count: usize) -> Vec<u8> {
    let mut state = u32::from(seed);
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..count).map(next).collect()
}
