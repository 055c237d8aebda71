//! The promises of a contract, with their verdicts and the evidence for these.

use std::collections::BTreeMap;
use std::path::PathBuf;

use punctual_model::{Contract, Duration};
use punctual_trace::check::{Judged, Unjudgeable, Verdict};
use serde::ser::{Serialize, SerializeStruct as _, Serializer};

/// The options of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The length of the run. It is shorter if all programs end before and nothing else runs.
    pub length: Duration,
    /// Whether only the commands of the contract run, without stand-ins for missing code.
    pub only_programs: bool,
    /// The socket of the broker, which is asked for channels, and for reservations if this process
    /// has no privilege.
    pub broker: PathBuf,
    /// The path of the program `punctual`, whose command `run` runs the commands of the contract in
    /// a process of its own. With `None` they do not run, and their promises are not judgeable.
    pub run_by: Option<PathBuf>,
}

/// The way in which a promise was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// Arithmetic, before anything ran.
    Admission,
    /// The program of the contract, watched from outside.
    Program,
    /// Synthetic work of the declared time, which the runtime runs in place of the user's code.
    Synthetic,
    /// Messages as declared, sent through the channels' sender to a link without a receiver.
    EmulatedLink,
    /// A broker's counts for a channel that a program uses.
    Broker,
}

impl Evidence {
    /// Returns the word for tables and for the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Program => "program",
            Self::Synthetic => "synthetic work",
            Self::EmulatedLink => "emulated link",
            Self::Broker => "broker",
        }
    }

    /// Says what the evidence shows, and what it does not.
    pub fn text(self) -> &'static str {
        match self {
            Self::Admission => "the numbers of the contract were examined; nothing ran for it",
            Self::Program => {
                "the program itself ran; its threads were watched by the kernel's records"
            }
            Self::Synthetic => {
                "work that uses 95 % of the declared time ran in place of the code: it shows that host \
                 and runtime keep the promise, not that the code needs no more than was declared"
            }
            Self::EmulatedLink => {
                "messages of the largest size as often as declared went through the sender of channels \
                 to an emulated link: it shows that host and sender keep the promise, not that the \
                 programs and the network do"
            }
            Self::Broker => "the broker counted the messages of the program that holds the channel",
        }
    }
}

/// The verdict on a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromiseVerdict {
    /// It was kept.
    Kept,
    /// It was broken, as the sentence says.
    Broken(String),
    /// It cannot be judged; the sentence says what is missing.
    NotJudgeable(String),
}

impl PromiseVerdict {
    /// Returns the word for the JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Broken(_) => "broken",
            Self::NotJudgeable(_) => "not judgeable",
        }
    }
}

/// The finding for a promise, or for a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) became: PromiseVerdict,
    pub(super) jobs: u64,
    pub(super) late: u64,
    pub(super) max_tardiness: Duration,
}

/// Returns the sentence of a verdict without its first word, which is printed elsewhere.
pub(super) fn broken(verdict: &str) -> String {
    verdict.strip_prefix("broken: ").unwrap_or(verdict).to_owned()
}

/// One promise.
#[derive(Clone, Debug)]
pub struct Promised {
    /// The kind of the entry: `command`, `upcall`, …
    pub kind: &'static str,
    /// The name of the entry.
    pub name: String,
    /// The verdict.
    pub became: PromiseVerdict,
    /// Whether no verdict was wanted: nothing was promised, or only programs were to be judged.
    pub excused: bool,
    /// The evidence for the verdict; empty while there is none.
    pub evidence: Vec<Evidence>,
    /// What was taken to be a job of each thread of a program, as sentences.
    pub taken: Vec<String>,
    /// The number of jobs or messages that were seen.
    pub jobs: u64,
    /// The number of those that were late.
    pub late: u64,
    /// The largest tardiness.
    pub max_tardiness: Duration,
    /// The main causes of late jobs, with the number of jobs for each; the most frequent first.
    pub causes: Vec<(String, u64)>,
}

/// Keys are never renamed, only added.
impl Serialize for Promised {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Cause<'a> {
            cause: &'a str,
            jobs: u64,
        }
        let evidence: Vec<&str> = self.evidence.iter().map(|one| one.name()).collect();
        let causes = self.causes.iter().map(|(cause, jobs)| Cause { cause, jobs: *jobs });
        let mut one = serializer.serialize_struct("Promised", 10)?;
        one.serialize_field("kind", self.kind)?;
        one.serialize_field("name", &self.name)?;
        one.serialize_field("verdict", self.became.name())?;
        one.serialize_field("why", &self.why())?;
        one.serialize_field("evidence", &evidence)?;
        one.serialize_field("taken", &self.taken)?;
        one.serialize_field("jobs", &self.jobs)?;
        one.serialize_field("late", &self.late)?;
        one.serialize_field("max_tardiness_ns", &self.max_tardiness.as_nanos())?;
        one.serialize_field("causes", &causes.collect::<Vec<_>>())?;
        one.end()
    }
}

/// Returns all promises of a contract, before anything runs.
pub(super) fn all(contract: &Contract, options: &Options) -> Vec<Promised> {
    let mut admission = Promised::of("contract", "admission", PromiseVerdict::Kept);
    admission.evidence.push(Evidence::Admission);
    let mut all = vec![admission];
    let no = |why: &str| PromiseVerdict::NotJudgeable(why.to_owned());
    let held: Vec<usize> =
        contract.commands.iter().filter_map(|command| Some(command.held()?.reservation)).collect();
    for command in &contract.commands {
        let became = match command.held() {
            Some(_) if options.run_by.is_none() => {
                no("no program punctual was given that would run it")
            }
            Some(_) => no("it was not seen to run"),
            None => no("an ordinary program: nothing was promised to it"),
        };
        let one = Promised::of("command", command.name(), became);
        all.push(if command.held().is_some() { one } else { one.excused() });
    }
    for (at, named) in contract.reservations.iter().enumerate() {
        if !held.contains(&at) {
            all.push(Promised::of("reservation", &named.name, no("no command holds it")));
        }
    }
    let unseen = match options.only_programs {
        true => no("it has no program, and only programs were to be judged"),
        false => no("it was not seen to run"),
    };
    let mut unseen = |kind, name: &str| {
        let one = Promised::of(kind, name, unseen.clone());
        all.push(if options.only_programs { one.excused() } else { one });
    };
    contract.upcalls.iter().for_each(|upcall| unseen("upcall", upcall.name()));
    let is_upcall = |name: &str| contract.upcalls.iter().any(|upcall| upcall.name() == name);
    let tasks = contract.tasks.iter().filter(|task| !is_upcall(task.name()));
    tasks.for_each(|task| unseen("task", task.name()));
    contract.streams.iter().for_each(|stream| unseen("stream", stream.name()));
    contract.channels.iter().for_each(|channel| unseen("channel", channel.name()));
    for one in &contract.best_effort {
        let nothing = no("nothing was promised to it");
        all.push(Promised::of("channel", &one.name, nothing).excused());
    }
    for one in &contract.receiving {
        let why = no("no program received on it: no broker has granted a channel of this name");
        all.push(Promised::of("channel", &one.name, why));
    }
    all
}

impl Promised {
    pub(super) fn of(kind: &'static str, name: &str, became: PromiseVerdict) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            became,
            excused: false,
            evidence: Vec::new(),
            taken: Vec::new(),
            jobs: 0,
            late: 0,
            max_tardiness: Duration::ZERO,
            causes: Vec::new(),
        }
    }

    /// Notes that no verdict is wanted.
    fn excused(self) -> Self {
        Self { excused: true, ..self }
    }

    /// Returns whether a verdict was wanted, and there is none.
    pub fn is_unjudged(&self) -> bool {
        !self.excused && matches!(self.became, PromiseVerdict::NotJudgeable(_))
    }

    /// Notes that the promise, or a part of it, could not be tried.
    pub(super) fn cannot(&mut self, why: &str) {
        if !matches!(self.became, PromiseVerdict::Broken(_)) {
            self.became = PromiseVerdict::NotJudgeable(why.to_owned());
        }
    }

    /// Adds a finding for the promise or for a part of it. It is kept if all parts are, and broken
    /// if one is.
    pub(super) fn found(&mut self, evidence: Evidence, found: Outcome) {
        let worse = match (&self.became, &found.became) {
            // This is the first finding.
            _ if self.evidence.is_empty() => true,
            (PromiseVerdict::Broken(_), _) => false,
            (_, PromiseVerdict::Broken(_)) => true,
            (PromiseVerdict::NotJudgeable(_), _) => false,
            (PromiseVerdict::Kept, _) => true,
        };
        if worse {
            self.became = found.became;
        }
        if !self.evidence.contains(&evidence) {
            self.evidence.push(evidence);
        }
        self.jobs += found.jobs;
        self.late += found.late;
        self.max_tardiness = self.max_tardiness.max(found.max_tardiness);
    }

    /// Says why the promise was not kept or cannot be judged, with the most frequent cause of late
    /// jobs.
    pub fn why(&self) -> Option<String> {
        match &self.became {
            PromiseVerdict::Kept => None,
            PromiseVerdict::NotJudgeable(why) => Some(why.clone()),
            PromiseVerdict::Broken(why) => Some(match self.causes.first() {
                Some((main, _)) => format!("{why}; the most frequent cause: {main}"),
                None => why.clone(),
            }),
        }
    }

    /// Adds the causes of late jobs, with their counts.
    pub(super) fn because(&mut self, causes: &BTreeMap<String, u64>) {
        for (cause, jobs) in causes {
            match self.causes.iter_mut().find(|known| known.0 == *cause) {
                Some(known) => known.1 += jobs,
                None => self.causes.push((cause.clone(), *jobs)),
            }
        }
        self.causes.sort_by_key(|(_, jobs)| std::cmp::Reverse(*jobs));
    }
}

/// Sums up the findings for all threads of a program, or for one upcall.
pub(super) fn of_all(judged: &[&Judged]) -> Outcome {
    let jobs = judged.iter().map(|one| one.complete).sum::<u64>();
    let late = judged.iter().map(|one| one.late).sum();
    let latest = judged.iter().map(|one| one.max_tardiness).max();
    let max_tardiness = latest.unwrap_or(Duration::ZERO);
    // A thread without a job or without a promise says nothing about the other threads.
    let nothing = |one: &&&Judged| {
        matches!(one.verdict, Verdict::NotJudgeable(Unjudgeable::NoJob | Unjudgeable::NoPromise))
    };
    let cannot = judged.iter().filter(|one| !nothing(one)).find_map(|one| match one.verdict {
        Verdict::NotJudgeable(why) => Some(why.to_string()),
        _ => None,
    });
    let any_kept = judged.iter().any(|one| one.verdict == Verdict::Kept);
    let became = match (late, cannot) {
        (1.., _) => PromiseVerdict::Broken(format!(
            "{late} of {} jobs were late, the latest by {max_tardiness}",
            jobs.max(late)
        )),
        (_, Some(why)) => PromiseVerdict::NotJudgeable(why),
        (_, None) if any_kept => PromiseVerdict::Kept,
        _ => PromiseVerdict::NotJudgeable(
            "no job was released: it never waited for anything, has no period, or did not run"
                .to_owned(),
        ),
    };
    Outcome { became, jobs, late, max_tardiness }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(verdict: Verdict, complete: u64, late: u64) -> Judged {
        let (first_late, max_tardiness) = (None, Duration::from_nanos(late));
        let (too_early, refused) = (0, 0);
        let (unjudged, unseen) = (0, Duration::ZERO);
        Judged {
            verdict,
            complete,
            late,
            first_late,
            max_tardiness,
            unjudged,
            unseen,
            too_early,
            refused,
        }
    }

    #[test]
    fn one_broken_thread_breaks_the_promise_of_its_command() {
        let kept = judged(Verdict::Kept, 5, 0);
        let broken = judged(Verdict::Broken, 4, 2);
        let lost = judged(Verdict::NotJudgeable(Unjudgeable::Lost { events: 3 }), 1, 0);
        let nothing = judged(Verdict::NotJudgeable(Unjudgeable::NoJob), 0, 0);
        let became = |all: &[&Judged]| of_all(all).became;
        assert!(
            matches!(became(&[&kept, &broken, &lost]), PromiseVerdict::Broken(why) if why.contains("2 of 10"))
        );
        assert!(
            matches!(became(&[&kept, &lost]), PromiseVerdict::NotJudgeable(why) if why.contains("lost"))
        );
        assert_eq!(became(&[&kept, &nothing]), PromiseVerdict::Kept);
        assert!(matches!(became(&[&nothing]), PromiseVerdict::NotJudgeable(_)));
    }

    #[test]
    fn a_stream_is_kept_if_its_upcall_and_its_channel_are() {
        let (kept, broken) = (PromiseVerdict::Kept, PromiseVerdict::Broken("late".to_owned()));
        let unknown = PromiseVerdict::NotJudgeable("lost".to_owned());
        for (upcall, channel, both) in [
            (&kept, &kept, &kept),
            (&kept, &broken, &broken),
            (&broken, &unknown, &broken),
            (&unknown, &kept, &unknown),
            (&unknown, &broken, &broken),
        ] {
            let mut stream =
                Promised::of("stream", "s", PromiseVerdict::NotJudgeable("not run".to_owned()));
            for (evidence, became) in
                [(Evidence::Synthetic, upcall), (Evidence::EmulatedLink, channel)]
            {
                let max_tardiness = Duration::ZERO;
                let found = Outcome { became: became.clone(), jobs: 3, late: 1, max_tardiness };
                stream.found(evidence, found);
            }
            assert_eq!((&stream.became, stream.jobs, stream.late), (both, 6, 2));
            assert_eq!(stream.evidence, [Evidence::Synthetic, Evidence::EmulatedLink]);
        }
    }

    #[test]
    fn without_a_program_that_runs_commands_theirs_are_not_judgeable() {
        let text = "[[reservation]]\nname = 'r'\nbudget = '1ms'\nperiod = '10ms'\n\
                    [[command]]\nname = 'c'\nrun = ['true']\nreservation = 'r'\n";
        let contract = Contract::parse("test", text.as_bytes()).expect("valid");
        let why = |run_by: Option<&str>| {
            let options = Options {
                length: Duration::from_secs(1),
                only_programs: false,
                broker: "/nonexistent/broker.sock".into(),
                run_by: run_by.map(Into::into),
            };
            let command = all(&contract, &options).pop().expect("the command's");
            assert_eq!((command.kind, command.became.name()), ("command", "not judgeable"));
            command.why().expect("it says why")
        };
        assert_eq!(why(Some("/usr/bin/punctual")), "it was not seen to run");
        assert_eq!(why(None), "no program punctual was given that would run it");
    }
}
