//! The report for the terminal, and its points for plots.

use comfy_table::{Cell, CellAlignment, Table, presets};
use punctual_sweep::sheet::{Sheet, Value};

use super::Run;
use super::report::{ContextReport, DriverReport, Quantiles, Report, pc99};

/// Returns all tables, one after the other.
pub fn text(report: &Report) -> String {
    let mut page = format!(
        "{}\nDriver and callback on CPU {}; {} lines; calls of {:.1} s; {} competitors a CPU; seed {}.\n\
         100 samples each way on all lines, once: {:.1} µs native{}.\n",
        report.host,
        report.cpu,
        report.lines,
        report.length_ns as f64 / 1e9,
        report.competitors_per_cpu,
        report.seed,
        report.native_pass_ns as f64 / 1e3,
        report
            .kernel_pass_ns
            .map_or_else(String::new, |ns| format!(", {:.1} µs in BPF", ns as f64 / 1e3)),
    );
    for context in &report.contexts {
        if let Some(why) = &context.why_not {
            page += &format!("{}: not run: {why}\n", context.context);
        }
    }
    format!("{page}\nThe driver\n{}\n\nBy phase\n{}\n", drivers(report), phases(report))
}

fn head(title: &str, contexts: &[&ContextReport]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    let names = contexts.iter().map(|context| Cell::new(&context.context));
    table.set_header(std::iter::once(Cell::new(title)).chain(names));
    table
}

fn right(mut table: Table) -> Table {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn drivers(report: &Report) -> Table {
    let run: Vec<&ContextReport> =
        report.contexts.iter().filter(|context| context.why_not.is_none()).collect();
    let mut table = head("driver runs as", &run);
    let mut line = |name: &str, value: &dyn Fn(&ContextReport) -> Option<String>| {
        let values = run.iter().map(|c| Cell::new(value(c).unwrap_or_else(|| "-".into())));
        table.add_row(std::iter::once(Cell::new(name)).chain(values));
    };
    let driver = |value: fn(&DriverReport) -> String| {
        move |context: &ContextReport| context.driver.as_ref().map(value)
    };
    line("CPU, %", &driver(|d| format!("{:.1}", d.cpu_percent)));
    line("busy once connected, %", &driver(|d| format!("{:.1}", d.cpu_percent_connected)));
    line("samples lost", &driver(|d| d.samples_lost.to_string()));
    line("bytes in sequence", &driver(|d| d.bytes_good.to_string()));
    line("bytes out of it", &driver(|d| d.bytes_bad.to_string()));
    line("lines intact", &driver(|d| d.lines_intact.to_string()));
    line("most pending before, of 512", &driver(|d| d.most_pending.to_string()));
    line("most pending after", &driver(|d| d.most_pending_after.to_string()));
    line("interrupts missed", &driver(|d| d.missed.to_string()));
    line("beyond PC 99", &|context| {
        context.driver.as_ref()?.beyond_pc99.map(|services| services.to_string())
    });
    type Part = fn(Quantiles) -> u64;
    let parts: [(&str, Part); 3] =
        [("p50", |q| q.p50_ns), ("p99", |q| q.p99_ns), ("max", |q| q.max_ns)];
    for (part, of) in parts {
        line(&format!("driver woken late, µs {part}"), &|context| {
            Some(micros(of(context.driver.as_ref()?.wakeup_latency?)))
        });
    }
    for (part, of) in parts {
        line(&format!("callback late, µs {part}"), &|context| {
            Some(micros(of(context.callback_latency?)))
        });
    }
    line("callback, longest gap, µs", &|context| Some(micros(context.callback_gap?.max_ns)));
    line("stolen by the host, ms", &|context| context.stolen_ms.map(|ms| ms.to_string()));
    right(table)
}

fn phases(report: &Report) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header([
        "phase",
        "driver runs as",
        "passes",
        "services",
        "period, ms p50",
        "min",
        "max",
        "PC 99",
        "elapsed, µs p50",
        "p99",
        "max",
    ]);
    let names: Vec<&str> = report
        .contexts
        .iter()
        .find_map(|context| context.driver.as_ref())
        .map(|driver| driver.phases.iter().map(|phase| phase.phase.name.as_str()).collect())
        .unwrap_or_default();
    for (at, name) in names.iter().enumerate() {
        for context in &report.contexts {
            let Some(driver) = &context.driver else { continue };
            let phase = &driver.phases[at];
            let millis = |ns: u64| format!("{:.3}", ns as f64 / 1e6);
            let period = |of: fn(Quantiles) -> u64| {
                phase.period.map_or_else(|| "-".into(), |q| millis(of(q)))
            };
            let elapsed = |of: fn(Quantiles) -> u64| {
                phase.elapsed.map_or_else(|| "-".into(), |q| micros(of(q)))
            };
            let (least, most) = pc99::PERIOD;
            let kept = (least..=most).contains(&phase.phase.period_ns);
            table.add_row([
                (*name).to_owned(),
                context.context.clone(),
                phase.phase.passes.to_string(),
                phase.services.to_string(),
                period(|q| q.p50_ns),
                period(|q| q.min_ns),
                period(|q| q.max_ns),
                if kept { "kept" } else { "broken" }.to_owned(),
                elapsed(|q| q.p50_ns),
                elapsed(|q| q.p99_ns),
                elapsed(|q| q.max_ns),
            ]);
        }
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn micros(nanos: u64) -> String {
    ((nanos + 500) / 1000).to_string()
}

/// Returns every service of every context, the data of Figures 1 to 9, 14 and 15. Times are in ns.
pub fn services(runs: &[Run]) -> Sheet {
    let time = |nanos: u64| Value::Time(Some(nanos));
    let mut rows = Vec::new();
    for Run { context, plan, served } in runs {
        let mut before = None;
        for service in &served.services {
            let at = service.begin.saturating_since(served.start);
            let gap = before.map(|before| service.begin.saturating_since(before).as_nanos());
            before = Some(service.begin);
            let pending = service.pending_after(served.start);
            rows.push(vec![
                Value::Text(context.name().to_owned()),
                Value::Text(plan.phases()[plan.at(at)].name.clone()),
                time(at.as_nanos()),
                Value::Time(gap),
                time(service.elapsed().as_nanos()),
                Value::Time(service.due.map(|due| service.begin.saturating_since(due).as_nanos())),
                Value::Count(usize::try_from(pending).unwrap_or(usize::MAX)),
            ]);
        }
    }
    Sheet {
        name: "services",
        columns: &[
            ("context", "context"),
            ("phase", "phase"),
            ("at_ns", "at"),
            ("since_previous_ns", "since the one before"),
            ("elapsed_ns", "elapsed"),
            ("wakeup_latency_ns", "woken late by"),
            ("pending_after_samples", "samples pending after"),
        ],
        rows,
    }
}

/// Returns the gaps between wake-ups of the callback, the data of Figures 10 to 13 and 16.
pub fn gaps(report: &Report) -> Sheet {
    let rows = report.contexts.iter().flat_map(|context| {
        context.gaps.iter().map(|&(bucket, count)| {
            vec![
                Value::Text(context.context.clone()),
                Value::Time(Some(bucket * super::report::BUCKET_NS)),
                Value::Count(usize::try_from(count).unwrap_or(usize::MAX)),
            ]
        })
    });
    Sheet {
        name: "callback_gaps",
        columns: &[("context", "context"), ("from_ns", "from"), ("wakeups", "wake-ups")],
        rows: rows.collect(),
    }
}
