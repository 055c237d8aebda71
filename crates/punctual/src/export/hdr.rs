//! Writes HdrHistogram's interval log (version 2, compressed). For every second, each subject has
//! one histogram of its wake-up latencies and one of its response times if there were any, tagged
//! `NAME:wakeup` and `NAME:response`. Values are nanoseconds.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use punctual_trace::{Kind, Subject};

use crate::failure::ExportError;
use crate::trace::{self, Entry, State};

const SECOND: u64 = 1_000_000_000;
/// The longest recorded time, one hour as elsewhere; longer times count as this.
const LONGEST: u64 = 3600 * SECOND;

/// One sample: its second, subject, measure and value.
type Time = (u64, u32, Measure, u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Measure {
    Wakeup,
    Response,
}

pub(super) fn export(path: &Path, out: &mut impl Write) -> Result<State, ExportError> {
    let mut subjects: BTreeMap<u32, Subject> = BTreeMap::new();
    let mut times: Vec<Time> = Vec::new();
    let mut epoch_unix_ns = 0;
    let state = trace::read(path, |told| {
        match told {
            Entry::Run(run) => epoch_unix_ns = run.epoch_unix_ns,
            Entry::Subject(number, subject) => {
                subjects.insert(number, subject);
            }
            Entry::Events(events) => times.extend(events.iter().filter_map(|event| {
                let measure = match event.kind {
                    Kind::Start => Measure::Wakeup,
                    Kind::Complete => Measure::Response,
                    _ => return None,
                };
                let time = event.at.saturating_since(event.release).as_nanos();
                Some((event.at.as_nanos() / SECOND, event.job.task, measure, time))
            })),
            Entry::ConstraintRequest(_)
            | Entry::Lost(_)
            | Entry::Missing(_)
            | Entry::Verdict(_)
            | Entry::End(_) => {}
        }
        Ok::<(), ExportError>(())
    })?;
    // A trace is in order of time only within a subject, but a log is throughout.
    times.sort_unstable();
    write(&times, &subjects, epoch_unix_ns, out)?;
    Ok(state)
}

fn write(
    times: &[Time],
    subjects: &BTreeMap<u32, Subject>,
    epoch_unix_ns: i64,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    let first = times.first().map_or(0, |time| time.0);
    let since_1970 = Duration::from_nanos(u64::try_from(epoch_unix_ns).unwrap_or(0));
    let start: SystemTime = UNIX_EPOCH + since_1970 + Duration::from_secs(first);
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("punctual: times in ns, from release to start (wakeup), to end (response)");
    builder.with_start_time(start).with_base_time(start);
    let mut log = builder.begin_log_with(out, &mut serializer)?;
    for same in times.chunk_by(|a, b| (a.0, a.1, a.2) == (b.0, b.1, b.2)) {
        let (second, number, measure, _) = same[0];
        let mut histogram = Histogram::<u64>::new_with_bounds(1, LONGEST, 3)
            .expect("1 ns to an hour at three digits are bounds the library accepts");
        for (.., nanos) in same {
            histogram.saturating_record(*nanos);
        }
        let name = subjects.get(&number).map_or("", |subject| &*subject.name);
        let tag = tag(name, number, measure);
        let from = Duration::from_secs(second - first);
        log.write_histogram(&histogram, from, Duration::from_secs(1), Tag::new(&tag))
            .map_err(|error| std::io::Error::other(format!("{error:?}")))?;
    }
    Ok(())
}

/// Returns a tag that the format accepts: without blanks and commas.
fn tag(name: &str, number: u32, measure: Measure) -> String {
    let plain = |c: char| if c == ',' || c.is_whitespace() || c.is_control() { '_' } else { c };
    let name: String = name.chars().map(plain).collect();
    let measure = match measure {
        Measure::Wakeup => "wakeup",
        Measure::Response => "response",
    };
    format!("{name}#{number}:{measure}")
}
