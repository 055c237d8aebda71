//! Injects one kind of lateness until there is enough of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use punctual_linux::clock;
use punctual_model::{Duration, Service};
use punctual_observe::hold::{Holder, Means, Quota};
use punctual_observe::inject::{self, Plan, Trouble};
use punctual_observe::{Session, Verdict};

use crate::victim::{DEADLINE, WORK};

/// The kind of lateness; its name is the cause that should be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// It works for longer than it declared.
    Own,
    /// A thread at SCHED_FIFO 70 takes its CPU.
    Task,
    /// A hard interrupt takes its CPU.
    HardInterrupt,
    /// A softirq takes its CPU.
    #[value(name = "softirq")]
    SoftIrq,
    /// Its timer may come 8 ms late.
    LateTimer,
    /// Its SCHED_DEADLINE budget is used up.
    ThrottledByKernel,
    /// Its budget in a hard timetable is used up.
    Throttled,
    /// It touches memory that is not present yet.
    PageFault,
    /// It waits for a lock that another thread holds.
    Blocked,
    /// The quota of its control group is used up.
    Quota,
    /// The quota of the control group two levels above its own is used up.
    QuotaAbove,
    /// SIGSTOP stops it.
    Stopped,
    /// The freezer of version 1 holds it.
    FrozenV1,
    /// The freezer of version 2 holds it.
    FrozenV2,
    /// It makes long system calls.
    System,
    /// It makes many short system calls.
    ShortSystem,
}

impl Kind {
    /// Returns the name of the cause in [`punctual_observe::Verdict`].
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Task => "task",
            Self::HardInterrupt => "hard-interrupt",
            Self::SoftIrq => "softirq",
            Self::LateTimer => "late-timer",
            Self::ThrottledByKernel => "throttled-by-kernel",
            Self::Throttled => "throttled",
            Self::PageFault => "page-fault",
            Self::Blocked => "blocked",
            Self::Quota | Self::QuotaAbove => "throttled-by-quota",
            Self::Stopped => "stopped",
            Self::FrozenV1 | Self::FrozenV2 => "frozen",
            Self::System | Self::ShortSystem => "system",
        }
    }

    /// Returns the name by which it is chosen.
    pub(crate) fn name(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    fn means(self) -> Option<Means> {
        match self {
            Self::Stopped => Some(Means::Signal),
            Self::FrozenV1 => Some(Means::FreezerV1),
            Self::FrozenV2 => Some(Means::FreezerV2),
            _ => None,
        }
    }

    /// Returns how many levels above the victim's group the quota is.
    fn levels(self) -> Option<usize> {
        match self {
            Self::Quota => Some(0),
            Self::QuotaAbove => Some(2),
            _ => None,
        }
    }

    fn trouble(self) -> Option<Trouble> {
        match self {
            Self::Task => Some(Trouble::Fifo(70)),
            Self::HardInterrupt => Some(Trouble::HardInterrupt),
            Self::SoftIrq => Some(Trouble::SoftIrq),
            _ => None,
        }
    }
}

/// The time that the victim has to start.
const STARTING: Duration = Duration::from_secs(2);

/// The causes that were named.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    /// The number of late jobs with each main cause.
    pub(crate) main: BTreeMap<&'static str, usize>,
    /// The part of all tardiness attributed to each cause.
    pub(crate) share: BTreeMap<&'static str, Duration>,
    pub(crate) jobs: usize,
    pub(crate) took: Duration,
    pub(crate) records_lost: u64,
    /// Places at which the kernel's records have holes, and jobs that were not judged for it.
    pub(crate) holes: u64,
    pub(crate) unjudged: u64,
}

struct Victim(Child);

impl Victim {
    fn of(kind: Kind, punctual: &Path) -> Result<Self, String> {
        let this = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = if kind == Kind::Throttled {
            let mut command = Command::new(punctual);
            command.args(["run", "--quiet", "--hard", "--backend", "timetable", "--cpu", "0"]);
            command.args(["--reserve", "1ms/10ms", "--"]).arg(&this);
            command
        } else {
            Command::new(&this)
        };
        command.args(["victim", &kind.name()]);
        punctual_linux::process::die_with_parent(&mut command);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        child.map(Self).map_err(|error| format!("{}: {error}", command.get_program().display()))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        // Terminated, so that it can give back what it holds; it ends by itself at the latest.
        let _ = punctual_linux::process::send(&self.0, punctual_linux::process::Signal::TERM);
        let until = clock::now() + Duration::from_secs(3);
        while clock::now() < until {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            clock::sleep(Duration::from_millis(5));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs until there are `enough` late jobs, or for `seconds`. Fails with the reason if this host
/// cannot.
pub(crate) fn make(
    kind: Kind,
    enough: usize,
    seconds: u64,
    punctual: &Path,
) -> Result<Named, String> {
    let declared = (WORK + Duration::from_micros(500)).as_full_service();
    let deadline = if kind == Kind::LateTimer { Duration::from_millis(2) } else { DEADLINE };
    let declared = if kind == Kind::Throttled { Service::from_millis(5) } else { declared };
    let mut session = Session::start(deadline, Some(declared)).map_err(|why| why.to_string())?;
    if kind == Kind::Throttled {
        let punctual = punctual.canonicalize().map_err(|error| error.to_string())?;
        session.enforced_by(punctual, &["run"]);
    }
    let victim = Victim::of(kind, punctual)?;
    session.follow(victim.0.id());
    let (stop, stopped) = mpsc::channel::<()>();
    // 6 ms in 17: more than a third of the victim's jobs, and no multiple of its period.
    let (burn, period) = (Duration::from_millis(6), Duration::from_millis(17));
    let goes_on = move || stopped.try_recv() == Err(mpsc::TryRecvError::Empty);
    let mut injecting = None;
    if let Some(trouble) = kind.trouble() {
        let length = Duration::from_secs(seconds);
        let plan = Plan { trouble, cpu: 0, burn, period, length };
        injecting = Some(std::thread::spawn(move || {
            inject::inject(plan, goes_on).map(drop).map_err(|why| why.to_string())
        }));
    } else if let Some(means) = kind.means() {
        let holder = Holder::new(means, victim.0.id()).map_err(|why| why.to_string())?;
        injecting = Some(std::thread::spawn(move || {
            holder.alternate(burn, period, goes_on).map(drop).map_err(|why| why.to_string())
        }));
    }
    let quota = kind.levels().map(|levels| {
        // 3 ms in 30: every job that overruns exhausts it.
        let (quota, period) = (Duration::from_millis(3), Duration::from_millis(30));
        Quota::of(victim.0.id(), quota, period, levels)
    });
    let _quota = quota.transpose().map_err(|why| why.to_string())?;
    let mut named = Named::default();
    let begun = clock::now();
    let end = begun + Duration::from_secs(seconds);
    let lives = |session: &Session| session.is_alive() || clock::now() < begun + STARTING;
    while named.jobs < enough && lives(&session) && clock::now() < end {
        clock::sleep(Duration::from_millis(20));
        for verdict in session.turn() {
            let subject = session.subject(verdict.late.job.task);
            if subject.is_some_and(|subject| subject.name == "why-study") {
                named.add(&verdict);
            }
        }
    }
    named.took = clock::now().saturating_since(begun);
    drop(stop);
    if let Some(injecting) = injecting {
        injecting.join().map_err(|_| "the injection panicked".to_owned())??;
    }
    let ended = session.end();
    (named.records_lost, named.holes) = (ended.counts.lost, ended.holes);
    let judged = ended.subjects.iter().map(|(_, judged)| judged);
    named.unjudged = judged.map(|judged| judged.unjudged).sum();
    Ok(named)
}

impl Named {
    fn add(&mut self, verdict: &Verdict) {
        self.jobs += 1;
        let main = verdict.main().map_or("none", |share| share.cause.word());
        *self.main.entry(main).or_default() += 1;
        for share in &verdict.shares {
            let all = self.share.entry(share.cause.word()).or_default();
            *all = all.saturating_add(share.share);
        }
    }
}
