//! The promises of a contract, and what became of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use punctual_model::{Contract, Duration};
use punctual_observe::{Ended, Verdict as Cause};
use punctual_trace::check::{Judged, Verdict, Why};
use punctual_trace::{Subject, SubjectKind};

use super::programs::Owners;

/// What became of a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Became {
    Kept,
    /// With a sentence.
    Broken(String),
    /// And why.
    NotJudgeable(String),
}

/// One promise.
#[derive(Clone, Debug)]
pub(super) struct Promised {
    /// `command`, `upcall`, …
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) became: Became,
    pub(super) jobs: u64,
    pub(super) late: u64,
    pub(super) max_tardiness: Duration,
    /// The main causes of its late jobs, with the latest told in full; the most frequent first.
    pub(super) causes: Vec<(String, u64)>,
}

/// All promises of a contract, before anything ran.
pub(super) struct Promises(Vec<Promised>);

impl Promises {
    pub(super) fn of(contract: &Contract) -> Self {
        let mut all = vec![Promised::of("contract", "admission", Became::Kept)];
        let no = |why: &str| Became::NotJudgeable(why.to_owned());
        let held: Vec<usize> = contract
            .commands
            .iter()
            .filter_map(|command| Some(command.held()?.reservation))
            .collect();
        for command in &contract.commands {
            let became = match command.held() {
                Some(_) => no("it was not seen to run"),
                None => no("an ordinary program: nothing was promised to it"),
            };
            all.push(Promised::of("command", command.name(), became));
        }
        for upcall in &contract.upcalls {
            all.push(Promised::of("upcall", upcall.name(), no("it was not seen to run")));
        }
        for (at, named) in contract.reservations.iter().enumerate() {
            if !held.contains(&at) {
                all.push(Promised::of("reservation", &named.name, no("no command holds it")));
            }
        }
        let is_upcall = |name: &str| contract.upcalls.iter().any(|upcall| upcall.name() == name);
        for task in contract.tasks.iter().filter(|task| !is_upcall(task.name())) {
            let why = no("a task has no program; it is admitted, and run by nobody");
            all.push(Promised::of("task", task.name(), why));
        }
        let channels = contract.channels.iter().map(punctual_model::channel::Channel::name);
        let channels = channels.chain(contract.best_effort.iter().map(|one| &*one.name));
        for name in channels.chain(contract.receiving.iter().map(|one| &*one.name)) {
            let why = no("the broker keeps the account of channels (punctual status)");
            all.push(Promised::of("channel", name, why));
        }
        for stream in &contract.streams {
            let why = no("a stream has no program; it is admitted, and run by nobody");
            all.push(Promised::of("stream", stream.name(), why));
        }
        Self(all)
    }
}

impl Promised {
    fn of(kind: &'static str, name: &str, became: Became) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            became,
            jobs: 0,
            late: 0,
            max_tardiness: Duration::ZERO,
            causes: Vec::new(),
        }
    }

    /// What was found of all its subjects together.
    fn judge(&mut self, judged: &[&Judged], causes: Vec<(String, u64)>) {
        self.jobs = judged.iter().map(|one| one.complete).sum();
        self.late = judged.iter().map(|one| one.late).sum();
        let latest = judged.iter().map(|one| one.max_tardiness).max();
        self.max_tardiness = latest.unwrap_or(Duration::ZERO);
        self.causes = causes;
        // A thread without a job, or without a promise, says nothing about the others.
        let nothing = |one: &&&Judged| {
            matches!(one.verdict, Verdict::NotJudgeable(Why::NoJob | Why::NoPromise))
        };
        let cannot = judged.iter().filter(|one| !nothing(one)).find_map(|one| match one.verdict {
            Verdict::NotJudgeable(why) => Some(why.to_string()),
            _ => None,
        });
        let any_kept = judged.iter().any(|one| one.verdict == Verdict::Kept);
        self.became = match (self.late, cannot) {
            (1.., _) => Became::Broken(format!(
                "{} of {} jobs were late, the latest by {}{}",
                self.late,
                self.jobs.max(self.late),
                self.max_tardiness,
                self.causes.first().map_or(String::new(), |(main, _)| format!(
                    "; the most frequent cause: {main}"
                ))
            )),
            (_, Some(why)) => Became::NotJudgeable(why),
            (_, None) if any_kept => Became::Kept,
            _ => Became::NotJudgeable(
                "no job was released: it never waited for anything, or did not run".to_owned(),
            ),
        };
    }
}

/// What there is to tell.
pub(super) struct Report {
    pub(super) contract: PathBuf,
    pub(super) ran: Duration,
    pub(super) promises: Vec<Promised>,
    /// How the programs ended, if they did by themselves.
    pub(super) ended: Option<ExitStatus>,
    pub(super) records_lost: u64,
    pub(super) missing: Vec<&'static str>,
    /// By the number of the subject: its late jobs' main causes.
    causes: BTreeMap<u32, BTreeMap<String, u64>>,
}

impl Report {
    pub(super) fn new(contract: &Path, promises: Promises) -> Self {
        Self {
            contract: contract.to_owned(),
            ran: Duration::ZERO,
            promises: promises.0,
            ended: None,
            records_lost: 0,
            missing: Vec::new(),
            causes: BTreeMap::new(),
        }
    }

    /// Nothing ran.
    pub(super) fn refused(contract: &Path, why: &str) -> Self {
        let refused = Promised::of("contract", "admission", Became::Broken(why.to_owned()));
        Self::new(contract, Promises(vec![refused]))
    }

    pub(super) fn ran(&mut self, length: Duration) {
        self.ran = length;
    }

    pub(super) fn programs_ended(&mut self, status: Option<ExitStatus>) {
        self.ended = status;
    }

    /// Remembers why a job was late.
    pub(super) fn late(&mut self, verdict: &Cause) {
        let main =
            verdict.main().map_or_else(|| "none".to_owned(), |share| share.cause.to_string());
        *self.causes.entry(verdict.late.job.task).or_default().entry(main).or_default() += 1;
    }

    /// Lays what became of the subjects to the promises.
    pub(super) fn judge(&mut self, contract: &Contract, ended: Ended, owners: &Owners) {
        for verdict in &ended.verdicts {
            self.late(verdict);
        }
        (self.records_lost, self.missing) = (ended.counts.lost, ended.missing);
        let mut of: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
        for (number, (subject, _)) in ended.subjects.iter().enumerate() {
            let owner = |tid| contract.commands.get(owners.of(tid)?);
            let key = match subject {
                Subject { kind: SubjectKind::Upcall, name, .. } => ("upcall", &**name),
                Subject { thread: Some(tid), .. } => match owner(*tid) {
                    Some(command) if command.held().is_some() => ("command", command.name()),
                    _ => continue,
                },
                _ => continue,
            };
            of.entry(key).or_default().push(number);
        }
        for promised in &mut self.promises {
            let Some(numbers) = of.get(&(promised.kind, &*promised.name)) else { continue };
            let judged: Vec<&Judged> = numbers.iter().map(|&at| &ended.subjects[at].1).collect();
            let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
            for &number in numbers {
                for (cause, jobs) in self.causes.get(&(number as u32)).into_iter().flatten() {
                    *causes.entry(cause).or_default() += jobs;
                }
            }
            let mut causes: Vec<(String, u64)> =
                causes.into_iter().map(|(cause, jobs)| (cause.to_owned(), jobs)).collect();
            causes.sort_by_key(|(_, jobs)| std::cmp::Reverse(*jobs));
            promised.judge(&judged, causes);
        }
    }

    /// At least one promise was.
    pub(super) fn is_broken(&self) -> bool {
        self.promises.iter().any(|one| matches!(one.became, Became::Broken(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(verdict: Verdict, complete: u64, late: u64) -> Judged {
        let (first_late, max_tardiness, too_early) = (None, Duration::from_nanos(late), 0);
        Judged { verdict, complete, late, first_late, max_tardiness, too_early }
    }

    #[test]
    fn one_broken_thread_breaks_the_promise_of_its_command() {
        let kept = judged(Verdict::Kept, 5, 0);
        let broken = judged(Verdict::Broken, 4, 2);
        let lost = judged(Verdict::NotJudgeable(Why::Lost { events: 3 }), 1, 0);
        let nothing = judged(Verdict::NotJudgeable(Why::NoJob), 0, 0);
        let became = |all: &[&Judged]| {
            let mut promised = Promised::of("command", "a", Became::Kept);
            promised.judge(all, Vec::new());
            promised.became
        };
        assert!(
            matches!(became(&[&kept, &broken, &lost]), Became::Broken(why) if why.contains("2 of 10"))
        );
        assert!(
            matches!(became(&[&kept, &lost]), Became::NotJudgeable(why) if why.contains("lost"))
        );
        assert_eq!(became(&[&kept, &nothing]), Became::Kept);
        assert!(matches!(became(&[&nothing]), Became::NotJudgeable(_)));
    }
}
