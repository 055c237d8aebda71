//! The terminal, which is restored however the program ends.

use std::io::{self, Stdout, stdout};
use std::sync::Once;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// The alternate screen, without echo. Dropping it restores the normal screen.
pub(super) struct Screen {
    /// The terminal to draw on.
    pub(super) terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn open() -> io::Result<Self> {
        restore_before_panic_messages();
        let opened = enable_raw_mode()
            .and_then(|()| execute!(stdout(), EnterAlternateScreen, Hide))
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())));
        match opened {
            Ok(terminal) => Ok(Self { terminal }),
            Err(why) => {
                restore();
                Err(why)
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal and ignores errors: a terminal that is gone needs nothing.
fn restore() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

/// Makes panics restore the terminal first, so that their messages do not vanish with the alternate
/// screen.
fn restore_before_panic_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            told(panic);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Read as _;
    use std::process::{Command, Stdio};

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::tcgetattr;

    /// Panics on a terminal. The test below starts it on a terminal of its own.
    #[test]
    #[ignore = "it panics; a_panic_leaves_the_terminal_as_it_was starts it"]
    fn panics_on_a_terminal() {
        let _screen = Screen::open().expect("a terminal");
        panic!("as the test wants it");
    }

    #[test]
    fn a_panic_leaves_the_terminal_as_it_was() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pty");
        grantpt(&ours).and_then(|()| unlockpt(&ours)).expect("ours");
        let name = ptsname(&ours, Vec::new()).expect("it has one").into_string().expect("text");
        let theirs = OpenOptions::new().read(true).write(true).open(name).expect("ours");
        let modes = || format!("{:?}", tcgetattr(&theirs).expect("a terminal").local_modes);
        let before = modes();
        let copy = || Stdio::from(theirs.try_clone().expect("a descriptor"));
        let test = "watch::screen::tests::panics_on_a_terminal";
        let mut command = Command::new(std::env::current_exe().expect("ours"));
        command.args(["--ignored", "--exact", test, "--nocapture"]);
        let status = command.stdin(copy()).stdout(copy()).stderr(copy()).status();
        assert!(!status.expect("it ran").success());
        assert_eq!(modes(), before);
        rustix::io::ioctl_fionbio(&ours, true).expect("ours");
        let mut written = Vec::new();
        // Reading ends with an error when nothing more is there.
        let _ = std::fs::File::from(ours).read_to_end(&mut written);
        let written = String::from_utf8_lossy(&written);
        let left = written.find("\u{1b}[?1049l").expect("it left the alternate screen");
        let told = written.find("as the test wants it").expect("the panic was told");
        assert!(left < told && written.contains("\u{1b}[?25h"), "{written:?}");
    }
}
