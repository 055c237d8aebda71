//! Repeats the admission of the run's contract: the tests with their numbers, as in `punctual admit
//! --explain`.

use std::collections::BTreeMap;

use punctual_analysis::mapping::Mapping;
use punctual_analysis::supply::{Limits, build};
use punctual_analysis::{
    EntryBound, EntryKind, Grant, GrantedReservation, Offer, Refusal, Sensitivity, Steps,
    TestReport, admit, sensitivity,
};
use punctual_model::{Contract, Duration, HostProfile, Reservation, rt_app};
use punctual_sweep::sheet::{Sheet, Value};

use crate::shown;

/// The result of admitting the contract of a run.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) is_admitted: bool,
    /// The verdict, as one sentence.
    pub(crate) verdict: String,
    /// The assumed cost of switches.
    pub(crate) host: String,
    /// The tables, each with a caption.
    pub(crate) tables: Vec<(&'static str, Sheet)>,
    /// The derivation of each stream's numbers.
    pub(crate) arithmetic: Vec<(String, Vec<String>)>,
    /// The longest response time or delay that was proven, by the entry's name.
    pub(crate) proven: BTreeMap<String, Duration>,
}

impl Admission {
    /// Admits a contract, as its author wrote it, on this host with at least as many CPUs as the
    /// contract needs, because the trace may be from another host. The error is a sentence.
    pub(crate) fn of(text: &str, host: &HostProfile, stamp: &str) -> Result<Self, String> {
        let contract = parsed(text)?;
        let host = HostProfile { cpus: host.cpus.max(contract.cpus), ..*host };
        let answer = admit(&contract, &host);
        let mut tables = Vec::new();
        let (tests, streams): (&[TestReport], &[Mapping]) = match &answer {
            Ok(grant) => (&grant.tests, &grant.streams),
            Err(refusal) => (&refusal.tests, &refusal.streams),
        };
        tables.push((
            "Each test of the policy, the cheapest first; the last decided",
            test_sheet(tests),
        ));
        match &answer {
            Ok(grant) => {
                tables.push(("Proven of each task", granted_tasks(grant)));
                tables.push(("Proven of each channel", granted_channels(grant)));
                tables.push((
                    "Reservations, and what they get in a timetable",
                    in_a_timetable(grant, &host),
                ));
                let growth = sensitivity(&contract, &host, 5 * Steps::ADMISSION);
                tables.push((
                    "How far each number could grow, the others as they are",
                    growth_sheet(&growth),
                ));
            }
            Err(refusal) => {
                tables.push(("Of each task", bounds("admission-tasks", &refusal.tasks)));
                tables.push(("Of each channel", bounds("admission-channels", &refusal.channels)));
                tables.push(("With each of these alone it would be admitted", offers(refusal)));
                tables.push(("With both numbers of a pair it would be admitted", pairs(refusal)));
                tables.push(("Without these all others would be admitted", left_out(refusal)));
            }
        }
        tables.retain(|(_, sheet)| !sheet.rows.is_empty());
        let arithmetic = |of: &Mapping| {
            (shown::name(&of.stream), of.arithmetic.iter().map(|line| shown::line(line)).collect())
        };
        Ok(Self {
            is_admitted: answer.is_ok(),
            verdict: shown::line(&verdict(&contract, &answer)),
            host: shown::line(stamp),
            tables,
            arithmetic: streams.iter().map(arithmetic).collect(),
            proven: proven(&answer),
        })
    }
}

/// Parses a contract in TOML or in rt-app's JSON.
fn parsed(text: &str) -> Result<Contract, String> {
    Contract::parse("contract", text.as_bytes()).or_else(|error| {
        let imported = rt_app::parse("contract", text.as_bytes());
        imported.map(|imported| imported.contract).map_err(|_| error.to_string())
    })
}

fn verdict(contract: &Contract, answer: &Result<Grant, Box<Refusal>>) -> String {
    match answer {
        Ok(_) => {
            let (policy, cpus) = (contract.policy.name(), contract.cpus);
            let noun = if cpus == 1 { "CPU" } else { "CPUs" };
            format!("admitted under {policy} on {cpus} {noun}")
        }
        Err(refusal) => refusal.to_string(),
    }
}

fn proven(answer: &Result<Grant, Box<Refusal>>) -> BTreeMap<String, Duration> {
    let Ok(grant) = answer else {
        return BTreeMap::new();
    };
    let tasks = grant.tasks.iter().map(|task| (task.name.clone(), task.response_time_bound));
    let channels = grant.channels.iter().map(|one| (one.name.clone(), one.proven_delay));
    tasks.chain(channels).collect()
}

fn name(text: &str) -> Value {
    Value::Text(shown::name(text))
}

fn time(time: Duration) -> Value {
    Value::Time(Some(time.as_nanos()))
}

fn test_sheet(tests: &[TestReport]) -> Sheet {
    let row = |test: &TestReport| {
        vec![name(test.name), Value::Flag(test.admits), Value::Text(shown::line(&test.why))]
    };
    Sheet {
        name: "admission-tests",
        columns: &[("test", "test"), ("admits", "admits"), ("why", "because")],
        rows: tests.iter().map(row).collect(),
    }
}

fn granted_tasks(grant: &Grant) -> Sheet {
    let row = |task: &punctual_analysis::GrantedTask| {
        vec![
            name(&task.name),
            Value::Count(task.cpu.into()),
            time(task.response_time_bound),
            time(task.relative_deadline),
            time(task.slack),
        ]
    };
    Sheet {
        name: "admission-tasks",
        columns: &[
            ("task", "task"),
            ("cpu", "CPU"),
            ("response_time_bound_ns", "response time ≤"),
            ("relative_deadline_ns", "deadline"),
            ("slack_ns", "slack"),
        ],
        rows: grant.tasks.iter().map(row).collect(),
    }
}

fn granted_channels(grant: &Grant) -> Sheet {
    let row = |channel: &punctual_analysis::GrantedChannel| {
        vec![
            name(&channel.name),
            Value::Count(channel.rank as usize),
            time(channel.proven_delay),
            time(channel.delay_bound),
            Value::Count(usize::try_from(channel.buffer).unwrap_or(usize::MAX)),
        ]
    };
    Sheet {
        name: "admission-channels",
        columns: &[
            ("channel", "channel"),
            ("rank", "rank"),
            ("proven_delay_ns", "delay ≤"),
            ("delay_bound_ns", "delay bound"),
            ("buffer_bytes", "buffer, bytes"),
        ],
        rows: grant.channels.iter().map(row).collect(),
    }
}

fn in_a_timetable(grant: &Grant, host: &HostProfile) -> Sheet {
    let limits = Limits::of(host);
    let mut rows = Vec::new();
    let mut cpus: Vec<u16> = grant.reservations.iter().map(|granted| granted.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for cpu in cpus {
        // A server needs no slots.
        let is_slotted = |one: &&GrantedReservation| one.cpu == cpu && one.job_within.is_none();
        let here: Vec<_> = grant.reservations.iter().filter(is_slotted).collect();
        let asked: Vec<Reservation> = here.iter().map(|granted| granted.reservation).collect();
        let built = build(&asked, limits, &mut Steps::default());
        for (at, granted) in here.into_iter().enumerate() {
            let share = built.as_ref().ok().map(|built| &built.shares[at]);
            let nanos = |time: Option<Duration>| Value::Time(time.map(Duration::as_nanos));
            let why = built.as_ref().err().map_or_else(String::new, ToString::to_string);
            rows.push(vec![
                name(&granted.name),
                Value::Count(cpu.into()),
                Value::Time(Some(granted.reservation.budget().as_nanos())),
                time(granted.reservation.period()),
                Value::Time(share.map(|share| share.budget.as_nanos())),
                nanos(share.map(|share| share.period)),
                nanos(share.map(|share| share.longest_gap)),
                Value::Share(
                    share.and_then(|share| u64::try_from(share.bandwidth.ppm_above()).ok()),
                ),
                Value::Text(shown::line(&why)),
            ]);
        }
    }
    Sheet {
        name: "admission-reservations",
        columns: &[
            ("reservation", "reservation"),
            ("cpu", "CPU"),
            ("budget_ns", "budget"),
            ("period_ns", "period"),
            ("timetable_budget_ns", "gets"),
            ("timetable_period_ns", "every"),
            ("longest_gap_ns", "longest gap"),
            ("bandwidth_ppm", "of the CPU"),
            ("why", "no timetable because"),
        ],
        rows,
    }
}

const OFFERS: &[(&str, &str)] =
    &[("entry", "entry"), ("number", "number"), ("from", "is"), ("to", "could be")];

fn offer(offer: &Offer) -> Vec<Value> {
    let entry = format!("{} {}", offer.kind.name(), offer.entry);
    vec![
        Value::Text(shown::name(entry.trim_end())),
        Value::Text(offer.axis.name().into()),
        Value::Text(offer.old_amount().to_string()),
        Value::Text(offer.amount().to_string()),
    ]
}

fn growth_sheet(growth: &Sensitivity) -> Sheet {
    let rows = growth.numbers.iter().map(offer).collect();
    Sheet { name: "admission-room", columns: OFFERS, rows }
}

fn offers(refusal: &Refusal) -> Sheet {
    let rows = refusal.offers.iter().map(offer).collect();
    Sheet { name: "admission-offers", columns: OFFERS, rows }
}

fn pairs(refusal: &Refusal) -> Sheet {
    let rows = refusal.offers.pairs().iter().flatten().map(offer).collect();
    Sheet { name: "admission-offers-of-two", columns: OFFERS, rows }
}

fn left_out(refusal: &Refusal) -> Sheet {
    let row = |(kind, name): &(EntryKind, String)| {
        vec![Value::Text(shown::name(&format!("{} {name}", kind.name())))]
    };
    let rows = refusal.offers.without().iter().map(row).collect();
    Sheet { name: "admission-left-out", columns: &[("entry", "entry")], rows }
}

fn bounds(sheet: &'static str, entries: &[EntryBound]) -> Sheet {
    let row = |entry: &EntryBound| {
        let slack = entry.slack_ns().and_then(|slack| i64::try_from(slack).ok());
        vec![
            name(&entry.name),
            Value::Time(entry.bound.map(Duration::as_nanos)),
            time(entry.asked),
            Value::Slack(slack),
        ]
    };
    Sheet {
        name: sheet,
        columns: &[
            ("entry", "entry"),
            ("bound_ns", "at most"),
            ("asked_ns", "asked for"),
            ("slack_ns", "slack"),
        ],
        rows: entries.iter().map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use punctual_analysis::{Request, System, UpcallOrder};
    use punctual_model::Service;
    use punctual_model::command::Backend;
    use punctual_model::reservation::Enforcement;

    use super::*;

    const STUDIO: &str = include_str!("../../../examples/studio.toml");
    const OVERLOADED: &str = include_str!("../../../examples/overloaded.toml");

    #[test]
    fn an_admitted_contract_has_bounds_and_room_a_refused_one_offers() {
        let host = HostProfile::ideal(1);
        let admitted = Admission::of(STUDIO, &host, "ideal").expect("a contract");
        assert!(admitted.is_admitted, "{}", admitted.verdict);
        assert_eq!(admitted.proven["capture"], Duration::from_millis(4));
        let names: Vec<_> = admitted.tables.iter().map(|(_, sheet)| sheet.name).collect();
        assert!(
            names.contains(&"admission-tests") && names.contains(&"admission-room"),
            "{names:?}"
        );
        let refused = Admission::of(OVERLOADED, &host, "ideal").expect("a contract");
        assert!(!refused.is_admitted && refused.verdict.starts_with("refused"));
        let names: Vec<_> = refused.tables.iter().map(|(_, sheet)| sheet.name).collect();
        assert!(names.contains(&"admission-offers"), "{names:?}");
        assert!(refused.proven.is_empty());
    }

    /// The printed timetables are built by the limits of admission: each slot is longer than its
    /// budget by the allowance, whatever a context switch costs.
    #[test]
    fn a_printed_timetable_has_the_slots_of_admission() {
        let slot_allowance = Service::from_micros(500);
        let host = HostProfile { slot_allowance, ..HostProfile::ideal(1) };
        for budget in [4_000, 8_700] {
            let text = format!(
                "[system]\npolicy = \"rm\"\n[[reservation]]\nname = \"r\"\nbudget = \"{budget}us\"\n\
                 period = \"10ms\"\n"
            );
            let admission = Admission::of(&text, &host, "").expect("a contract");
            let (_, sheet) = admission
                .tables
                .iter()
                .find(|(_, sheet)| sheet.name == "admission-reservations")
                .expect("it has a reservation");
            let taken = (budget + 500) * 100;
            let shown = &sheet.rows[0][7];
            // Rounded up, perhaps twice.
            let one_of = [taken, taken + 1].map(|ppm| Value::Share(Some(ppm)));
            assert!(one_of.contains(shown), "{budget}: {shown:?}");
            let reservation = format!("{budget}us/10ms").parse().expect("valid");
            let (enforcement, backend, cpu) = (Enforcement::Soft, Backend::Timetable, None);
            let command = Request::Command { reservation, enforcement, backend, cpu };
            let mut system = System::new(host, UpcallOrder::LevelOrder);
            let admitted = system.admit(0, command, &mut Steps::default());
            assert!(admitted.is_ok(), "{admitted:?}");
        }
    }

    #[test]
    fn an_invalid_contract_is_reported() {
        let error =
            Admission::of("[nonsense", &HostProfile::ideal(1), "").expect_err("no contract");
        assert!(error.contains("contract"), "{error}");
    }
}
