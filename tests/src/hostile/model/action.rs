//! The actions of a hostile client, drawn from a seed without regard to the state of the system.
//!
//! Every number that selects one of several things (a connection, a channel, a file) is taken
//! modulo how many there are when the action is done, so that the sequence of actions depends on
//! the seed alone.

use rand::{Rng, RngExt as _};

/// A step of a hostile client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Connects, perhaps with an immediate first message.
    Connect { first: Option<Message> },
    /// Connects many times.
    Crowd { count: u32 },
    /// Closes a connection.
    HangUp { at: usize },
    /// Closes every connection.
    HangUpAll,
    /// Sends a message.
    Say { at: usize, message: Message },
    /// Sends `count` requests without reading an answer.
    Pipeline { at: usize, count: u32 },
    /// Reads answers.
    Read { at: usize, count: u32 },
    /// Asks for a channel and opens it.
    Open { wish: Wish, queue: Queue },
    /// Rings the bells of a channel.
    Ring { at: usize, count: u32, files: Files },
    /// Writes into memory that it shares with the server.
    Scribble { at: usize, words: u32, seed: u64 },
    /// Changes a memory file that it holds, shared or not.
    Memory { at: usize, how: Change },
    /// Discards pages of a channel's memory while the server reads them.
    Race { at: usize, times: u32 },
    /// Closes everything that it holds of channels without telling the server.
    DropChannels,
    /// Stops itself until another process continues it.
    Stop,
    /// Ends with SIGKILL; another process of the user follows.
    Die,
    /// Uses the processor.
    Spin { micros: u32 },
    /// Sleeps.
    Sleep { micros: u32 },
    /// Starts a process that makes a request for itself or for another.
    Child { kind: ChildKind },
    /// Starts `count` processes that end at once, so that their ids are used again.
    Churn { count: u32 },
    /// Starts a thread that makes a request for itself, and ends.
    Thread { lives: bool },
    /// Moves the thread to another CPU.
    Wander { cpu: usize },
}

/// The bytes of a message, and the open files sent with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) body: Body,
    pub(super) files: Files,
}

/// The bytes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// Nothing at all.
    Empty,
    /// Random bytes.
    Garbage {
        bytes: u32,
        seed: u64,
    },
    /// The first part of a valid message.
    Half {
        bytes: u32,
    },
    /// More bytes than a message may have.
    Huge {
        bytes: u32,
    },
    /// Valid JSON, nested as deep as fits.
    Deep {
        levels: u32,
    },
    Hello {
        version: u32,
    },
    Ping,
    Status {
        after: u64,
    },
    Channels {
        after: u64,
    },
    Request(GrantRequest),
    Change {
        grant: Id,
        want: GrantRequest,
    },
    Release {
        grant: Id,
    },
    Resume {
        grant: Id,
        token: Token,
    },
    OpenChannel(Wish),
    ChangeChannel {
        grant: Id,
        wish: Wish,
    },
    Attach {
        grant: Id,
        first: Option<bool>,
    },
    Mapped {
        grant: Id,
    },
}

/// A grant request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GrantRequest {
    pub(super) kind: Kind,
    pub(super) thread: ThreadChoice,
    /// The share of a CPU in parts per million; quotas are a tenth of a CPU.
    pub(super) ppm: u64,
    pub(super) period_us: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Upcalls { count: u32 },
    Reservation,
    Program { hard: bool },
    Priority,
}

/// The thread that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadChoice {
    Own,
    Leader,
    Init,
    Parent,
    Ended,
    Any(i32),
}

/// The grant or channel that a request names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Known(usize),
    Any(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Known,
    Guessed(u128),
}

/// A channel request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) receive: bool,
    pub(super) bytes: u32,
    pub(super) slots: u32,
    pub(super) spacing_us: u64,
    pub(super) burst: u32,
    pub(super) bound_us: Option<u64>,
    pub(super) fragments: bool,
    pub(super) port: u16,
}

/// The queue that is passed to a server that takes one from its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// A well-formed queue, except that its maker can still change it.
    True,
    /// A queue whose memory is too large or too small by `pages`, with these seals.
    False { pages: i32, seals: u32 },
    /// Other files.
    Files(Files),
    /// No queue at all, although the channel was requested.
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Truncate { bytes: u64 },
    Punch,
    Fill,
    Seal { bits: u32 },
    Write { word: u64, value: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildKind {
    /// A process of the same user.
    Plain,
    /// A set-user-ID program of a subordinate user.
    Subordinate(u32),
    /// A process in a user namespace of its own.
    Namespace,
}

/// The open files that go with a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Files {
    pub(super) kinds: Vec<File>,
    /// The number of copies of each.
    pub(super) times: usize,
    /// Whether the client keeps a copy of each.
    pub(super) kept: bool,
}

/// A kind of open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    /// A TCP socket whose last close waits.
    Lingering,
    /// A Unix socket in which a lingering one is in transit.
    Nested,
    PipeReader,
    PipeWriter,
    Memory {
        pages: u32,
        seals: u32,
    },
    Event,
    Epoll,
    Directory,
    Null,
    Broker,
    Pidfd,
    UserFault,
    Timer,
    Listener,
    Shared,
}

/// The seals that a memory file may have (fcntl(2)), as their bits.
const SEALS: u32 = 0x1f;

impl Action {
    /// Draws the next action.
    pub(super) fn draw(rng: &mut impl Rng) -> Self {
        let at = rng.random_range(0..1_000);
        match rng.random_range(0..1_000) {
            0..150 => Self::Connect { first: (rng.random_range(0..4) > 0).then(|| first(rng)) },
            150..158 => Self::Crowd { count: rng.random_range(1..150) },
            158..200 => Self::HangUp { at },
            200..210 => Self::HangUpAll,
            210..470 => Self::Say { at, message: Message::draw(rng) },
            470..485 => Self::Pipeline { at, count: rng.random_range(1..300) },
            485..600 => Self::Read { at, count: rng.random_range(1..20) },
            600..670 => Self::Open { wish: Wish::draw(rng), queue: Queue::draw(rng) },
            670..750 => {
                let files =
                    if rng.random_range(0..3) == 0 { Files::draw(rng) } else { Files::default() };
                Self::Ring { at, count: rng.random_range(1..400), files }
            }
            750..810 => {
                Self::Scribble { at, words: rng.random_range(1..4_000), seed: rng.random() }
            }
            810..850 => Self::Memory { at, how: Change::draw(rng) },
            850..865 => Self::Race { at, times: rng.random_range(1..20) },
            865..870 => Self::DropChannels,
            870..874 => Self::Stop,
            874..877 => Self::Die,
            877..895 => Self::Spin { micros: rng.random_range(0..30_000) },
            895..960 => Self::Sleep { micros: rng.random_range(0..20_000) },
            960..975 => Self::Child { kind: ChildKind::draw(rng) },
            975..978 => Self::Churn { count: rng.random_range(1..30) },
            978..992 => Self::Thread { lives: rng.random() },
            _ => Self::Wander { cpu: rng.random_range(0..4) },
        }
    }
}

fn first(rng: &mut impl Rng) -> Message {
    if rng.random_range(0..4) == 0 {
        return Message::draw(rng);
    }
    let files = if rng.random_range(0..6) == 0 { Files::draw(rng) } else { Files::default() };
    Message { body: Body::Hello { version: 1 }, files }
}

impl Message {
    fn draw(rng: &mut impl Rng) -> Self {
        let files = if rng.random_range(0..4) == 0 { Files::draw(rng) } else { Files::default() };
        Self { body: Body::draw(rng), files }
    }
}

impl Body {
    fn draw(rng: &mut impl Rng) -> Self {
        match rng.random_range(0..100) {
            0..3 => Self::Empty,
            3..8 => Self::Garbage { bytes: rng.random_range(1..2_000), seed: rng.random() },
            8..12 => Self::Half { bytes: rng.random_range(1..60) },
            12..14 => Self::Huge { bytes: rng.random_range(65_530..150_000) },
            14..16 => Self::Deep { levels: rng.random_range(1..20_000) },
            16..19 => Self::Hello { version: rng.random_range(0..3) },
            19..25 => Self::Ping,
            25..29 => Self::Status { after: some_number(rng) },
            29..32 => Self::Channels { after: some_number(rng) },
            32..60 => Self::Request(GrantRequest::draw(rng)),
            60..68 => Self::Change { grant: Id::draw(rng), want: GrantRequest::draw(rng) },
            68..76 => Self::Release { grant: Id::draw(rng) },
            76..82 => {
                let guessed = Token::Guessed(rng.random());
                let token = if rng.random() { Token::Known } else { guessed };
                Self::Resume { grant: Id::draw(rng), token }
            }
            82..88 => Self::OpenChannel(Wish::draw(rng)),
            88..92 => Self::ChangeChannel { grant: Id::draw(rng), wish: Wish::draw(rng) },
            92..97 => {
                let first = [None, Some(true), Some(false)][rng.random_range(0..3)];
                Self::Attach { grant: Id::draw(rng), first }
            }
            _ => Self::Mapped { grant: Id::draw(rng) },
        }
    }
}

/// Draws a number that is small, large, or at a boundary.
fn some_number(rng: &mut impl Rng) -> u64 {
    match rng.random_range(0..4) {
        0 => 0,
        1 => rng.random_range(1..40),
        2 => u64::MAX - rng.random_range(0..3),
        _ => rng.random(),
    }
}

impl GrantRequest {
    fn draw(rng: &mut impl Rng) -> Self {
        let kind = match rng.random_range(0..7) {
            0..3 => Kind::Upcalls { count: [1, 1, 2, 64, 65][rng.random_range(0..5)] },
            3 | 4 => Kind::Reservation,
            5 => Kind::Program { hard: rng.random() },
            _ => Kind::Priority,
        };
        let thread = match rng.random_range(0..20) {
            0..12 => ThreadChoice::Own,
            12..15 => ThreadChoice::Leader,
            15 => ThreadChoice::Init,
            16 => ThreadChoice::Parent,
            17 => ThreadChoice::Ended,
            _ => ThreadChoice::Any(rng.random_range(-5..40_000)),
        };
        let ppm = match rng.random_range(0..10) {
            0 => some_number(rng),
            1 => rng.random_range(90_000..110_000),
            _ => rng.random_range(1_000..30_000),
        };
        let period_us = match rng.random_range(0..10) {
            0 => some_number(rng),
            _ => rng.random_range(1_000..100_000),
        };
        Self { kind, thread, ppm, period_us }
    }
}

impl Id {
    fn draw(rng: &mut impl Rng) -> Self {
        match rng.random_range(0..4) {
            0 => Self::Any(some_number(rng)),
            _ => Self::Known(rng.random_range(0..1_000)),
        }
    }
}

impl Wish {
    fn draw(rng: &mut impl Rng) -> Self {
        let slots = match rng.random_range(0..10) {
            0 => rng.random_range(0..70_000),
            _ => 1 << rng.random_range(3..8),
        };
        let bytes = if rng.random_range(0..10) == 0 { 0..100_000 } else { 1..4_000 };
        Self {
            receive: rng.random_range(0..3) == 0,
            bytes: rng.random_range(bytes),
            slots,
            spacing_us: rng.random_range(5_000..100_000),
            burst: rng.random_range(1..5),
            bound_us: (rng.random_range(0..3) > 0).then(|| rng.random_range(10_000..200_000)),
            fragments: rng.random_range(0..4) > 0,
            // Not below 1024, and outside the range from which honest clients get their ports.
            port: rng.random_range(20_000..20_050),
        }
    }
}

impl Queue {
    fn draw(rng: &mut impl Rng) -> Self {
        match rng.random_range(0..10) {
            0 => Self::False { pages: rng.random_range(-2..3), seals: rng.random_range(0..=SEALS) },
            1 => Self::Files(Files::draw(rng)),
            2 => Self::None,
            _ => Self::True,
        }
    }
}

impl Change {
    fn draw(rng: &mut impl Rng) -> Self {
        match rng.random_range(0..5) {
            0 => Self::Truncate { bytes: rng.random_range(0..1 << 20) },
            1 => Self::Punch,
            2 => Self::Fill,
            3 => Self::Seal { bits: rng.random_range(0..=SEALS) },
            _ => Self::Write { word: rng.random_range(0..1_000), value: some_number(rng) },
        }
    }
}

impl ChildKind {
    fn draw(rng: &mut impl Rng) -> Self {
        match rng.random_range(0..4) {
            0 => Self::Subordinate(rng.random_range(0..super::SUBORDINATES)),
            1 => Self::Namespace,
            _ => Self::Plain,
        }
    }
}

impl Files {
    pub(super) fn draw(rng: &mut impl Rng) -> Self {
        let kinds = (0..rng.random_range(1..5)).map(|_| File::draw(rng)).collect();
        let times = [1, 1, 1, 1, 3, 16, 60, 253][rng.random_range(0..8)];
        Self { kinds, times, kept: rng.random() }
    }
}

impl File {
    fn draw(rng: &mut impl Rng) -> Self {
        match rng.random_range(0..18) {
            0..3 => Self::Lingering,
            3 => Self::Nested,
            4 => Self::PipeReader,
            5 => Self::PipeWriter,
            6 | 7 => {
                Self::Memory { pages: rng.random_range(0..64), seals: rng.random_range(0..=SEALS) }
            }
            8 => Self::Event,
            9 => Self::Epoll,
            10 => Self::Directory,
            11 => Self::Null,
            12 => Self::Broker,
            13 => Self::Pidfd,
            14 => Self::UserFault,
            15 => Self::Timer,
            16 => Self::Listener,
            _ => Self::Shared,
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn a_seed_draws_the_same_actions_and_every_kind_of_them() {
        let draw = |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            (0..5_000).map(|_| Action::draw(&mut rng)).collect::<Vec<_>>()
        };
        let actions = draw(1);
        assert_eq!(actions, draw(1));
        assert_ne!(actions, draw(2));
        let text = format!("{actions:?}");
        for kind in ["Crowd", "Pipeline", "Race", "Die", "Churn", "Namespace", "Huge", "UserFault"]
        {
            assert!(text.contains(kind), "{kind}");
        }
    }
}
