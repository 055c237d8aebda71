//! Renders the outcomes as tables and sentences for a person.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Table, presets};
use punctual::simulate::{
    ChannelOutcome, ExecTimes, Outcomes, Pattern, ReceivingOutcome, Report, Search, StreamOutcome,
};
use punctual_model::{Contract, Duration, Instant};

/// The number of releases of a schedule that are shown: the last ones.
const SHOWN: usize = 24;

/// Returns the page; `hint` is its last line.
pub(super) fn page(report: &Report, hint: Option<&str>) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let mut line = |text: &dyn std::fmt::Display| {
        let _ = writeln!(page, "{text}");
    };
    if report.entries().next().is_some() {
        line(&entries(report.entries()));
        line(&"");
    }
    if !report.channels.is_empty() {
        line(&channels(&report.channels));
        line(&"");
    }
    if !report.receiving.is_empty() {
        line(&receiving(&report.receiving));
        line(&"");
    }
    if !report.streams.is_empty() {
        line(&streams(&report.streams));
        line(&"");
    }
    line(&verdict(report));
    let told = coming_and_going(report).into_iter().chain(past_bounds(report));
    let told = told.chain(made_way(report));
    for sentence in told.chain(faults(report)) {
        line(&sentence);
    }
    line(&report.host_profile.line());
    if let Some(hint) = hint {
        line(&hint);
    }
    page
}

/// Returns a table with the numbers aligned to the right.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(header.iter().copied());
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn time(nanos: Option<u64>) -> String {
    nanos.map_or("-".into(), |nanos| Duration::from_nanos(nanos).to_string())
}

fn entries<'a>(entries: impl Iterator<Item = &'a Outcomes>) -> Table {
    let mut table = table(&[
        "task",
        "CPU",
        "jobs",
        "late",
        "gave way",
        "worst response",
        "proven bound",
        "relative deadline",
    ]);
    for entry in entries {
        table.add_row([
            Cell::new(&entry.name),
            Cell::new(entry.cpu),
            Cell::new(entry.jobs),
            Cell::new(entry.late),
            Cell::new(entry.gave_way),
            Cell::new(
                time(entry.max_response_time_ns) + if entry.exceeds_bound { " !" } else { "" },
            ),
            Cell::new(time(entry.response_time_bound_ns)),
            Cell::new(time(Some(entry.relative_deadline_ns))),
        ]);
    }
    table
}

fn channels(channels: &[ChannelOutcome]) -> Table {
    let mut table = table(&[
        "channel",
        "CPU",
        "messages",
        "late",
        "refused",
        "too early",
        "not sent",
        "worst delay",
        "proven bound",
        "delay bound",
    ]);
    for channel in channels {
        table.add_row([
            Cell::new(&channel.name),
            Cell::new(channel.cpu),
            Cell::new(channel.messages),
            Cell::new(channel.late),
            Cell::new(channel.refused),
            Cell::new(channel.not_conforming + channel.too_early),
            Cell::new(channel.not_sent),
            Cell::new(time(channel.max_delay_ns)),
            Cell::new(time(channel.proven_delay_ns)),
            Cell::new(time(Some(channel.delay_bound_ns))),
        ]);
    }
    table
}

fn receiving(channels: &[ReceivingOutcome]) -> Table {
    let mut table = table(&[
        "receives",
        "CPU",
        "messages",
        "discarded",
        "no room",
        "not taken in",
        "worst wait",
    ]);
    for channel in channels {
        table.add_row([
            Cell::new(&channel.name),
            Cell::new(channel.cpu),
            Cell::new(channel.messages),
            Cell::new(channel.non_conforming),
            Cell::new(channel.dropped),
            Cell::new(channel.not_taken()),
            Cell::new(time(channel.max_wait_ns)),
        ]);
    }
    table
}

fn streams(streams: &[StreamOutcome]) -> Table {
    let header = ["stream", "frames", "late", "not sent", "worst delay", "proven bound", "delay"];
    let mut table = table(&header);
    for stream in streams {
        table.add_row([
            Cell::new(&stream.name),
            Cell::new(stream.frames),
            Cell::new(stream.late),
            Cell::new(stream.not_sent),
            Cell::new(time(stream.max_delay_ns)),
            Cell::new(time(stream.proven_delay_ns)),
            Cell::new(time(Some(stream.delay_ns))),
        ]);
    }
    table
}

fn verdict(report: &Report) -> String {
    let mut counts = Vec::new();
    if report.entries().next().is_some() {
        let promised = report.entries().filter(|entry| entry.promised);
        let late: u64 = promised.map(|entry| entry.late).sum();
        let jobs: u64 = report.entries().map(|entry| entry.jobs).sum();
        counts.push(format!("{late} of {jobs} jobs late"));
    }
    if !report.channels.is_empty() {
        let broken: u64 = report.channels.iter().map(ChannelOutcome::broken).sum();
        let messages: u64 = report.channels.iter().map(|channel| channel.messages).sum();
        counts.push(format!("{broken} of {messages} messages not sent in time"));
    }
    if !report.receiving.is_empty() {
        let left: u64 = report.receiving.iter().map(ReceivingOutcome::broken).sum();
        let messages: u64 = report.receiving.iter().map(|channel| channel.messages).sum();
        counts.push(format!("{left} of {messages} received messages not taken in"));
    }
    if !report.streams.is_empty() {
        let broken: u64 = report.streams.iter().map(StreamOutcome::broken).sum();
        let frames: u64 = report.streams.iter().map(|stream| stream.frames).sum();
        counts.push(format!("{broken} of {frames} frames not sent in time"));
    }
    let until = Duration::from_nanos(report.until_ns);
    let arrivals = match report.arrivals {
        Pattern::Periodic => "released together at the critical instant",
        Pattern::Sporadic => "with sporadic arrivals",
        Pattern::Bursty => "in bursts",
        Pattern::Adversarial => "released together 1ns after any longest quantum began",
    };
    let exec_times = match report.exec_times {
        ExecTimes::Worst => "running times at their worst",
        ExecTimes::Drawn => "running times drawn",
    };
    let seed = report.seed.map_or(String::new(), |seed| format!(", seed {seed}"));
    let answer = if report.admitted { "admits" } else { "refuses" };
    let first = if report.joined.is_empty() { "" } else { " as it is in the beginning" };
    let costs = if report.overheads.is_some() { " with these switches" } else { "" };
    format!(
        "{} in {until} of virtual time, {arrivals}, {exec_times}{seed}; admission {answer} this \
         contract{first}{costs}",
        counts.join(" and ")
    )
}

/// Lists the entries that joined and left, and those that were refused.
fn coming_and_going(report: &Report) -> Vec<String> {
    let at = |nanos: u64| Duration::from_nanos(nanos);
    let joined = report.joined.iter().map(|one| {
        let said = match &one.refusal {
            None => "is admitted".into(),
            // It reads "refused by …".
            Some(why) => format!("is {why}"),
        };
        (one.at_ns, format!("\"{}\" asks to join at {} and {said}", one.name, at(one.at_ns)))
    });
    let left = report.left.iter();
    let left = left.map(|one| (one.at_ns, format!("\"{}\" leaves at {}", one.name, at(one.at_ns))));
    let mut both: Vec<(u64, String)> = left.chain(joined).collect();
    both.sort_by_key(|(at, _)| *at);
    both.into_iter().map(|(_, sentence)| sentence).collect()
}

/// Names the entries that exceeded a proven bound. The bounds hold for runs that keep the contract,
/// not for runs with faults.
fn past_bounds(report: &Report) -> Option<String> {
    let past = report.entries().filter(|entry| entry.exceeds_bound);
    let names: Vec<String> = past.map(|entry| format!("\"{}\"", entry.name)).collect();
    (!names.is_empty())
        .then(|| format!("!: past what is proven of runs without faults: {}", names.join(", ")))
}

/// Reports the outcome of the entries of low criticality.
fn made_way(report: &Report) -> Option<String> {
    let one_in = report.high_jobs_one_in?;
    let low = report.entries().filter(|entry| !entry.promised);
    let late: u64 = low.map(|entry| entry.late).sum();
    let jobs = if one_in == 1 { "each job".into() } else { format!("one of {one_in} jobs") };
    Some(format!(
        "{jobs} of high criticality needs its wcet_high: {late} jobs of low criticality are late, which are \
         promised nothing then"
    ))
}

fn faults(report: &Report) -> Vec<String> {
    let (faults, struck) = (&report.faults, report.faults.struck);
    let often = |one_in: u32| match one_in {
        1 => "every job".to_owned(),
        _ => format!("one of {one_in} jobs"),
    };
    let overrun = faults.overrun.map(|overrun| {
        let (percent, often) = (overrun.percent, often(overrun.one_in));
        format!("overruns to {percent} % of the running time in {often}: {}", struck.overruns)
    });
    let extra = faults.extra_releases.map(|extra| {
        format!("extra releases after {}: {}", often(extra.one_in), struck.extra_releases)
    });
    let late = faults.late_timers.map(|late| {
        let most = Duration::from_nanos(late.most_ns);
        format!("timers up to {most} late in {}: {}", often(late.one_in), struck.late_timers)
    });
    let stolen = faults.stolen.as_ref().map(|stolen| {
        let [budget, period, taken] = [stolen.budget_ns, stolen.period_ns, struck.stolen_ns]
            .map(|nanos| Duration::from_nanos(nanos).to_string());
        format!("{budget} stolen in every {period} of each CPU with tasks: {taken}")
    });
    let of_tasks = faults.overrun.is_some() || extra.is_some() || late.is_some();
    let floods = faults.floods.iter().map(|flood| {
        format!("\"{}\" comes {} times as densely as it may", flood.name, flood.times)
    });
    let all = [overrun, extra, late, stolen].into_iter().flatten().chain(floods);
    let mut lines: Vec<String> = all.map(|fault| format!("injected: {fault}")).collect();
    if of_tasks && !report.channels.is_empty() {
        lines.push("overruns, extra releases and late timers strike tasks alone".into());
    }
    lines
}

/// Returns the result of a search.
pub(super) fn witness(page: &Search, contract: &Contract) -> String {
    let answer = if page.admitted { "admits" } else { "refuses" };
    let Some(found) = &page.witness else {
        let mut text = format!(
            "no schedule with a late job was found in {} simulated jobs a CPU; admission {answer} \
             this contract\n",
            page.budget_jobs
        );
        if !(contract.channels.is_empty() && contract.streams.is_empty()) {
            text += "the handlers of channels were left out\n";
        }
        if !contract.reservations.is_empty() {
            text += "reservations used their budgets once a period; admission also counts on budgets \
                     late in one period and early in the next\n";
        }
        return text + &page.host_profile.line() + "\n";
    };
    let mut jobs = table(&["task", "job", "released", "known", "runs for", "due"]);
    let hidden = found.releases.len().saturating_sub(SHOWN);
    for release in &found.releases[hidden..] {
        let [released, known, runs, due] = [
            release.release_ns,
            release.known_ns,
            release.exec_time_ns,
            release.absolute_deadline_ns,
        ]
        .map(|nanos| Duration::from_nanos(nanos).to_string());
        jobs.add_row([release.task.clone(), release.job.to_string(), released, known, runs, due]);
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    if hidden > 0 {
        let _ = writeln!(text, "{hidden} earlier releases, and then");
    }
    let at = Instant::from_nanos;
    let late = at(found.completion_ns) - at(found.absolute_deadline_ns);
    let response = Duration::from_nanos(found.completion_ns - found.release_ns);
    let _ = writeln!(
        text,
        "{jobs}\n\njob {} of task \"{}\" on CPU {}, released at {}, is due at {} and complete at {}: \
         {late} late, {response} after its release; admission {answer} this contract",
        found.job,
        found.task,
        found.cpu,
        Duration::from_nanos(found.release_ns),
        Duration::from_nanos(found.absolute_deadline_ns),
        Duration::from_nanos(found.completion_ns),
    );
    text + &page.host_profile.line() + "\n"
}
