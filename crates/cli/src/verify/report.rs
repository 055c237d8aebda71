//! What there is to tell: the promises, and what was found of each, wherever it was found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use punctual_model::{Contract, Duration, Stream};
use punctual_observe::{Ended, Verdict as Cause};
use punctual_trace::check::Judged;
use punctual_trace::{Subject, SubjectKind};

use super::brokered::Brokered;
use super::declared::Undriven;
use super::evidence::Evidence;
use super::programs::Owners;
use super::promises::{Became, Outcome, Promised, Promises, of_all};

/// A channel of the emulated link: its name, its number in the session, what became of it.
pub(super) type Channel = (String, u32, Outcome);

/// All of it.
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
        let mut refused = Promised::of("contract", "admission", Became::Broken(why.to_owned()));
        refused.evidence.push(Evidence::Admission);
        Self::new(contract, Promises(vec![refused]))
    }

    pub(super) fn ran(&mut self, length: Duration) {
        self.ran = length;
    }

    pub(super) fn programs_ended(&mut self, status: Option<ExitStatus>) {
        self.ended = status;
    }

    /// Remembers why jobs were late.
    pub(super) fn late(&mut self, verdicts: &[Cause]) {
        for verdict in verdicts {
            let main =
                verdict.main().map_or_else(|| "none".to_owned(), |share| share.cause.to_string());
            *self.causes.entry(verdict.late.job.task).or_default().entry(main).or_default() += 1;
        }
    }

    /// These could not be run.
    pub(super) fn undriven(&mut self, contract: &Contract, undriven: &[Undriven]) {
        for Undriven { name, why } in undriven {
            if let Some(promised) = self.of(owner(contract, name)) {
                promised.cannot(why);
            }
        }
    }

    /// Lays what became of the subjects to the promises of the contract as it was declared.
    pub(super) fn judge(&mut self, contract: &Contract, ended: &Ended, owners: &Owners) {
        self.late(&ended.verdicts);
        (self.records_lost, self.missing) = (ended.counts.lost, ended.missing.clone());
        let mut of: BTreeMap<(Evidence, &str), Vec<u32>> = BTreeMap::new();
        for (number, (subject, _)) in (0..).zip(&ended.subjects) {
            let program = |tid| contract.commands.get(owners.of(tid)?);
            let key = match subject {
                Subject { kind: SubjectKind::Upcall | SubjectKind::Task, name, .. } => {
                    (Evidence::Synthetic, &**name)
                }
                Subject { kind: SubjectKind::Thread, thread: Some(tid), .. } => match program(*tid)
                {
                    Some(command) if command.held().is_some() => {
                        (Evidence::Program, command.name())
                    }
                    _ => continue,
                },
                // Its own books say more than its events.
                _ => continue,
            };
            of.entry(key).or_default().push(number);
        }
        for ((evidence, name), numbers) in of {
            let judged: Vec<&Judged> =
                numbers.iter().map(|&at| &ended.subjects[at as usize].1).collect();
            self.found(contract, name, evidence, of_all(&judged), &numbers);
        }
    }

    /// What became of channels on an emulated link.
    pub(super) fn emulated(&mut self, contract: &Contract, channels: Vec<Channel>) {
        for (name, number, outcome) in channels {
            self.found(contract, &name, Evidence::EmulatedLink, outcome, &[number]);
        }
    }

    /// What the broker says of channels.
    pub(super) fn brokered(&mut self, contract: &Contract, brokered: &Brokered) {
        for (name, outcome) in brokered.outcomes() {
            self.found(contract, name, Evidence::Broker, outcome, &[]);
        }
    }

    fn found(
        &mut self,
        contract: &Contract,
        name: &str,
        evidence: Evidence,
        outcome: Outcome,
        numbers: &[u32],
    ) {
        let causes: Vec<_> = numbers.iter().filter_map(|at| self.causes.remove(at)).collect();
        let Some(promised) = self.of(owner(contract, name)) else { return };
        promised.found(evidence, outcome);
        causes.iter().for_each(|causes| promised.because(causes));
    }

    /// The promise of an entry; what the contract as a whole was promised has a name of ours.
    fn of(&mut self, name: &str) -> Option<&mut Promised> {
        self.promises.iter_mut().find(|one| one.kind != "contract" && one.name == name)
    }

    /// At least one promise was.
    pub(super) fn is_broken(&self) -> bool {
        self.promises.iter().any(|one| matches!(one.became, Became::Broken(_)))
    }
}

/// Whose promise it is: that of the stream, where a stream became this. Names are unique over all kinds.
fn owner<'a>(contract: &'a Contract, name: &'a str) -> &'a str {
    let is_its = |stream: &&Stream| Stream::channel_name_of(stream.name()) == name;
    contract.streams.iter().find(is_its).map_or(name, Stream::name)
}
