//! The scenarios, independent of what runs them.
//!
//! Times are in units. Releases, ends of iterations and commands lie several units apart, so that
//! the order of decisions does not depend on a smaller delay. A guard that is always woken late
//! gives an iteration its time four times before it contains it (`REPRIEVES` in `runtime`): a
//! containment and the next event are at least that far apart.

use punctual_model::{BestEffort, BestEffortSpec, Duration, Overrun, Service, Upcall, UpcallSpec};

/// A handler described by its iterations: the time of each and the number of PDUs it processes. The
/// last pair repeats.
pub(crate) type Script = &'static [(u64, u32)];

#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) period: u64,
    pub(crate) batch: u32,
    pub(crate) quantum: u32,
    /// The promised units for a PDU; zero means nearly nothing.
    pub(crate) promised: u64,
    pub(crate) overrun: Overrun,
    pub(crate) first_release: u64,
    pub(crate) script: Script,
}

#[derive(Clone, Copy)]
pub(crate) enum Command {
    Create(Job),
    Suspend(u32),
    Resume(u32),
    Close(u32),
    /// A change to this period; everything else stays.
    Change(u32, u64),
    /// A best-effort handler with a quantum of one PDU of one unit, called again after `poll`
    /// units, with this script.
    BestEffort {
        poll: u64,
        script: Script,
    },
}

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) jobs: &'static [Job],
    pub(crate) commands: &'static [(u64, Command)],
    /// The grace of containment, and the number of containments after which an upcall is closed.
    pub(crate) containment: Option<(u64, u32)>,
    /// The end, after several units without events.
    pub(crate) until: u64,
}

/// Returns a job of one PDU, of this many units each time.
const fn job(period: u64, script: Script) -> Job {
    let (overrun, first_release) = (Overrun::CatchUp, 0);
    Job { period, batch: 1, quantum: 1, promised: 0, overrun, first_release, script }
}

const fn scenario(name: &'static str, jobs: &'static [Job], until: u64) -> Scenario {
    Scenario { name, jobs, commands: &[], containment: None, until }
}

const LATE_ONCE: Script = &[(50, 1), (2, 1)];

pub(crate) const SCENARIOS: &[Scenario] = &[
    scenario(
        "of two released together the higher rate goes first",
        &[job(40, &[(4, 1)]), job(20, &[(3, 1)])],
        75,
    ),
    scenario(
        "a job gives way at its yield points and goes on with the rest of its batch",
        &[Job { batch: 4, ..job(100, &[(8, 1)]) }, Job { first_release: 12, ..job(60, &[(4, 1)]) }],
        90,
    ),
    scenario(
        "of equal periods the one created first goes first, and gives way to nobody",
        &[
            Job { batch: 3, ..job(60, &[(4, 1)]) },
            Job { batch: 3, first_release: 6, ..job(60, &[(4, 1)]) },
        ],
        52,
    ),
    scenario(
        "no PDUs end the job",
        &[Job { batch: 4, ..job(40, &[(4, 1), (4, 0), (4, 1), (4, 0)]) }],
        70,
    ),
    scenario("catch up: every late job runs, oldest first", &[job(20, LATE_ONCE)], 75),
    scenario(
        "notify: the same, and told of",
        &[Job { overrun: Overrun::Notify, ..job(20, LATE_ONCE) }],
        75,
    ),
    scenario(
        "skip: what is late before it began is dropped",
        &[Job { overrun: Overrun::Skip, ..job(20, LATE_ONCE) }],
        75,
    ),
    scenario(
        "skip: one that has begun goes on past its deadline",
        &[Job { batch: 2, overrun: Overrun::Skip, ..job(20, &[(26, 1), (5, 1), (2, 1)]) }],
        55,
    ),
    scenario(
        "abort: it ends at the first yield point past its deadline",
        &[Job { batch: 3, overrun: Overrun::Abort, ..job(20, &[(30, 1), (1, 1)]) }],
        55,
    ),
    scenario(
        "demote: it runs after those it would have preempted, until it has caught up",
        &[
            Job { overrun: Overrun::Demote, ..job(20, &[(45, 1), (1, 1)]) },
            Job { first_release: 30, ..job(100, &[(3, 1)]) },
        ],
        75,
    ),
    Scenario {
        commands: &[(30, Command::Suspend(0)), (70, Command::Resume(0))],
        ..scenario("resumed on the old grid", &[job(20, &[(2, 1)])], 112)
    },
    Scenario {
        commands: &[(12, Command::Suspend(0)), (70, Command::Resume(0))],
        ..scenario(
            "suspended with work to do: that is dropped",
            &[Job { batch: 2, quantum: 1, ..job(40, &[(25, 1), (2, 1)]) }],
            92,
        )
    },
    Scenario {
        commands: &[(30, Command::Change(0, 30))],
        ..scenario("a new period begins at the end of the old", &[job(20, &[(2, 1)])], 85)
    },
    Scenario {
        commands: &[(30, Command::Create(Job { first_release: 3, ..job(20, &[(2, 1)]) }))],
        ..scenario(
            "a first release long past: the next instant of its grid, and nothing to catch up with",
            &[job(50, &[(2, 1)])],
            92,
        )
    },
    Scenario {
        commands: &[(30, Command::Create(Job { first_release: 18, ..job(40, &[(2, 1)]) }))],
        ..scenario(
            "a first release less than a period past: at once, in its phase",
            &[job(50, &[(2, 1)])],
            90,
        )
    },
    Scenario {
        commands: &[(30, Command::Close(0))],
        ..scenario("closed", &[job(20, &[(2, 1)]), job(50, &[(2, 1)])], 70)
    },
    Scenario {
        containment: Some((1, 3)),
        ..scenario(
            "contained: the others go on, and it rejoins when it has come back",
            &[
                Job { promised: 1, ..job(20, &[(55, 1), (1, 1)]) },
                Job { promised: 1, first_release: 12, ..job(30, &[(1, 1)]) },
            ],
            88,
        )
    },
    Scenario {
        containment: Some((1, 1)),
        ..scenario(
            "contained too often: closed",
            &[
                Job { promised: 1, ..job(40, &[(15, 1)]) },
                Job { promised: 1, first_release: 25, ..job(30, &[(1, 1)]) },
            ],
            75,
        )
    },
    Scenario {
        containment: Some((5, 3)),
        commands: &[(10, Command::BestEffort { poll: 40, script: &[(1, 1), (1, 1), (0, 0)] })],
        ..scenario(
            "best effort runs in the pauses",
            &[Job { promised: 4, ..job(30, &[(4, 1)]) }],
            50,
        )
    },
];

impl Job {
    pub(crate) fn upcall(&self, unit: Duration) -> Upcall {
        Upcall::new(UpcallSpec {
            name: "scenario".into(),
            period: unit * self.period,
            batch: self.batch,
            quantum: self.quantum,
            time_per_pdu: (unit * self.promised).as_full_service().max(Service::from_nanos(1)),
        })
        .expect("a valid scenario")
        .with_overrun(self.overrun)
    }
}

pub(crate) fn best_effort(poll: u64, unit: Duration) -> BestEffort {
    BestEffort::new(BestEffortSpec {
        name: "scenario".into(),
        weight: 1,
        quantum: 1,
        time_per_pdu: unit.as_full_service(),
        poll: unit * poll,
    })
    .expect("a valid scenario")
}

/// A position in a script.
pub(crate) struct Step {
    script: Script,
    next: usize,
}

impl Step {
    pub(crate) fn of(script: Script) -> Self {
        Self { script, next: 0 }
    }

    /// Returns the length of the next iteration, in units, and the number of PDUs it processes.
    pub(crate) fn take(&mut self) -> (u64, u32) {
        let step = self.script[self.next.min(self.script.len() - 1)];
        self.next += 1;
        step
    }
}
