//! Processes of ordinary users, controlled by lines of text.

use std::env;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use punctual_linux::process::{Signal, die_with_parent, send};

use super::ROLE;

/// The first of the ordinary users.
pub const FIRST_USER: u32 = 60_001;

/// The first subordinate user of [`FIRST_USER`] (subuid(5)); each user has 65,536 of them.
pub const SUBORDINATE: u32 = 1_200_000;

/// The number of ordinary users that have subordinate users.
const USERS: u32 = 100;

/// Returns the lines of /etc/subuid for all of them.
pub(super) fn subordinate_users() -> String {
    let line =
        |number| format!("{}:{}:65536\n", FIRST_USER + number, SUBORDINATE + 65_536 * number);
    (0..USERS).map(line).collect()
}

/// Returns the person behind a user, which may be a subordinate user.
pub fn person_of(uid: u32) -> u32 {
    match uid.checked_sub(SUBORDINATE).map(|above| above / 65_536) {
        Some(number) if number < USERS => FIRST_USER + number,
        _ => uid,
    }
}

/// Makes a program in `folder` with which its person can become the subordinate user `uid`, and
/// returns its path. The arguments are those of setpriv(1).
///
/// # Errors
/// Fails if there is no setpriv(1), or the folder cannot be written.
pub fn program_to_become(uid: u32, folder: &Path) -> std::io::Result<std::path::PathBuf> {
    let program = folder.join(format!("become-{uid}"));
    setuid_copy("/usr/bin/setpriv".as_ref(), &program, uid)?;
    Ok(program)
}

/// Returns the command that starts this program again with a role. It ends with its parent.
pub fn this_program(role: &str) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    as_role(&mut command, role);
    die_with_parent(&mut command);
    command
}

/// Adds the arguments and environment that make this program play a role, even if another program
/// executes it.
pub fn as_role(command: &mut Command, role: &str) {
    // The arguments are for the harness of a test program; other programs ignore them.
    command.args(["--exact", "other_process", "--nocapture", "--quiet"]).env(ROLE, role);
}

/// Returns whether other users may execute this program.
pub(super) fn may_be_other_users() -> bool {
    let mut probe = Command::new(env::current_exe().expect("this program"));
    probe.arg("--list").env_remove(ROLE).uid(FIRST_USER).gid(FIRST_USER).stdout(Stdio::null());
    probe.status().map_err(|why| println!("skipped: other users cannot run this: {why}")).is_ok()
}

/// Prints a line for the parent process.
pub(super) fn say(text: &str) {
    println!("> {}", text.replace('\n', " "));
}

/// Waits until the parent process writes a line, or ends.
pub(super) fn wait_for_word() {
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

/// A process of a user. It is killed when this value is dropped.
#[derive(Debug)]
pub struct Person {
    child: Child,
    /// `None` once the process is to end.
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Person {
    /// Starts this program as `uid`, with a role for the broker at `socket`.
    pub fn start(uid: u32, role: &str, socket: &Path) -> Self {
        let mut command = this_program(&format!("{role} {}", socket.display()));
        command.uid(uid).gid(uid);
        Self::start_as(command)
    }

    /// Starts a command that becomes this program.
    pub fn start_as(mut command: Command) -> Self {
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program");
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut person = Self { child, input, output };
        assert_eq!(person.read().as_deref(), Some("ready"));
        person
    }

    /// Writes a line without waiting for an answer; the process may have ended.
    pub fn tell(&mut self, what: &str) {
        let _ = self.input.as_mut().map(|input| writeln!(input, "{what}"));
    }

    /// Returns its next line, without the lines of the harness, or `None` once it has ended.
    pub fn read(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some((_, said)) = line.split_once("> ") {
                return Some(said.trim_end().to_owned());
            }
        }
    }

    /// Writes a line and returns the answer.
    pub fn ask(&mut self, what: &str) -> String {
        self.tell(what);
        self.read().unwrap_or_else(|| panic!("{what}: the client has ended"))
    }

    /// Writes a line and returns the answer, or `None` if the process has ended.
    pub(super) fn try_ask(&mut self, what: &str) -> Option<String> {
        self.tell(what);
        self.read()
    }

    /// Returns whether its process has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Returns the id of its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns its threads.
    pub(super) fn threads(&self) -> Vec<i32> {
        let entries = std::fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let id = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        entries.into_iter().flatten().flatten().filter_map(id).collect()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        send(&self.child, signal).expect("our child");
    }

    /// Closes its input and waits until it ends by itself.
    pub(super) fn end(&mut self) {
        drop(self.input.take());
        while self.read().is_some() {}
    }

    /// Kills the process, and waits until it is gone.
    pub fn kill(mut self) {
        self.child.kill().expect("our child");
        self.child.wait().expect("our child");
    }
}

impl Drop for Person {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Makes a copy of `program` that always runs as `uid` (execve(2), set-user-ID).
fn setuid_copy(program: &Path, copy: &Path, uid: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::copy(program, copy)?;
    std::os::unix::fs::chown(copy, Some(uid), Some(uid))?;
    // After chown(2), which clears the bit.
    File::open(copy)?.set_permissions(std::fs::Permissions::from_mode(0o4755))
}
