//! Tabulates the promise to each subject, and its verdict.

use punctual_model::Service;
use punctual_sweep::sheet::{Sheet, Value};
use punctual_trace::check::{Unjudgeable, Verdict};

use super::{count, name, places, time};
use crate::gather::{Survey, counted};

/// The numbers of promises that were kept, broken, and not judgeable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) kept: u64,
    pub(crate) broken: u64,
    pub(crate) not_judgeable: u64,
}

pub(crate) fn tally(survey: &Survey) -> Tally {
    let mut tally = Tally::default();
    for judged in &survey.judged {
        match judged.verdict {
            Verdict::Kept => tally.kept += 1,
            Verdict::Broken => tally.broken += 1,
            Verdict::NotJudgeable(_) => tally.not_judgeable += 1,
        }
    }
    tally
}

/// Returns the verdict on the subject at this place, with the reason if there is none.
fn verdict(survey: &Survey, subject: u32) -> String {
    match survey.judged[subject as usize].verdict {
        // The events lost to damage are not known by number.
        Verdict::NotJudgeable(Unjudgeable::Lost { .. }) => {
            let losses = &survey.losses;
            let lost = losses.events.saturating_add(losses.missing_events);
            let missing = match (lost, losses.damages + losses.missing_blocks) {
                (lost, 0) => format!("{} lost", counted(lost, "event")),
                (0, _) => "the file is damaged".into(),
                (lost, _) => format!("{} lost and the file is damaged", counted(lost, "event")),
            };
            format!("not judgeable: {missing}")
        }
        verdict => verdict.to_string(),
    }
}

/// Returns a row for each subject.
pub(crate) fn promises(survey: &Survey) -> Sheet {
    let row = |place: u32| {
        let subject = &survey.subjects.all()[place as usize];
        let judged = &survey.judged[place as usize];
        let measured = &survey.measured[place as usize];
        let promise = subject.promise;
        vec![
            Value::Text(name(survey, place)),
            Value::Text(subject.kind.name().into()),
            Value::Text(verdict(survey, place)),
            count(judged.complete),
            count(judged.late),
            time((judged.late > 0).then_some(judged.max_tardiness)),
            time(promise.period),
            time(promise.relative_deadline),
            Value::Time(promise.wcet.map(Service::as_nanos)),
            count(judged.too_early),
            count(measured.overruns),
            count(measured.skipped),
            count(measured.aborted),
            count(measured.contained),
            count(measured.not_seen),
            count(measured.gave_way),
        ]
    };
    Sheet { name: "promises", columns: &ALL, rows: places(survey).map(row).collect() }
}

/// Returns the same as two tables that fit the width of a page: the promises, and the other fates
/// of jobs for the subjects that have any.
pub(crate) fn promises_and_fates(survey: &Survey) -> [Sheet; 2] {
    let all = promises(survey).rows.into_iter();
    let (mut promised, mut fates) = (Vec::new(), Vec::new());
    for mut row in all {
        let mut fate = row.split_off(PROMISED.len());
        if fate.iter().any(|value| !matches!(value, Value::Count(0))) {
            fate.insert(0, row[0].clone());
            fates.push(fate);
        }
        promised.push(row);
    }
    [
        Sheet { name: "promises", columns: &PROMISED, rows: promised },
        Sheet { name: "fates", columns: &FATES, rows: fates },
    ]
}

const PROMISED: [(&str, &str); 9] = [
    ("subject", "subject"),
    ("kind", "kind"),
    ("verdict", "promise"),
    ("complete", "jobs complete"),
    ("late", "late"),
    ("max_tardiness_ns", "latest by"),
    ("period_ns", "period"),
    ("relative_deadline_ns", "deadline"),
    ("wcet_ns", "work or budget"),
];

const FATES: [(&str, &str); 8] = [
    ("subject", "subject"),
    ("released_too_early", "too early"),
    ("overruns", "went on late"),
    ("skipped", "never begun"),
    ("aborted", "aborted"),
    ("contained", "contained"),
    ("end_not_seen", "end not seen"),
    ("gave_way", "gave way"),
];

/// The columns of both tables, with the subject once.
const ALL: [(&str, &str); 16] = {
    let mut all = [("", ""); 16];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < PROMISED.len() { PROMISED[at] } else { FATES[at + 1 - PROMISED.len()] };
        at += 1;
    }
    all
};
