//! `punctual-modem` as a process that ends with its test.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use punctual_linux::process::{Signal, die_with_parent, send};
use tempfile::TempDir;

use super::client::Client;
use super::common::MODEM;

/// Creates a folder for links and files.
pub(crate) fn folder() -> TempDir {
    tempfile::Builder::new().prefix("punctual-modem").tempdir().expect("a folder")
}

/// Waits until `found` returns a value, for up to a minute.
pub(crate) fn eventually<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..3_000 {
        if let Some(found) = found() {
            return found;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("not within a minute: {what}");
}

/// A process that is killed when dropped.
pub(crate) struct Modem {
    folder: TempDir,
    child: Child,
}

impl Modem {
    /// Starts the program in a folder of its own, to which its arguments are relative.
    pub(crate) fn start(arguments: &[impl AsRef<OsStr>]) -> Self {
        let folder = folder();
        let file = |name| File::create(folder.path().join(name)).expect("ours");
        let mut command = Command::new(MODEM);
        command.args(arguments).current_dir(folder.path());
        command.stdin(Stdio::null()).stdout(file("said")).stderr(file("complained"));
        die_with_parent(&mut command);
        Self { child: command.spawn().expect("was built"), folder }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns its output and its errors.
    pub(crate) fn said(&self) -> String {
        ["said", "complained"]
            .map(|name| fs::read_to_string(self.path(name)).expect("ours"))
            .concat()
    }

    /// Opens the tty of that name once it exists.
    pub(crate) fn client(&self, name: &str) -> Client {
        let path = self.path(name);
        eventually(name, || path.exists().then_some(()));
        Client::open(&path)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(&self.child, signal).expect("it is ours");
    }

    /// Sends a signal that ends it, and waits until it has ended.
    pub(crate) fn end(&mut self, signal: Signal) -> ExitStatus {
        self.signal(signal);
        eventually("it ends", || self.child.try_wait().expect("it is ours"))
    }
}

impl Drop for Modem {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
