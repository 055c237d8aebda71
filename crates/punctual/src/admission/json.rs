//! The form in which an answer is serialised. The field names are part of the interface.

use punctual_analysis::mapping::Mapping;
use punctual_analysis::{Grant, Refusal, TestReport};
use punctual_model::Duration;
use serde::{Serialize, Serializer};

use super::{Answer, TimetableRow};
use crate::host::Stamp;
use crate::refusal::{OfferRecord, RefusalRecord};

#[derive(Serialize)]
struct Page<'a> {
    admitted: bool,
    tasks: Vec<Task<'a>>,
    tests: Vec<Test<'a>>,
    reservations: Vec<Reservation<'a>>,
    channels: Vec<Channel<'a>>,
    streams: Vec<Stream<'a>>,
    refusal: Option<RefusalRecord>,
    /// Null without `--explain`, or if the contract is refused.
    could_grow: Option<Vec<OfferRecord>>,
    /// The reservations in a timetable; null without `--explain`, or if the contract is refused.
    timetable: Option<&'a [TimetableRow]>,
    /// The assumed costs of switches and sending, and their source.
    host_profile: &'a Stamp,
    /// Parts of the file that the contract does not cover.
    notes: &'a [String],
}

#[derive(Serialize)]
struct Task<'a> {
    name: &'a str,
    /// Null if the contract is refused.
    cpu: Option<u16>,
    /// Null if there is no bound, or none was found.
    response_time_bound_ns: Option<u64>,
    relative_deadline_ns: u64,
    /// Null without a bound; negative if the bound is beyond the deadline.
    slack_ns: Option<i64>,
    /// Present only under `edf-vd`, where it differs from the deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_deadline_ns: Option<u64>,
}

#[derive(Serialize)]
struct Test<'a> {
    name: &'a str,
    admits: bool,
    why: &'a str,
}

#[derive(Serialize)]
struct Reservation<'a> {
    name: &'a str,
    budget_ns: u64,
    period_ns: u64,
    /// Null without a server.
    job_within_ns: Option<u64>,
}

#[derive(Serialize)]
struct Channel<'a> {
    name: &'a str,
    /// Null if the contract is refused.
    rank: Option<u32>,
    /// Null if there is no bound, or none was found.
    proven_delay_ns: Option<u64>,
    delay_bound_ns: u64,
    /// Null if the contract is refused.
    buffer_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Stream<'a> {
    name: &'a str,
    upcall: Upcall,
    channel: &'a str,
    /// The memory for frames before the upcall and for messages in the channel.
    buffer_bytes: u64,
    arithmetic: &'a [String],
}

#[derive(Serialize)]
struct Upcall {
    period_ns: u64,
    batch: u32,
    quantum: u32,
    time_per_pdu_ns: u64,
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        page(self).serialize(serializer)
    }
}

fn page(answer: &Answer) -> Page<'_> {
    let Answer { contract, outcome, explanation, host_profile, notes } = answer;
    let room = explanation.as_ref().and_then(|more| more.room.as_ref());
    Page {
        admitted: outcome.is_ok(),
        tasks: tasks(outcome),
        tests: tests(outcome).iter().map(test).collect(),
        reservations: contract
            .reservations
            .iter()
            .enumerate()
            .map(|(at, named)| Reservation {
                name: &named.name,
                budget_ns: named.reservation.budget().as_nanos(),
                period_ns: named.reservation.period().as_nanos(),
                job_within_ns: outcome
                    .as_ref()
                    .ok()
                    .and_then(|grant| grant.reservations.get(at)?.job_within)
                    .map(Duration::as_nanos),
            })
            .collect(),
        channels: channels(outcome),
        streams: streams(answer.mappings()),
        refusal: outcome.as_ref().err().map(|refusal| (&**refusal).into()),
        could_grow: room.map(|room| room.growth.numbers.iter().map(OfferRecord::from).collect()),
        timetable: room.map(|room| &room.timetable[..]),
        host_profile,
        notes,
    }
}

fn tasks(answer: &Result<Grant, Box<Refusal>>) -> Vec<Task<'_>> {
    match answer {
        Ok(grant) => grant
            .tasks
            .iter()
            .map(|task| Task {
                name: &task.name,
                cpu: Some(task.cpu),
                response_time_bound_ns: Some(task.response_time_bound.as_nanos()),
                relative_deadline_ns: task.relative_deadline.as_nanos(),
                slack_ns: i64::try_from(task.slack.as_nanos()).ok(),
                virtual_deadline_ns: task.virtual_deadline.map(Duration::as_nanos),
            })
            .collect(),
        Err(refusal) => refusal
            .tasks
            .iter()
            .map(|task| Task {
                name: &task.name,
                cpu: None,
                response_time_bound_ns: task.bound.map(Duration::as_nanos),
                relative_deadline_ns: task.asked.as_nanos(),
                slack_ns: task.slack_ns().and_then(|slack| i64::try_from(slack).ok()),
                virtual_deadline_ns: None,
            })
            .collect(),
    }
}

fn channels(answer: &Result<Grant, Box<Refusal>>) -> Vec<Channel<'_>> {
    match answer {
        Ok(grant) => grant
            .channels
            .iter()
            .map(|channel| Channel {
                name: &channel.name,
                rank: Some(channel.rank),
                proven_delay_ns: Some(channel.proven_delay.as_nanos()),
                delay_bound_ns: channel.delay_bound.as_nanos(),
                buffer_bytes: Some(channel.buffer),
            })
            .collect(),
        Err(refusal) => refusal
            .channels
            .iter()
            .map(|channel| Channel {
                name: &channel.name,
                rank: None,
                proven_delay_ns: channel.bound.map(Duration::as_nanos),
                delay_bound_ns: channel.asked.as_nanos(),
                buffer_bytes: None,
            })
            .collect(),
    }
}

fn streams(mappings: &[Mapping]) -> Vec<Stream<'_>> {
    mappings
        .iter()
        .map(|mapping| Stream {
            name: &mapping.stream,
            upcall: Upcall {
                period_ns: mapping.upcall.period().as_nanos(),
                batch: mapping.upcall.batch().get(),
                quantum: mapping.upcall.quantum().get(),
                time_per_pdu_ns: mapping.upcall.time_per_pdu().as_nanos(),
            },
            channel: mapping.channel.name(),
            buffer_bytes: mapping.buffers.bytes,
            arithmetic: &mapping.arithmetic,
        })
        .collect()
}

fn tests(answer: &Result<Grant, Box<Refusal>>) -> &[TestReport] {
    match answer {
        Ok(grant) => &grant.tests,
        Err(refusal) => &refusal.tests,
    }
}

fn test(report: &TestReport) -> Test<'_> {
    Test { name: report.name, admits: report.admits, why: &report.why }
}
