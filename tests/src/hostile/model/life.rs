//! The processes of one hostile user, one after the other.

use std::collections::VecDeque;
use std::io::{BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_linux::clock;
use punctual_linux::process::Signal;
use punctual_model::{Duration, Instant};

use super::Round;
use crate::hostile::broker::Broker;
use crate::hostile::groups;
use crate::hostile::person::this_program;

/// The number of recent actions in a report of a violation.
const LAST: usize = 12;

/// The time between two checks, at which a process that has stopped itself is continued.
const LOOK: Duration = Duration::from_millis(30);

/// The record of one hostile user's processes.
#[derive(Debug)]
pub(super) struct UserRecord {
    user: u32,
    pub(super) lives: u64,
    pub(super) actions: u64,
    /// The last process, which holds nothing any more; it ends when this value is dropped.
    last: RogueProcess,
}

impl UserRecord {
    /// Returns the last actions of the last process.
    pub(super) fn last_actions(&self) -> String {
        let record = self.last.record.lock().unwrap_or_else(PoisonError::into_inner);
        let last: Vec<&str> = record.last.iter().map(String::as_str).collect();
        format!("user {}, process {}:\n  {}", self.user, self.lives - 1, last.join("\n  "))
    }

    /// Returns the process group of the last process, unless all of it has ended.
    pub(super) fn group(&self) -> u32 {
        self.last.child.id()
    }
}

/// The output of one process.
#[derive(Debug, Default)]
struct Record {
    last: VecDeque<String>,
    actions: u64,
    /// Whether it has released everything.
    rests: bool,
    ended: bool,
}

/// A process and its children. They are killed when this value is dropped.
#[derive(Debug)]
struct RogueProcess {
    child: Child,
    record: Arc<Mutex<Record>>,
}

/// Lets a user act until the given time.
pub(super) fn run_user(user: u32, round: &Round, broker: &Broker, until: Instant) -> UserRecord {
    let (mut lives, mut actions) = (0, 0);
    loop {
        let stream = u64::from(user) << 32 | lives;
        let life = RogueProcess::start(user, round, stream, broker, until);
        lives += 1;
        loop {
            clock::sleep(LOOK);
            groups::signal(&life.child, Signal::CONT);
            let record = life.record.lock().unwrap_or_else(PoisonError::into_inner);
            // A process that does not come to rest is stuck in a call, and the check of what it
            // holds sees it.
            let late = clock::now() > until + Duration::from_secs(10);
            let over = record.rests || late || (record.ended && clock::now() >= until);
            if over {
                actions += record.actions;
                drop(record);
                return UserRecord { user, lives, actions, last: life };
            }
            if record.ended {
                actions += record.actions;
                break;
            }
        }
    }
}

impl RogueProcess {
    fn start(user: u32, round: &Round, stream: u64, broker: &Broker, until: Instant) -> Self {
        let mut command = this_program(&format!("rogue {}", broker.socket().display()));
        command.uid(user).gid(user).current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("this program");
        let left_ms = until.saturating_since(clock::now()).as_nanos() / 1_000_000;
        let begin = format!("{} {stream} {left_ms} {}", round.seed, round.without);
        // The process may have ended.
        let _ = child.stdin.as_mut().map(|input| writeln!(input, "{begin}"));
        let record = Arc::new(Mutex::new(Record::default()));
        let (output, tells) = (child.stdout.take().expect("piped"), Arc::clone(&record));
        std::thread::spawn(move || listen(BufReader::new(output), &tells));
        Self { child, record }
    }
}

fn listen(output: impl std::io::BufRead, record: &Mutex<Record>) {
    let lock = || record.lock().unwrap_or_else(PoisonError::into_inner);
    for line in output.lines() {
        let Ok(line) = line else { break };
        let Some((_, said)) = line.split_once("> ") else { continue };
        let mut record = lock();
        match said {
            "ready" => {}
            "resting" => record.rests = true,
            action => {
                record.actions += 1;
                record.last.push_back(action.to_owned());
                if record.last.len() > LAST {
                    record.last.pop_front();
                }
            }
        }
    }
    lock().ended = true;
}

impl Drop for RogueProcess {
    fn drop(&mut self) {
        groups::signal(&self.child, Signal::KILL);
        let _ = self.child.wait();
    }
}
