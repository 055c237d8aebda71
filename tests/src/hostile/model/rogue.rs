//! The process of a hostile client, which prints each drawn action before it performs it.

use std::collections::VecDeque;
use std::io::BufRead as _;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use punctual_linux::process::{Signal, send_to};
use punctual_linux::{clock, thread};
use punctual_model::Duration;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustix::fs::{FallocateFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};

use super::action::{Action, Change, ChildKind, Files, Message, Queue as Passed, Wish};
use super::{SUBORDINATES, body, files};
use crate::hostile::calls::take_files_again;
use crate::hostile::person::{self, FIRST_USER, SUBORDINATE, say, this_program};
use crate::hostile::queue::{self, Queue};
use crate::hostile::raw::{self, Raw, may_be_real_time};

/// How long it waits for an answer, if it waits at all.
const PATIENCE: Duration = Duration::from_millis(200);

/// The most connections that a client holds, so that it harms other clients and not itself.
const MOST_CONNECTIONS: usize = 100;
const MOST_FILES: usize = 200;
const MOST_CHANNELS: usize = 12;
const MOST_CHILDREN: usize = 12;

/// The most processes and threads of a user.
const MOST_PROCESSES: u64 = 250;

/// Everything that one process of a hostile client holds.
pub(super) struct Rogue {
    pub(super) socket: PathBuf,
    connections: VecDeque<Raw>,
    /// The numbers and tokens of its grants.
    pub(super) grants: Vec<(u64, String)>,
    pub(super) ended_thread: i32,
    channels: VecDeque<Queue>,
    memories: VecDeque<OwnedFd>,
    kept: VecDeque<OwnedFd>,
    children: VecDeque<Child>,
    without: String,
}

/// Performs the round described by the first line of input: `SEED STREAM MILLISECONDS`, and the
/// actions to leave out.
pub(crate) fn play(socket: &Path) {
    may_be_real_time();
    let most = Rlimit { current: Some(MOST_PROCESSES), maximum: Some(MOST_PROCESSES) };
    let _ = setrlimit(Resource::Nproc, most);
    say("ready");
    let mut lines = std::io::stdin().lock().lines();
    let Some(Ok(line)) = lines.next() else { return };
    let mut words = line.split(' ');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok()).expect("a number");
    let (seed, stream, millis) = (number(), number(), number());
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(stream);
    let until = clock::now() + Duration::from_millis(millis);
    let mut rogue = Rogue::new(socket, words.next().unwrap_or("").to_owned());
    for number in 0_u64.. {
        if clock::now() >= until {
            break;
        }
        let action = Action::draw(&mut rng);
        let text = format!("{action:?}");
        say(&format!("{number} {text:.300}"));
        if rogue.without.split(',').any(|left_out| !left_out.is_empty() && text.contains(left_out))
        {
            continue;
        }
        rogue.act(action);
    }
    drop(rogue);
    say("resting");
    // The process stays alive but holds nothing, until it is told to end.
    let _ = lines.next();
}

impl Rogue {
    fn new(socket: &Path, without: String) -> Self {
        let (connections, grants, channels, memories, kept, children) = Default::default();
        let (socket, ended_thread) = (socket.into(), 1);
        Self {
            socket,
            connections,
            grants,
            ended_thread,
            channels,
            memories,
            kept,
            children,
            without,
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect { first } => {
                let Ok(raw) = Raw::connect(&self.socket) else { return };
                self.keep_connection(raw.patient(PATIENCE));
                let last = self.connections.len() - 1;
                if let Some(message) = first {
                    self.say(last, &message);
                }
            }
            Action::Crowd { count } => {
                for _ in 0..count {
                    let Ok(raw) = Raw::connect(&self.socket) else { return };
                    self.keep_connection(raw.patient(PATIENCE));
                }
            }
            Action::HangUp { at } => {
                if let Some(raw) = index(at, self.connections.len()) {
                    drop(self.connections.remove(raw));
                }
            }
            Action::HangUpAll => self.connections.clear(),
            Action::Say { at, message } => {
                if let Some(at) = index(at, self.connections.len()) {
                    self.say(at, &message);
                }
            }
            Action::Pipeline { at, count } => {
                let Some(raw) = pick(&mut self.connections, at) else { return };
                for number in 0..count {
                    let ask = if number % 3 == 0 {
                        json!({"status": {"after": null}})
                    } else {
                        json!("ping")
                    };
                    if raw.tell(&ask, &[]).is_none() {
                        break;
                    }
                }
            }
            Action::Read { at, count } => self.read(at, count),
            Action::Open { wish, queue } => {
                let _ = self.open(&wish, &queue);
            }
            Action::Ring { at, count, files } => self.ring(at, count, &files),
            Action::Scribble { at, words, seed } => self.scribble(at, words, seed),
            Action::Memory { at, how } => self.change(at, how),
            Action::Race { at, times } => {
                let Some(queue) = pick(&mut self.channels, at) else { return };
                for _ in 0..times {
                    punch(queue.files.first(), queue.messages());
                    queue.publish();
                    queue.ring();
                }
            }
            Action::DropChannels => {
                let all = std::mem::take(&mut self.channels);
                close_elsewhere(all.into_iter().flat_map(|queue| queue.files).collect());
            }
            Action::Stop => _ = send_to(std::process::id() as i32, Signal::STOP),
            Action::Die => _ = send_to(std::process::id() as i32, Signal::KILL),
            Action::Spin { micros } => {
                let until = clock::now() + Duration::from_micros(micros.into());
                while clock::now() < until {}
            }
            Action::Sleep { micros } => clock::sleep(Duration::from_micros(micros.into())),
            Action::Child { kind } => self.start_child(kind),
            Action::Churn { count } => {
                let start = |_| Command::new("true").stdin(Stdio::null()).spawn().ok();
                let all: Vec<Child> = (0..count).filter_map(start).collect();
                all.into_iter().for_each(|mut child| _ = child.wait());
            }
            Action::Thread { lives } => self.start_thread(lives),
            Action::Wander { cpu } => _ = thread::set_affinity(&[cpu]),
        }
    }

    fn keep_connection(&mut self, raw: Raw) {
        if self.connections.len() >= MOST_CONNECTIONS {
            self.connections.pop_front();
        }
        self.connections.push_back(raw);
    }

    fn keep_files(&mut self, files: impl IntoIterator<Item = OwnedFd>) {
        self.kept.extend(files);
        let over = self.kept.len().saturating_sub(MOST_FILES);
        close_elsewhere(self.kept.drain(..over).collect());
    }

    /// Makes open files, passes them to `send` together, and keeps or closes them.
    fn with_files(&mut self, files: &Files, send: impl FnOnce(&mut Self, &[BorrowedFd<'_>])) {
        let shared = self.channels.back().and_then(|queue| queue.files.first()?.try_clone().ok());
        let made =
            files.kinds.iter().filter_map(|kind| kind.make(&self.socket, shared.as_ref()).ok());
        let (made, beside): (Vec<OwnedFd>, Vec<Option<OwnedFd>>) = made.unzip();
        let passed: Vec<BorrowedFd<'_>> = made.iter().map(|file| file.as_fd()).collect();
        let passed = passed.repeat(files.times.max(1));
        send(self, &passed[..passed.len().min(raw::MOST_FILES)]);
        drop(passed);
        self.keep_files(beside.into_iter().flatten());
        if files.kept { self.keep_files(made) } else { close_elsewhere(made) }
    }

    fn say(&mut self, at: usize, message: &Message) {
        let bytes = body::bytes_of(&message.body, self);
        self.with_files(&message.files, |rogue, files| {
            if let Some(raw) = rogue.connections.get(at) {
                raw.send(&bytes, files);
            }
        });
    }

    fn read(&mut self, at: usize, count: u32) {
        let Some(at) = index(at, self.connections.len()) else { return };
        for _ in 0..count {
            match self.connections[at].read(Duration::from_millis(1)) {
                Some(Value::Null) => break,
                Some(said) => self.note(&said),
                None => {
                    self.connections.remove(at);
                    break;
                }
            }
        }
    }

    /// Remembers a grant.
    fn note(&mut self, said: &Value) {
        let answer = |kind| said.pointer(&format!("/answer/answer/{kind}"));
        if let Some(granted) = answer("granted").or_else(|| answer("opened"))
            && let (Some(id), Some(token)) = (granted["grant"].as_u64(), granted["token"].as_str())
        {
            self.grants.push((id, token.to_owned()));
            if self.grants.len() > 64 {
                self.grants.remove(0);
            }
        }
    }

    fn open(&mut self, wish: &Wish, queue: &Passed) -> std::io::Result<()> {
        let mut raw = Raw::connect(&self.socket)?.patient(PATIENCE).greet()?;
        let answer = raw.ask(&json!({"open_channel": {"channel": body::channel(wish)}}), &[]);
        let Some(answer) = answer else { return Ok(()) };
        self.note(&json!({"answer": {"answer": answer}}));
        let Some(id) = answer.pointer("/opened/grant").and_then(Value::as_u64) else {
            return Ok(());
        };
        let (slots, bytes) = (u64::from(wish.slots), u64::from(wish.bytes));
        let attach = json!({"attach_channel": {"grant": id, "first": 0}});
        match queue {
            Passed::True => {
                let (queue, _) = Queue::attach(&mut raw, id, slots, bytes)?;
                self.channels.push_back(queue);
                if self.channels.len() > MOST_CHANNELS
                    && let Some(oldest) = self.channels.pop_front()
                {
                    close_elsewhere(oldest.files);
                }
            }
            Passed::False { pages, seals } => {
                let length = queue::length_of(slots, bytes)? as i64 + 4_096 * i64::from(*pages);
                let mut files = queue::own(length.max(4_096) as usize, 4_096)?;
                files[1] = files::memory(1, *seals)?;
                let passed: Vec<BorrowedFd<'_>> =
                    files.iter().take(3).map(|one| one.as_fd()).collect();
                raw.tell(&attach, &passed);
                self.memories.extend(files);
                let over = self.memories.len().saturating_sub(32);
                close_elsewhere(self.memories.drain(..over).collect());
            }
            Passed::Files(files) => {
                self.with_files(files, |_, files| _ = raw.tell(&attach, files));
            }
            Passed::None => {}
        }
        self.keep_connection(raw);
        Ok(())
    }

    fn ring(&mut self, at: usize, count: u32, files: &Files) {
        let Some(at) = index(at, self.channels.len()) else { return };
        self.with_files(files, |rogue, files| {
            for bell in rogue.channels[at].bells() {
                take_files_again(bell);
                let _ = raw::send(bell, &[1], files);
                for _ in 0..count {
                    let _ = raw::send(bell, &[1; 3], &[]);
                }
            }
        });
    }

    fn scribble(&mut self, at: usize, count: u32, seed: u64) {
        let Some(Queue { frames: Some(frames), files, .. }) = pick(&mut self.channels, at) else {
            return;
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let words = frames.words();
        for _ in 0..count {
            // Counters and descriptors, or any place.
            let at = match rng.random_range(0..3) {
                0 => rng.random_range(0..32),
                1 => rng.random_range(512..544),
                _ => rng.random_range(0..words.len()),
            };
            let value = if rng.random() { rng.random_range(0..600) } else { rng.random() };
            words[at].store(value, std::sync::atomic::Ordering::Relaxed);
        }
        for file in files {
            let bytes = rng.random::<u64>().to_ne_bytes();
            let _ = rustix::io::pwrite(file, &bytes, rng.random_range(0..512) * 8);
        }
    }

    fn change(&mut self, at: usize, how: Change) {
        let shared = self.channels.iter().flat_map(|queue| &queue.files);
        let all: Vec<&OwnedFd> = shared.chain(&self.memories).chain(&self.kept).collect();
        let Some(memory) = index(at, all.len()).map(|at| all[at]) else { return };
        match how {
            Change::Truncate { bytes } => _ = ftruncate(memory, bytes),
            Change::Punch => punch(Some(memory), 0),
            Change::Fill => _ = fallocate(memory, FallocateFlags::empty(), 0, 1 << 16),
            Change::Seal { bits } => _ = fcntl_add_seals(memory, SealFlags::from_bits_retain(bits)),
            Change::Write { word, value } => {
                let is_memory = rustix::fs::fcntl_get_seals(memory).is_ok();
                let _ =
                    is_memory.then(|| rustix::io::pwrite(memory, &value.to_ne_bytes(), word * 8));
            }
        }
    }

    fn start_child(&mut self, kind: ChildKind) {
        let role = format!("child {} {}", thread::current().as_raw(), self.socket.display());
        let this = std::env::current_exe().expect("this program");
        let uid = rustix::process::getuid().as_raw();
        let mut command = match kind {
            ChildKind::Plain => this_program(&role),
            ChildKind::Subordinate(number) => {
                let id = subordinate(uid, number);
                let folder = self.socket.parent().unwrap_or(Path::new("/"));
                let mut become_another = Command::new(folder.join(format!("become-{id}")));
                become_another.args(["--reuid", &id.to_string()]).arg(this);
                become_another
            }
            ChildKind::Namespace => {
                let mut unshare = Command::new("unshare");
                unshare.args(["--user", "--map-root-user"]).arg(this);
                unshare
            }
        };
        if !matches!(kind, ChildKind::Plain) {
            person::as_role(&mut command, &role);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.children.extend(command.spawn().ok());
        if self.children.len() > MOST_CHILDREN
            && let Some(oldest) = self.children.pop_front()
        {
            end_child(oldest);
        }
    }

    /// Starts a thread that makes a request for itself.
    fn start_thread(&mut self, lives: bool) {
        let socket = self.socket.clone();
        let asks = move || {
            let this = thread::current().as_raw();
            if let Ok(mut raw) = Raw::connect(&socket).and_then(|raw| raw.patient(PATIENCE).greet())
            {
                let _ = raw.ask(&body::a_little(this), &[]);
                if lives {
                    clock::sleep(Duration::from_millis(50));
                }
            }
            this
        };
        let started = std::thread::Builder::new().spawn(asks);
        if let (Ok(started), false) = (started, lives) {
            self.ended_thread = started.join().unwrap_or(1);
        }
    }
}

impl Drop for Rogue {
    fn drop(&mut self) {
        self.connections.clear();
        self.children.drain(..).for_each(end_child);
        let channels = std::mem::take(&mut self.channels);
        let files = channels.into_iter().flat_map(|queue| queue.files);
        close_elsewhere(files.chain(self.kept.drain(..)).chain(self.memories.drain(..)).collect());
    }
}

/// Plays a child started by [`Rogue::start_child`]: it makes a request for itself and for a thread
/// of its parent.
pub(crate) fn play_child(parent_and_socket: &Path) {
    may_be_real_time();
    let text = parent_and_socket.to_string_lossy();
    let (parent, socket) = text.split_once(' ').expect("a thread and a path");
    let parent: i32 = parent.parse().expect("a number");
    if let Ok(mut raw) = Raw::connect(socket.as_ref()).and_then(|raw| raw.patient(PATIENCE).greet())
    {
        for thread in [parent, thread::current().as_raw()] {
            let _ = raw.ask(&body::a_little(thread), &[]);
        }
    }
    person::wait_for_word();
}

/// Returns the `number`th subordinate user of a person.
pub(super) fn subordinate(person: u32, number: u32) -> u32 {
    SUBORDINATE + (person.saturating_sub(FIRST_USER)) * 65_536 + number % SUBORDINATES
}

fn end_child(mut child: Child) {
    // This process may not kill a child of a subordinate user; the child ends when its input is
    // closed.
    drop(child.stdin.take());
    let _ = child.kill();
    let _ = child.wait();
}

/// Closes files whose close may take seconds, in another thread.
fn close_elsewhere(files: Vec<OwnedFd>) {
    if !files.is_empty() {
        // If no thread can be started, closes them here.
        let _ = std::thread::Builder::new().spawn(move || drop(files));
    }
}

fn punch(memory: Option<&OwnedFd>, from: u64) {
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = memory.map(|memory| fallocate(memory, hole, from, 1 << 26));
}

fn index(at: usize, of: usize) -> Option<usize> {
    at.checked_rem(of)
}

fn pick<T>(all: &mut VecDeque<T>, at: usize) -> Option<&mut T> {
    let at = index(at, all.len())?;
    all.get_mut(at)
}
