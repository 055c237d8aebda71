//! A terminal: a pair of ptys with the part of its language (ECMA-48) that the view uses.
#![allow(clippy::disallowed_methods, reason = "the patience of a test")]

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use punctual_linux::process::{Signal, die_with_parent, send};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

/// A program on a terminal. Killed when dropped.
pub(crate) struct Terminal {
    ours: OwnedFd,
    theirs: File,
    child: Child,
    /// All output so far.
    pub(crate) written: Vec<u8>,
    pub(crate) screen: Screen,
    before: String,
}

impl Terminal {
    pub(crate) fn start(
        columns: u16,
        rows: u16,
        environment: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
        grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("ours");
        let name = ptsname(&ours, Vec::new()).expect("it has one").into_string().expect("text");
        let theirs = OpenOptions::new().read(true).write(true).open(name).expect("ours");
        rustix::io::ioctl_fionbio(&ours, true).expect("ours");
        let copy = || Stdio::from(theirs.try_clone().expect("a descriptor"));
        // A session of its own lets it receive SIGWINCH.
        let mut command = Command::new("setsid");
        command.arg("--ctty").args(arguments).stdin(copy()).stdout(copy()).stderr(copy());
        command.env_remove("NO_COLOR").env("TERM", "xterm").envs(environment.iter().copied());
        die_with_parent(&mut command);
        let before = modes(&theirs);
        let screen = Screen::new(columns, rows);
        resize(&ours, columns, rows);
        let child = command.spawn().expect("setsid (util-linux)");
        Self { ours, theirs, child, written: Vec::new(), screen, before }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        File::from(self.ours.try_clone().expect("a descriptor"))
            .write_all(keys.as_bytes())
            .expect("room for a few keys");
    }

    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.screen = Screen::new(columns, rows);
        resize(&self.ours, columns, rows);
    }

    pub(crate) fn send(&self, signal: Signal) {
        send(&self.child, signal).expect("our child");
    }

    /// Waits until the screen shows `words`, and returns its text.
    pub(crate) fn shows(&mut self, words: &str) -> String {
        for _ in 0..600 {
            self.read();
            let shown = self.screen.text();
            if shown.contains(words) {
                return shown;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("not within thirty seconds: {words}\n{}", self.screen.text());
    }

    /// Waits until the program has ended.
    pub(crate) fn ends(&mut self) -> ExitStatus {
        for _ in 0..600 {
            self.read();
            if let Some(status) = self.child.try_wait().expect("our child") {
                self.read();
                return status;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("it does not end:\n{}", self.screen.text());
    }

    /// Checks that the terminal is restored: the normal screen, the cursor, and the modes of its
    /// line.
    pub(crate) fn is_as_it_was(&self) {
        let written = String::from_utf8_lossy(&self.written);
        let last = |one: &str| written.rfind(one);
        assert!(last("\u{1b}[?1049l") > last("\u{1b}[?1049h"), "the alternate screen: {written:?}");
        assert!(last("\u{1b}[?25h") > last("\u{1b}[?25l"), "the cursor: {written:?}");
        assert_eq!(modes(&self.theirs), self.before);
    }

    fn read(&mut self) {
        let mut from = File::from(self.ours.try_clone().expect("a descriptor"));
        let mut bytes = [0; 4096];
        while let Ok(length @ 1..) = from.read(&mut bytes) {
            self.written.extend_from_slice(&bytes[..length]);
            self.screen.take(&bytes[..length]);
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resize(terminal: &OwnedFd, columns: u16, rows: u16) {
    let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(terminal.as_fd(), size).expect("ours");
}

fn modes(terminal: &File) -> String {
    let modes = tcgetattr(terminal).expect("a terminal");
    format!("{:?} {:?} {:?}", modes.input_modes, modes.output_modes, modes.local_modes)
}

/// The contents of the screen.
pub(crate) struct Screen {
    cells: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// The bytes of an incomplete character or command.
    rest: Vec<u8>,
}

impl Screen {
    fn new(columns: u16, rows: u16) -> Self {
        let cells = vec![vec![' '; columns.into()]; rows.into()];
        Self { cells, row: 0, column: 0, rest: Vec::new() }
    }

    pub(crate) fn text(&self) -> String {
        let lines = self.cells.iter().map(|line| line.iter().collect::<String>());
        lines.map(|line| line.trim_end().to_owned() + "\n").collect()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.rest) {
            Ok(text) => text.len(),
            Err(why) => why.valid_up_to(),
        };
        let text = String::from_utf8_lossy(&self.rest[..whole]).into_owned();
        let mut left = text.as_str();
        while let Some(letter) = left.chars().next() {
            let Some(command) = left.strip_prefix("\u{1b}[") else {
                self.put(letter);
                left = &left[letter.len_utf8()..];
                continue;
            };
            let Some(end) = command.find(|letter: char| ('@'..='~').contains(&letter)) else {
                break;
            };
            self.obey(&command[..end], command.as_bytes()[end]);
            left = &command[end + 1..];
        }
        let taken = whole - left.len();
        self.rest.drain(..taken);
    }

    fn obey(&mut self, parameters: &str, command: u8) {
        let mut numbers = parameters.split(';').map(|one| one.parse::<usize>().unwrap_or(1));
        match command {
            b'H' => {
                self.row = numbers.next().unwrap_or(1).saturating_sub(1);
                self.column = numbers.next().unwrap_or(1).saturating_sub(1);
            }
            b'J' => self.cells.iter_mut().for_each(|line| line.fill(' ')),
            _ => {}
        }
    }

    fn put(&mut self, letter: char) {
        let cell = self.cells.get_mut(self.row).and_then(|line| line.get_mut(self.column));
        if let Some(cell) = cell.filter(|_| !letter.is_control()) {
            *cell = letter;
            self.column += 1;
        }
    }
}
