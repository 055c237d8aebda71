//! Hostile clients drawn from a seed, and the invariants that must hold during whatever they do.
//!
//! Each hostile user has one process at a time, which performs the actions drawn for it; when it
//! ends, by itself or by a signal, the next one takes its place. The actions of the `n`th process
//! of a user depend on the seed alone. Meanwhile one honest client makes requests, another one
//! sends, and root checks what every user holds.

mod action;
mod body;
mod files;
mod life;
mod rogue;
mod watch;

use punctual_linux::clock;
use punctual_model::Duration;

use super::broker::{Broker, Holds};
use super::honest::{DELAY_BOUND, Requester, RequesterReport, Sender, SenderReport};
use super::person::{FIRST_USER, program_to_become};
use crate::live;

pub(super) use rogue::{play, play_child};

/// The number of subordinate users as which each hostile user can run programs.
const SUBORDINATES: u32 = 3;

/// The parameters of one round.
#[derive(Clone, Debug)]
pub struct Round {
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// How long hostile clients act.
    pub length: Duration,
    /// The number of hostile users.
    pub users: u32,
    /// The kinds of action that are left out, separated by commas: for finding the one that breaks
    /// an invariant.
    pub without: String,
    /// The waits that honest clients may see.
    pub bounds: Bounds,
}

/// The longest that honest clients may wait.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The longest wait for any answer.
    pub worst_ms: u64,
    /// The median wait for an answer.
    pub median_us: u64,
    /// The longest delay of a message of a channel.
    pub delay_ms: u64,
}

impl Bounds {
    /// The bounds that are exceeded only if a client holds other clients up, even on a busy host.
    pub const FUNCTIONAL: Self = Self { worst_ms: 2_000, median_us: 200_000, delay_ms: 1_500 };

    /// The bounds on an otherwise idle host.
    pub const TIGHT: Self = Self { worst_ms: 50, median_us: 5_000, delay_ms: 150 };
}

/// What honest clients observed in a round in which everything held.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The report of the client that made requests.
    pub asked: RequesterReport,
    /// The report of the client that sent.
    pub sent: SenderReport,
    /// The number of processes of hostile clients.
    pub lives: u64,
    /// The number of their actions.
    pub actions: u64,
}

/// The invariants that did not hold.
#[derive(Clone, Debug)]
pub struct Broken {
    /// Whether long waits were the only violation.
    pub is_late: bool,
    /// The violations, with the seed and the last actions of each hostile user.
    pub why: String,
}

/// The additional memory that a broker may use, in KiB: while hostile clients hold what their
/// quotas allow, and when they have gone.
const MEMORY_KB: (u64, u64) = (512 * 1_024, 32 * 1_024);

impl Round {
    /// Lets hostile clients act on `broker`, which held `before` with no client.
    ///
    /// # Errors
    /// Returns the invariants that did not hold.
    pub fn run(&self, broker: &Broker, before: Holds) -> Result<Seen, Broken> {
        let users: Vec<u32> = (0..self.users).map(|number| FIRST_USER + number).collect();
        for user in &users {
            for number in 0..SUBORDINATES {
                // Without setpriv(1) no process can become another user.
                let _ = program_to_become(rogue::subordinate(*user, number), broker.folder());
            }
        }
        let requester = Requester::start(FIRST_USER + 50, &broker.socket());
        let sender = Sender::start(FIRST_USER + 51, &broker.socket());
        let until = clock::now() + self.length;
        let (acted, (mut late, mut problems)) = std::thread::scope(|scope| {
            let watching = scope.spawn(|| watch::until(until, broker, before, self.bounds));
            let start = |user| scope.spawn(move || life::run_user(user, self, broker, until));
            let acting: Vec<_> = users.iter().map(|user| start(*user)).collect();
            let acted: Vec<life::UserRecord> =
                acting.into_iter().map(|one| one.join().expect("no panic")).collect();
            (acted, watching.join().expect("no panic"))
        });
        let resting = watch::rest(&users, broker, &acted);
        problems.extend(resting);
        let last: Vec<String> = acted.iter().map(life::UserRecord::last_actions).collect();
        let (lives, actions) = acted
            .iter()
            .fold((0, 0), |(lives, actions), one| (lives + one.lives, actions + one.actions));
        // The hostile processes die here, with their children.
        drop(acted);
        let (asked, sent) = (requester.end(), sender.end());
        late.extend(self.judge_waits(&asked, &sent));
        problems.extend(judge(&asked, &sent));
        problems.extend(left_behind(broker, before));
        let is_late = problems.is_empty();
        if is_late && late.is_empty() {
            return Ok(Seen { asked, sent, lives, actions });
        }
        problems.extend(late);
        let why = format!(
            "seed {}:\n{}\nwho asked: {asked:?}\nwho sent: {sent:?}\nlast actions:\n{}",
            self.seed,
            problems.join("\n"),
            last.join("\n"),
        );
        Err(Broken { is_late, why })
    }

    fn judge_waits(&self, asked: &RequesterReport, sent: &SenderReport) -> Vec<String> {
        let bounds = self.bounds;
        unheld(&[
            (asked.worst_ms <= bounds.worst_ms, "an honest request waited too long"),
            (asked.median_us <= bounds.median_us, "honest requests waited too long"),
            (sent.delay_ms <= bounds.delay_ms, "an honest message took too long"),
        ])
    }
}

/// Returns the conditions that do not hold.
fn unheld(all: &[(bool, &str)]) -> Vec<String> {
    all.iter().filter(|(holds, _)| !holds).map(|(_, what)| (*what).to_owned()).collect()
}

fn judge(asked: &RequesterReport, sent: &SenderReport) -> Vec<String> {
    let bound_ms = DELAY_BOUND.as_nanos() / 1_000_000;
    let late = sent.delay_ms > bound_ms + 1_000;
    unheld(&[
        (asked.problems.is_empty(), "an honest request was not answered"),
        (asked.granted > 0, "no honest request was granted"),
        (sent.problems.is_empty(), "an honest channel was closed"),
        (sent.arrived == sent.sent && sent.disordered == 0, "an honest channel lost messages"),
        (
            !late || sent.verdict.starts_with("broken"),
            "a channel with a late message is said to be kept",
        ),
    ])
}

/// Returns what the broker still holds that it did not hold before, once it has had time to release
/// it.
fn left_behind(broker: &Broker, before: Holds) -> Vec<String> {
    let is_as_before = || {
        let now = broker.holds();
        now.descriptors <= before.descriptors
            && now.threads <= before.threads
            && now.memory_kb <= before.memory_kb + MEMORY_KB.1
            && now.granted_ppm <= before.granted_ppm
    };
    let mut problems = Vec::new();
    if !live::eventually(is_as_before) {
        problems.push(format!(
            "left behind: {:?}, before {before:?}; {:?}; open: {:?}",
            broker.holds(),
            broker.status().totals,
            broker.open_files(),
        ));
    }
    let nothing = || broker.status().grants.is_empty() && broker.channels().channels.is_empty();
    if !live::eventually(nothing) {
        problems.push(format!("still granted: {:?} {:?}", broker.held(), broker.channels()));
    }
    problems
}
