//! Assigns each finding to its promise.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;

use punctual_model::{Contract, Duration, Stream};
use punctual_observe::{Ended, Verdict as Cause};
use punctual_trace::check::Judged;
use punctual_trace::{Subject, SubjectKind};

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use super::brokered::Brokered;
use super::programs::Owners;
use super::promises::{Evidence, Outcome, PromiseVerdict, Promised, of_all};
use super::synthetic::Undriven;

/// A channel of the emulated link: its name, its number in the session, and its outcome.
pub(super) type Channel = (String, u32, Outcome);

/// The promises of a contract, with a verdict on each.
#[derive(Clone, Debug)]
pub struct Report {
    /// The path of the contract.
    pub contract: String,
    /// The length of the run.
    pub ran: Duration,
    /// The promises.
    pub promises: Vec<Promised>,
    /// The exit status of the programs, if they ended by themselves.
    pub ended: Option<ExitStatus>,
    /// The number of records of the kernel that were lost. Jobs are missing if it is not zero.
    pub records_lost: u64,
    /// The observations that this kernel does not provide.
    pub missing: Vec<&'static str>,
    /// The main causes of late jobs, by the number of the subject.
    causes: BTreeMap<u32, BTreeMap<String, u64>>,
}

/// Keys are never renamed, only added.
impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut page = serializer.serialize_struct("Report", 9)?;
        page.serialize_field("contract", &self.contract)?;
        page.serialize_field("ran_ns", &self.ran.as_nanos())?;
        page.serialize_field("broken", &self.is_broken())?;
        page.serialize_field("unjudged", &self.unjudged())?;
        page.serialize_field("kept", &self.is_kept())?;
        page.serialize_field("promises", &self.promises)?;
        page.serialize_field("programs_ended", &self.ended.map(|status| status.to_string()))?;
        page.serialize_field("records_lost", &self.records_lost)?;
        page.serialize_field("not_told", &self.missing)?;
        page.end()
    }
}

impl Report {
    pub(super) fn new(contract: &Path, promises: Vec<Promised>) -> Self {
        Self {
            contract: contract.display().to_string(),
            ran: Duration::ZERO,
            promises,
            ended: None,
            records_lost: 0,
            missing: Vec::new(),
            causes: BTreeMap::new(),
        }
    }

    /// Makes the report of a contract that is refused. Nothing ran.
    pub(super) fn refused(contract: &Path, why: &str) -> Self {
        let mut refused =
            Promised::of("contract", "admission", PromiseVerdict::Broken(why.to_owned()));
        refused.evidence.push(Evidence::Admission);
        Self::new(contract, vec![refused])
    }

    /// Stores the causes of late jobs.
    pub(super) fn late(&mut self, verdicts: &[Cause]) {
        for verdict in verdicts {
            let main =
                verdict.main().map_or_else(|| "none".to_owned(), |share| share.cause.to_string());
            *self.causes.entry(verdict.late.job.task).or_default().entry(main).or_default() += 1;
        }
    }

    /// Notes the entries that could not be run.
    pub(super) fn undriven(&mut self, contract: &Contract, undriven: &[Undriven]) {
        for Undriven { name, why } in undriven {
            if let Some(promised) = self.of(owner(contract, name)) {
                promised.cannot(why);
            }
        }
    }

    /// Assigns the results of the subjects to the promises of the declared contract.
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
                // The channel's own account is more complete than its events.
                _ => continue,
            };
            of.entry(key).or_default().push(number);
        }
        for ((evidence, name), numbers) in of {
            let judged: Vec<&Judged> =
                numbers.iter().map(|&at| &ended.subjects[at as usize].1).collect();
            self.found(contract, name, evidence, of_all(&judged), &numbers);
            let taken = numbers.iter().filter_map(|&at| {
                let taken = ended.taken.get(&at).filter(|taken| taken.release.is_some())?;
                Some(format!("{}: {taken}", ended.subjects[at as usize].0.name))
            });
            let taken: Vec<String> = taken.collect();
            if let Some(promised) = self.of(owner(contract, name)) {
                promised.taken.extend(taken);
            }
        }
    }

    /// Adds the outcomes of channels on an emulated link.
    pub(super) fn emulated(&mut self, contract: &Contract, channels: Vec<Channel>) {
        for (name, number, outcome) in channels {
            self.found(contract, &name, Evidence::EmulatedLink, outcome, &[number]);
        }
    }

    /// Adds the broker's reports on channels.
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

    /// Returns the promise of an entry. A promise of the contract as a whole has a name of ours,
    /// and is left out.
    fn of(&mut self, name: &str) -> Option<&mut Promised> {
        self.promises.iter_mut().find(|one| one.kind != "contract" && one.name == name)
    }

    /// Returns the number of promises that could not be judged.
    pub fn unjudged(&self) -> usize {
        self.promises.iter().filter(|one| one.is_unjudged()).count()
    }

    /// Returns whether every promise was judged and none was broken, and no program failed.
    pub fn is_kept(&self) -> bool {
        let has_failed = self.ended.is_some_and(|status| !status.success());
        !self.is_broken() && self.unjudged() == 0 && !has_failed
    }

    /// Returns whether at least one promise was broken.
    pub fn is_broken(&self) -> bool {
        self.promises.iter().any(|one| matches!(one.became, PromiseVerdict::Broken(_)))
    }
}

/// Returns the name under which the promise was declared: the stream's, if `name` was derived from
/// one. Names are unique over all kinds.
fn owner<'a>(contract: &'a Contract, name: &'a str) -> &'a str {
    let is_its = |stream: &&Stream| Stream::channel_name_of(stream.name()) == name;
    contract.streams.iter().find(is_its).map_or(name, Stream::name)
}
