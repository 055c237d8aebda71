//! Renders the findings for a person.

use std::collections::BTreeMap;

use comfy_table::{CellAlignment, Table, presets};
use punctual_model::{Duration, Instant};
use punctual_observe::{Counts, Ended, hidden_without};
use punctual_trace::Subject;
use punctual_trace::cause::{Spent, Verdict};
use punctual_trace::check::Judged;

use punctual::why::{OfTrace, describe};

/// The most causes listed for a late job.
const CAUSES: usize = 4;

/// The cause of a job that waits for earlier jobs of its own subject.
const EARLIER: &str = "its own earlier jobs";

/// The cause of a job that works for too long, where its system calls are told apart.
const OWN_IN_USER_SPACE: &str = "its own work in user space, beyond what was declared";

/// The most kinds of causes with a row of their own.
const KINDS: usize = 12;

/// Collects findings until the end.
pub(super) struct Report {
    worst: usize,
    begun: Instant,
    /// Whether work in system calls was told from other work.
    sees_calls: bool,
    /// The latest late jobs of all, the latest first.
    latest: Vec<Verdict>,
    /// For each cause, the number of jobs of which it was the main one, and its share of all
    /// tardiness.
    causes: BTreeMap<Kind, (u64, Duration)>,
}

impl Report {
    pub(super) fn new(worst: usize, begun: Instant) -> Self {
        Self { worst, begun, sees_calls: false, latest: Vec::new(), causes: BTreeMap::new() }
    }

    pub(super) fn more(&mut self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            for (place, share) in verdict.shares.iter().enumerate() {
                if share.share.is_zero() {
                    continue;
                }
                let (jobs, all) =
                    self.causes.entry(kind(&share.cause, verdict.late.job.task)).or_default();
                *jobs += u64::from(place == 0);
                *all = all.saturating_add(share.share);
            }
            let tardiness = verdict.late.tardiness();
            let at = self.latest.partition_point(|one| one.late.tardiness() >= tardiness);
            if at < self.worst {
                self.latest.insert(at, verdict.clone());
                self.latest.truncate(self.worst);
            }
        }
    }

    pub(super) fn text(&mut self, ended: &Ended) -> String {
        self.sees_calls = !ended.missing.contains(&"call_begins");
        let Counts { written, lost, skipped } = ended.counts;
        let mut page = jobs(ended) + &self.page(&ended.subjects);
        page += &format!("\n{written} records of the kernel, {lost} lost.\n");
        if skipped > 0 {
            page += &format!(
                "{skipped} further ones were not written: the kernel skipped a program.\n"
            );
        }
        page += &holes(ended);
        let mut hidden: Vec<_> = ended.missing.iter().map(|one| hidden_without(one)).collect();
        hidden.dedup();
        for hidden in hidden {
            page += &format!("Not seen on this kernel: {hidden}.\n");
        }
        page
    }

    /// Returns the tables, and the latest jobs one by one.
    fn page(&self, subjects: &[(Subject, Judged)]) -> String {
        let mut page = format!("\n{}\n", threads(subjects));
        for (subject, judged) in subjects.iter().filter(|(_, judged)| judged.refused > 0) {
            let plural = if judged.refused == 1 { "" } else { "s" };
            page +=
                &format!("{}: {} time constraint{plural} refused\n", subject.name, judged.refused);
        }
        if !self.causes.is_empty() {
            page += &format!("\nWhy, of all late jobs:\n{}\n", self.by_cause(subjects));
        }
        if !self.latest.is_empty() {
            page += "\nThe latest:\n";
        }
        for verdict in &self.latest {
            page += &self.one(verdict, subjects);
        }
        page
    }

    fn by_cause(&self, subjects: &[(Subject, Judged)]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header(["cause", "main cause of", "share of all tardiness", ""]);
        let all: u64 = self.causes.values().map(|(_, share)| share.as_nanos()).sum();
        let mut rows: Vec<_> = self.causes.iter().collect();
        rows.sort_by_key(|(_, (_, share))| std::cmp::Reverse(*share));
        let mut row = |cause: &str, jobs: u64, share: Duration| {
            let percent = 100.0 * share.as_nanos() as f64 / all.max(1) as f64;
            let (jobs, share) = (jobs.to_string(), share.to_string());
            table.add_row([cause, &jobs, &share, &format!("{percent:.1} %")]);
        };
        let told = rows.len().min(KINDS);
        for (cause, (jobs, share)) in &rows[..told] {
            let text = match cause {
                Kind::Own => self.describe(&Spent::Own, None, subjects),
                Kind::Called(text) => text.clone(),
                Kind::Subject(number) => self.describe(&Spent::Subject(*number), None, subjects),
            };
            row(&text, *jobs, *share);
        }
        let rest = &rows[told..];
        if !rest.is_empty() {
            let jobs = rest.iter().map(|(_, (jobs, _))| jobs).sum();
            let share = rest.iter().map(|(_, (_, share))| *share);
            let share = share.fold(Duration::ZERO, Duration::saturating_add);
            row(&format!("{} others", rest.len()), jobs, share);
        }
        for column in 1..4 {
            if let Some(column) = table.column_mut(column) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        table
    }

    fn one(&self, verdict: &Verdict, subjects: &[(Subject, Judged)]) -> String {
        let late = verdict.late;
        let subject = subjects.get(late.job.task as usize);
        let (name, thread) =
            subject.map_or(("?", 0), |(of, _)| (&*of.name, of.thread.unwrap_or(0)));
        let in_calls = match verdict.in_system_calls() {
            Duration::ZERO => String::new(),
            in_calls => format!(", {in_calls} of it in system calls"),
        };
        let mut text = format!(
            "  {name} ({thread}), job {}, released {:.6} s after the start: late by {}, after {} of its \
             own work{}\n",
            late.job.index,
            self.since(late.release),
            late.tardiness(),
            verdict.own,
            in_calls,
        );
        for share in verdict.shares.iter().filter(|one| !one.share.is_zero()).take(CAUSES) {
            text += &format!(
                "    {:>12}  {}: {} in {} stretch{}, the longest from {:.6} s on\n",
                share.share.to_string(),
                self.describe(&share.cause, Some(late.job.task), subjects),
                share.took,
                share.times,
                if share.times == 1 { "" } else { "es" },
                self.since(share.longest_at),
            );
        }
        text
    }

    fn describe(
        &self,
        cause: &Spent,
        number: Option<u32>,
        subjects: &[(Subject, Judged)],
    ) -> String {
        match cause {
            Spent::Own if self.sees_calls => OWN_IN_USER_SPACE.to_owned(),
            other => describe(other, number, subjects),
        }
    }

    fn since(&self, at: Instant) -> f64 {
        (at.as_nanos() as f64 - self.begun.as_nanos() as f64) / 1e9
    }
}

/// A kind of cause. Causes of a kind are added up, and threads are distinguished by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Own,
    Called(String),
    /// Another subject.
    Subject(u32),
}

fn kind(cause: &Spent, number: u32) -> Kind {
    match cause {
        Spent::Subject(of) if *of == number => Kind::Called(EARLIER.to_owned()),
        Spent::Subject(number) => Kind::Subject(*number),
        Spent::Own => Kind::Own,
        other => Kind::Called(other.in_general()),
    }
}

/// Says how much was not judged, because the kernel's records have holes.
fn holes(ended: &Ended) -> String {
    let judged = ended.subjects.iter().filter(|(_, judged)| judged.unjudged > 0);
    let mut text: String = judged
        .map(|(subject, judged)| {
            let Judged { unjudged, unseen, complete, .. } = judged;
            let all = complete + unjudged;
            let plural = if *unjudged == 1 { "was" } else { "were" };
            format!(
                "{}: {unjudged} of {all} jobs {plural} not judged: what the thread did for {unseen} is \
                 not known.\n",
                subject.name,
            )
        })
        .collect();
    if ended.holes > 0 {
        let plural = if ended.holes == 1 { "place" } else { "places" };
        text += &format!(
            "At {} {plural} this kernel left out switches, of whatever threads, and counted none of them.\n",
            ended.holes
        );
    }
    text
}

fn threads(subjects: &[(Subject, Judged)]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(["subject", "tid", "jobs", "late", "latest by", "promise"]);
    let has_jobs = |judged: &Judged| judged.complete + judged.late > 0;
    for (subject, judged) in subjects.iter().filter(|(_, judged)| has_jobs(judged)) {
        table.add_row([
            subject.name.clone(),
            subject.thread.map_or_else(String::new, |tid| tid.to_string()),
            judged.complete.to_string(),
            judged.late.to_string(),
            judged.max_tardiness.to_string(),
            judged.verdict.to_string(),
        ]);
    }
    for column in 1..5 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Says what was taken to be a job of each thread, and which threads were not judged.
fn jobs(ended: &Ended) -> String {
    let (mut judged, mut others) = (String::new(), Vec::new());
    for (number, (subject, _)) in (0..).zip(&ended.subjects) {
        let (Some(taken), Some(tid)) = (ended.taken.get(&number), subject.thread) else { continue };
        let line = format!("  {} ({tid}): {taken}\n", subject.name);
        match taken.release {
            Some(_) => judged += &line,
            None if taken.is_asked => others.push(line),
            None => {}
        }
    }
    let mut page = String::new();
    if !judged.is_empty() {
        page += &format!("\nWhat a job is:\n{judged}");
    }
    if !others.is_empty() {
        page += "\nNot judged:\n";
        others.iter().take(KINDS).for_each(|line| page += line);
        if others.len() > KINDS {
            page += &format!("  {} others\n", others.len() - KINDS);
        }
    }
    if judged.is_empty() {
        page += "\nNothing could be judged. --thread NAME judges a thread by its wake-ups.\n";
    }
    page
}

/// Renders the result of a trace file.
pub(super) fn of_trace(worst: usize, of: &OfTrace) -> String {
    let mut report = Report::new(worst, of.begun);
    report.more(&of.by_kernel);
    report.more(&of.by_events);
    let mut page = String::new();
    if let Some(run) = &of.run {
        let time = if run.live { "live" } else { "virtual time" };
        page += &format!("{} ({time})\n", run.command);
    }
    page += &report.page(&of.subjects);
    if !of.by_events.is_empty() {
        page += &format!(
            "\nOf {} late job{} the file has no evidence of the kernel: what it says of them is from \
             the events alone,\nand interrupts, other threads and sleep are \"not known\". punctual why \
             --trace asks the kernel.\n",
            of.by_events.len(),
            if of.by_events.len() == 1 { "" } else { "s" },
        );
    }
    page += &format!("\n{} events lost.\n", of.state.events_lost);
    of.state.lines().into_iter().fold(page, |page, line| page + "The file: " + &line + ".\n")
}
